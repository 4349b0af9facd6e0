"""The base of all settings: a subclass is a frozen dataclass.

`@dataclass(frozen=True)` writes and compiles seven methods for each class. For the twelve classes of model.py, that
took a quarter of the time in which toolrun is imported; so all of them but `__init__` are written here, once.
"""

from __future__ import annotations

from dataclasses import Field, FrozenInstanceError, dataclass, field, fields
from typing import Any, ClassVar, dataclass_transform


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Settings:
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def __init_subclass__(cls) -> None:
        dataclass(repr=False, eq=False)(cls)

    def __setattr__(self, name: str, value: object) -> None:
        if name in self.__dict__ or name not in self.__dataclass_fields__:  # __init__ sets each field once
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        self.__dict__[name] = value

    def __delattr__(self, name: str) -> None:
        raise FrozenInstanceError(f"cannot delete field {name!r}")

    def __eq__(self, other: object) -> bool:
        return self.__dict__ == other.__dict__ if type(other) is type(self) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self.__dict__.values()))

    def __repr__(self) -> str:
        shown = ", ".join(f"{it.name}={getattr(self, it.name)!r}" for it in fields(self) if it.repr)
        return f"{type(self).__name__}({shown})"
