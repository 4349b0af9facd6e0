"""Devices in words for a model, and as data for a program. Pure."""

from __future__ import annotations

import datetime

from zwave_house import Device, Measurement
from zwave_topics import JSON

FULL_LEVEL = 99
"""The brightest that a Z-Wave dimmer knows; people say 100 %."""


def percent(level: JSON) -> int | None:
    return None if not isinstance(level, (int, float)) else 100 if level >= FULL_LEVEL else int(level)


def describe_state(device: Device) -> str:
    """`on`, `off`, `on at 40 %`: what a switch has last reported."""
    state = device.state()
    if state is None:
        return "state unknown"
    if device.kind == "dimmer":
        level = percent(state)
        return "off" if level == 0 else f"on at {level} %" if level is not None else "state unknown"
    return "on" if state is True else "off" if state is False else "state unknown"


def describe_measurement(it: Measurement) -> str:
    value = {True: "yes", False: "no"}[it.value] if isinstance(it.value, bool) else it.value
    return f"{it.label}: {value}{f' {it.unit}' if it.unit else ''}"


def describe_age(seconds: float) -> str:
    """`just now`, `1 minute ago`, `3 hours ago`."""
    for size, unit in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if (count := int(seconds // size)) >= 1:
            return f"{count} {unit}{'' if count == 1 else 's'} ago"
    return "just now"


def timestamp(seconds: float | None) -> str | None:
    if seconds is None:
        return None
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).isoformat(timespec="seconds")


def to_json(device: Device) -> dict[str, JSON]:
    facts: dict[str, JSON] = {
        "name": device.name,
        "location": device.location,
        "kind": device.kind,
        "isAvailable": None if device.status is None else device.status.is_available,
        "status": None if device.status is None else device.status.text,
    }
    if device.kind in ("dimmer", "switch"):
        facts["state"] = describe_state(device)
    if device.kind == "dimmer":
        facts["level"] = percent(device.state())
    facts["measurements"] = [
        {"label": it.label, "value": it.value, "unit": it.unit, "time": timestamp(it.time)}
        for it in device.measurements()
    ]
    return facts
