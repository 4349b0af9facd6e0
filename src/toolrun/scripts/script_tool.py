"""One function of a script, as a tool: sends a call to the pool of the script's current version.

Which version that is, and when the file may be half saved, is known to its `Script`.
"""

from __future__ import annotations

from collections.abc import Mapping
from time import perf_counter
from typing import TYPE_CHECKING, Any

from toolrun.errors import CallError, SideEffects
from toolrun.json import JSON, Schema
from toolrun.result import Large
from toolrun.schema.origin import Origin
from toolrun.scripts.pool import RetiredError
from toolrun.scripts.request import Request
from toolrun.scripts.script_version import Declared
from toolrun.tools.context import Call, current_call
from toolrun.tools.effects import read_effects
from toolrun.tools.key_argument import KeyArgument

if TYPE_CHECKING:
    from toolrun.scripts.source import Script


class ScriptTool:
    """A function of a script."""

    isolated = True
    """It runs in a process, which is killed when a call is given up."""
    schema_origin = Origin.SIGNATURE
    __slots__ = (
        "_config",
        "_script",
        "_secrets",
        "description",
        "effects",
        "function",
        "is_async",
        "key_argument",
        "name",
        "schema",
        "source",
        "timeout",
        "verifier",
    )

    def __init__(
        self,
        script: Script,
        name: str,
        about: Mapping[str, Any],
        declared: Declared,
        verifier: ScriptTool | None = None,
    ) -> None:
        self._script = script
        self.source = script.path
        self.name = name
        self.function = str(about["name"])
        self.description = str(about.get("description") or "")
        self.schema: Schema = about["schema"]
        self.is_async = True
        self.timeout = declared.timeout
        self.key_argument: KeyArgument | None = None
        self.effects = read_effects(declared.effects)
        self.verifier = verifier
        """Finds out whether a call has acted."""
        self._config, self._secrets = script.granted(name, declared)

    async def ainvoke(self, arguments: dict[str, JSON]) -> JSON | Large:
        call = current_call.get()
        script = self._script
        script.look(perf_counter() if call is None else call.started)
        while True:
            if call is not None:
                call.phase = "its script was being saved"
            pool = await script.current_pool()
            try:
                return await pool.run(Request(self.function, arguments, self._config, self._secrets, call))
            except RetiredError:  # it was edited while this call waited: the new version takes it
                continue
            except CallError as error:
                if call is not None and error.side_effects is SideEffects.NOT_STARTED:
                    call.phase = "its script was being saved"
                if error.side_effects is not SideEffects.NOT_STARTED or not await script.has_replaced(pool):
                    raise

    def submit(self, call: Call) -> Request | None:
        """The same without a coroutine, if a worker is free at this moment; None if not."""
        script = self._script
        if call.started >= script.next_look and not script.look(call.started):
            return None
        request = Request(self.function, call.arguments, self._config, self._secrets, call)
        return request if script.pool.submit(request) else None
