from typing import Annotated, Any

from fastapi import Depends, FastAPI
from fastapi.testclient import TestClient

from toolrun import ToolExecutor
from toolrun.adapters import get_executor, runtime_lifespan

app = FastAPI(lifespan=runtime_lifespan("toolrun.toml"))


@app.post("/tools/{name}")
async def call(
    name: str, arguments: dict[str, Any], executor: Annotated[ToolExecutor, Depends(get_executor)]
) -> dict[str, object]:
    return dict((await executor.execute(name, arguments)).to_dict())


def try_it(path: str, arguments: dict[str, object]) -> dict[str, object]:
    with TestClient(app) as client:
        return dict(client.post(path, json=arguments).json())
