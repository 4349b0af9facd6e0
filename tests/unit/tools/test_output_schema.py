"""What a function says that it returns becomes a schema, and what it returns fits it."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, NotRequired, Optional, TypedDict

import jsonschema_rs
import pytest
from pydantic import BaseModel, Field

from toolrun import FunctionTool, ToolExecutor


class Colour(Enum):
    RED = "red"


@dataclass
class Lamp:
    name: str
    colour: Colour = Colour.RED
    since: datetime = field(default_factory=lambda: datetime(2026, 1, 2, tzinfo=UTC))
    tags: tuple[str, ...] = ("a",)
    place: tuple[float, float] | None = None
    fades: timedelta = timedelta(seconds=1.5)
    price: Decimal = Decimal("3.10")
    count: Decimal = Decimal(3)


class Room(TypedDict):
    lamps: list[Lamp]
    built: NotRequired[date]


class House(BaseModel):
    rooms: dict[str, int]
    colour: Colour = Colour.RED
    street: str = Field(default="x", alias="streetName", description="Where it is.")


def lamp() -> Lamp:
    """A lamp."""
    return Lamp("one", place=(1.0, 2.0))


def room() -> Room:
    """A room."""
    return {"lamps": [lamp()], "built": date(2020, 1, 1)}


async def house() -> House:
    """A house."""
    return House(rooms={"kitchen": 1}, streetName="Main")


def annotated() -> Annotated[Lamp, "a lamp"]:
    """A lamp."""
    return lamp()


class Maker:
    """Makes lamps."""

    def __call__(self, name: str) -> Lamp:
        return Lamp(name)


@pytest.mark.parametrize("function", [lamp, room, house, annotated, functools.partial(lamp), Maker().__call__])
async def test_the_result_of_a_function_fits_its_schema(function: Any, executor: ToolExecutor) -> None:
    made = executor.manager.add(FunctionTool(function, name="made", description="Made."))
    schema = made.output_schema
    assert schema is not None
    assert schema["type"] == "object"
    jsonschema_rs.meta.validate(schema)
    result = await executor.execute("made", {"name": "x"} if "name" in made.schema["properties"] else {})
    assert result.success
    jsonschema_rs.validator_for(schema).validate(result.result)


def test_the_schema_says_what_is_in_the_result() -> None:
    schema: Any = FunctionTool(house).output_schema
    assert sorted(schema["properties"]) == ["colour", "rooms", "street"]
    assert schema["properties"]["street"]["description"] == "Where it is."


def nothing() -> None:
    """Nothing."""


def number() -> int:
    """A number."""
    return 1


def maybe() -> Optional[Lamp]:  # noqa: UP045  as people write it
    """A lamp, or none."""
    return None


def lamps() -> list[Lamp]:
    """Lamps."""
    return []


def any_object() -> dict[str, int]:
    """An object."""
    return {}


def unsaid():  # type: ignore[no-untyped-def]
    """Something."""


def unknown() -> Any:
    """Something."""


@pytest.mark.parametrize("function", [nothing, number, maybe, lamps, any_object, unsaid, unknown])
def test_anything_but_an_object_with_known_fields_has_no_schema(function: Any) -> None:
    assert FunctionTool(function).output_schema is None


def test_hints_for_clients_are_kept() -> None:
    assert FunctionTool(lamp).annotations == {}
    assert FunctionTool(lamp).title is None
    made = FunctionTool(lamp, title="A lamp", annotations={"readOnlyHint": True}, effects="idempotent")
    assert made.title == "A lamp"
    assert made.annotations == {"idempotentHint": True, "readOnlyHint": True}
    assert FunctionTool(lamp, annotations={"idempotentHint": False}, effects="idempotent").annotations == {
        "idempotentHint": False
    }
