"""What can be called besides functions, and what of it is a tool."""

import asyncio
import functools


def _numbers(count: int = 2):
    """Count."""
    yield from range(count)


async def _later(count: int = 2):
    """Count later."""
    return count


async def _numbers_later(count: int = 2):
    yield count


class _Generator:
    def __call__(self, count: int = 2):
        yield count


class _Inherited(_Generator):
    pass


class _AsyncGenerator:
    async def __call__(self, count: int = 2):
        yield count


class _Caller:
    """Count as an object."""

    async def __call__(self, count: "int" = 2):
        """Count when called."""
        return count

    async def method(self, count: int = 2):
        """Count as a method."""
        return count

    def numbers(self, count: int = 2):
        yield count


caller = _Caller()
method = caller.method
partial_caller = functools.partial(caller)
partial_method = functools.partial(method)
partial_later = functools.partial(functools.partial(_later), count=3)


@functools.wraps(_numbers)
def listed(*args, **kwargs):
    return list(_numbers(*args, **kwargs))


@functools.wraps(_later)
def waited(*args, **kwargs):
    return asyncio.run(_later(*args, **kwargs))


@functools.wraps(_later)
def unawaited(*args, **kwargs):
    return _later(*args, **kwargs)


cached = functools.lru_cache(listed)

generator = _numbers
generator_method = caller.numbers
async_generator = _numbers_later
called_generator = _Generator()
inherited_generator = _Inherited()
called_async_generator = _AsyncGenerator()
partial_generator = functools.partial(_numbers)
partial_async_generator = functools.partial(_numbers_later, count=1)
partial_generator_method = functools.partial(generator_method)
module = functools

TOOLS = ["caller", "method", "partial_caller", "partial_method", "partial_later"]
TOOLS += ["listed", "waited", "unawaited", "cached"]
GENERATORS = [name for name in list(globals()) if name.endswith(("generator", "generator_method"))]
__all__ = [*TOOLS, *GENERATORS, "module"]
