"""The script: its bytes, its module, and which of its functions are tools."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import ModuleType
    from typing import Any

VARARGS, KEYWORDS, _GENERATOR, _COROUTINE, _ASYNC_GENERATOR = 0x04, 0x08, 0x20, 0x80, 0x200
"""Flags of code objects, as `inspect` has them."""
_UNBOUND = (
    "it is the method '{method}' of the class '{owner}' without an object, so that a model would have to pass one; "
    "make an object and use its bound method, as {owner}(…).{method}"
)
_OBJECT = (
    "its first parameter '{name}' is an object, which a model cannot pass, as of a method without its object; "
    "use the bound method of an object"
)


class LoadedScript:
    def __init__(self, sha256: str, functions: dict[str, Callable[..., Any]], skipped: list[dict[str, str]]) -> None:
        self.sha256 = sha256
        self.functions = functions
        self.skipped = skipped


def load(path: str, source: bytes | None = None) -> LoadedScript:
    """Execute the file as a module that is not `__main__`. Raises whatever it raises.

    `source` is its content; if it is not given, the file is read.
    """
    path = os.path.abspath(path)
    if source is None:
        file = os.open(path, os.O_RDONLY)
        try:
            source = b"".join(iter(lambda: os.read(file, 1 << 20), b""))
        finally:
            os.close(file)
    directory, _, name = path.rpartition("/")
    name = name[:-3] if name.endswith(".py") else name
    if name in sys.modules:  # such as time.py
        name = f"toolrun_script_{name}"
    sys.path.insert(0, directory)
    sys.argv = [path]
    module = type(sys)(name)
    module.__file__ = path
    sys.modules[name] = module  # dataclasses, pickle and others look up a class's module by its name
    exec(compile(source, path, "exec", dont_inherit=True), module.__dict__)
    functions, skipped = find_functions(module)
    return LoadedScript(_sha256(source), functions, skipped)


def _sha256(data: bytes) -> str:
    # hashlib loads OpenSSL, which takes 4 ms; to look for what is not there takes 0.3 ms.
    for name in ("_sha2" if sys.version_info >= (3, 12) else "_sha256", "hashlib"):
        try:
            return str(__import__(name).sha256(data).hexdigest())
        except ImportError:
            continue
    return ""


def place(error: BaseException, path: str) -> str:
    """Where in the script it happened."""
    if isinstance(error, SyntaxError):
        return ""  # its text says so itself
    line, traceback = 0, error.__traceback__
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == os.path.abspath(path):
            line = traceback.tb_lineno
        traceback = traceback.tb_next
    return f" (line {line})" if line else ""


def find_functions(module: ModuleType) -> tuple[dict[str, Callable[..., Any]], list[dict[str, str]]]:
    """The tools of a module by name, and the functions that cannot be tools, each with the reason."""
    chosen = getattr(module, "__all__", None)
    found: dict[str, Any] = {}
    skipped: list[dict[str, str]] = []
    for name, value in _candidates(module) if chosen is None else _chosen(module, chosen):
        reason = "it is in __all__, but not in the script" if value is None else refusal_of(value)
        if reason:
            skipped.append({"name": name, "reason": reason})
        else:
            found[name] = value
    return found, skipped


def _candidates(module: ModuleType) -> Iterable[tuple[str, Any]]:
    """The public functions that the script itself defines, once each."""
    met: set[int] = set()
    for name, value in list(vars(module).items()):
        code = getattr(unwrapped(value), "__code__", None)
        if name.startswith("_") or isinstance(value, type) or code is None or id(value) in met:
            continue
        if getattr(value, "__module__", None) == module.__name__ and code.co_name != "<lambda>":
            met.add(id(value))
            yield name, value


def _chosen(module: ModuleType, names: Iterable[str]) -> Iterable[tuple[str, Any]]:
    for name in dict.fromkeys(names):
        yield str(name), getattr(module, name, None)


def refusal_of(value: Any) -> str:
    """Why something cannot be a tool; empty if it can. The same for the host's functions."""
    method = _unbound_method(value)
    if method:
        return method
    if isinstance(value, type) or not callable(value):
        return f"it is a {'class' if isinstance(value, type) else type(value).__name__}, not a function"
    if _flags(value) & (_GENERATOR | _ASYNC_GENERATOR):
        return "it is a generator; return a list instead"
    code = _code_of(unwrapped(value))
    name = "" if code is None else unnamed_parameter(code)
    return f"parameter '{name}' cannot be passed by name; a model passes all arguments by name" if name else ""


def _unbound_method(function: Any) -> str:
    """Why a function is no tool, if it is a method that has not got its object; otherwise empty."""
    if type(function).__name__ in ("classmethod", "partialmethod", "singledispatchmethod"):
        name = getattr(getattr(function, "__func__", None) or getattr(function, "func", None), "__qualname__", "")
        owner, _, method = name.rpartition(".")
        return _UNBOUND.format(owner=owner.rpartition(".")[2] or "Class", method=method or "method")
    if type(function).__name__ == "partial":
        is_filled = function.args or not {"self", "cls"}.isdisjoint(function.keywords)
        return "" if is_filled else _unbound_method(function.func)
    target = unwrapped(function)
    path = str(getattr(function, "__qualname__", "")).split(".")
    code = getattr(target, "__code__", None)
    if code is None or hasattr(function, "__self__") or not code.co_argcount:
        return ""
    first = code.co_varnames[0]
    if len(path) < 2 or path[-2] == "<locals>":  # put on a class later, or made by a decorator that does not say so
        has_hint = first in getattr(target, "__annotations__", ())
        return _OBJECT.format(name=first) if first in ("self", "cls") and not has_hint else ""
    if isinstance(function, staticmethod) or (first not in ("self", "cls") and _is_static(target, path) is not False):
        return ""
    return _UNBOUND.format(owner=path[-2], method=path[-1])


def _is_static(function: Any, path: list[str]) -> bool | None:
    """Whether the class in which a function is defined has it as a static method. None if that cannot be told."""
    found: Any = sys.modules.get(function.__module__)
    for name in path[:-1]:
        found = getattr(found, name, None)
    if not isinstance(found, type) or path[-1] not in vars(found):
        return None
    return isinstance(vars(found)[path[-1]], staticmethod)


def unnamed_parameter(code: Any) -> str:
    """The first parameter that cannot be passed by name, or empty."""
    if code.co_flags & VARARGS:
        return str(code.co_varnames[code.co_argcount + code.co_kwonlyargcount])
    return str(code.co_varnames[0]) if code.co_posonlyargcount else ""


def is_async(function: Callable[..., Any]) -> bool:
    """Whether it says so itself, with `async def` or `inspect.markcoroutinefunction`."""
    return bool(_flags(function) & _COROUTINE) or hasattr(without_partial(function), "_is_coroutine_mark")


def _flags(function: Any) -> int:
    """The flags of what is called, not of what it wraps: a decorator may make a list of a generator."""
    code = _code_of(unwrapped(without_partial(function), _code_of))
    return int(getattr(code, "co_flags", 0))


def _code_of(function: Any) -> Any:
    """Of a function, or of an object that can be called."""
    return getattr(function, "__code__", None) or getattr(type(function).__call__, "__code__", None)


def without_partial(function: Any) -> Any:
    """The function that a partial object calls; any other as it is."""
    while type(function).__module__ == "functools" and hasattr(function, "func"):
        function = function.func
    return function


def unwrapped(function: Any, is_found: Callable[[Any], Any] | None = None) -> Any:
    """The function behind its decorators, or the first that `is_found`; `functools.wraps` sets `__wrapped__`."""
    met: set[int] = set()
    while hasattr(function, "__wrapped__") and id(function) not in met and not (is_found and is_found(function)):
        met.add(id(function))
        function = function.__wrapped__
    return function
