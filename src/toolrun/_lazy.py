"""Public names of a package that are imported when they are first asked for, so that importing it costs nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module

Missing = Callable[[str, ModuleNotFoundError], Exception | None]


def export(
    package: str, modules: Mapping[str, Sequence[str]], missing: Missing | None = None
) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """The `__getattr__`, `__dir__` and `__all__` of a package whose modules have these names.

    A module of another package is named in full, from `toolrun.` on.
    `missing` may say what to raise instead when a module cannot be imported for want of a package.
    """
    home = {name: module for module, names in modules.items() for name in names}
    hidden = home.keys() & modules.keys()  # importing a module sets its own name in the package
    assert not hidden, f"{package}: a module hides the public name {hidden}"

    def get(name: str) -> object:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            module = home[name] if home[name].startswith("toolrun.") else f"{package}.{home[name]}"
            value: object = getattr(import_module(module), name)
        except ModuleNotFoundError as error:
            instead = None if missing is None else missing(home[name], error)
            if instead is None:
                raise
            raise instead from error
        setattr(sys.modules[package], name, value)
        return value

    return get, lambda: sorted(home), list(home)
