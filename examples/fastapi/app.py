from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request
from fastapi.testclient import TestClient

from toolrun import Runtime


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[dict[str, object]]:
    async with Runtime.open("toolrun.toml") as runtime:
        yield {"executor": runtime.executor}


app = FastAPI(lifespan=lifespan)


@app.post("/tools/{name}")
async def call(name: str, arguments: dict[str, object], request: Request) -> dict[str, object]:
    result = await request.state.executor.execute(name, arguments)
    return dict(result.to_dict())


def try_it(path: str, arguments: dict[str, object]) -> dict[str, object]:
    with TestClient(app) as client:
        return dict(client.post(path, json=arguments).json())
