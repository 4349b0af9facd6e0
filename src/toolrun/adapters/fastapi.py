"""FastAPI and Starlette: a runtime that opens and closes with the application.

app = FastAPI(lifespan=runtime_lifespan())

@app.post("/light")
async def light(on: bool, executor: Annotated[ToolExecutor, Depends(get_executor)]) -> dict: …
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Final

from starlette.requests import HTTPConnection

from toolrun.errors import UsageError
from toolrun.execution.executor import ToolExecutor
from toolrun.runtime import Runtime

if TYPE_CHECKING:
    from pathlib import Path

    from toolrun.config.model import Config

_KEY: Final = "toolrun"

Lifespan = Callable[[Any], AbstractAsyncContextManager[Any]]


def runtime_lifespan(
    source: str | Path | Config | None = None, *, inner: Lifespan | None = None, **options: Any
) -> Callable[[Any], AbstractAsyncContextManager[dict[str, Any]]]:
    """The lifespan of an application with a runtime.

    `source` and `options` are those of `Runtime.open`; `inner` is the application's own lifespan, which begins once the
    runtime is open and ends before it.
    """

    @asynccontextmanager
    async def lifespan(app: Any) -> AsyncIterator[dict[str, Any]]:
        own = nullcontext() if inner is None else inner(app)
        async with Runtime.open(source, **options) as runtime, own as state:
            yield {**(state or {}), _KEY: runtime}

    return lifespan


def get_runtime(connection: HTTPConnection) -> Runtime:
    """The runtime of the application, for `Depends`: of a request, or of a WebSocket."""
    runtime = getattr(connection.state, _KEY, None)
    if runtime is None:
        raise UsageError("The application has no runtime: make it with FastAPI(lifespan=runtime_lifespan(…)).")
    assert isinstance(runtime, Runtime)
    return runtime


def get_executor(connection: HTTPConnection) -> ToolExecutor:
    """The executor of the application's runtime, for `Depends`."""
    return get_runtime(connection).executor
