"""One function of a script, as a tool: sends a call to the pool of the script's current version.

Which version that is, and when the file may be half saved, is known to its `Script`.
"""

from __future__ import annotations

from collections.abc import Mapping
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from toolrun.errors import CallError, SideEffects, WorkerLostError
from toolrun.json import JSON, Schema
from toolrun.logger import get_logger
from toolrun.result import Large
from toolrun.schema.origin import Origin
from toolrun.scripts.pool import RetiredError
from toolrun.scripts.request import Request
from toolrun.scripts.script_version import Declared
from toolrun.tools.context import Call, current_call
from toolrun.tools.effects import Effects, read_effects
from toolrun.tools.key_argument import KeyArgument

if TYPE_CHECKING:
    from toolrun.scripts.source import Script


logger = get_logger("toolrun.worker")

_REPEATABLE: Final = frozenset({Effects.NONE, Effects.IDEMPOTENT, Effects.KEYED})
"""What may be done again without being asked: nothing more than once comes of it."""


class ScriptTool:
    """A function of a script."""

    isolated = True
    """It runs in a process, which is killed when a call is given up."""
    schema_origin = Origin.SIGNATURE
    __slots__ = (
        "_config",
        "_retries",
        "_script",
        "_secrets",
        "_sends_key",
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
        settings = script.settings(name)
        keyed = Effects.KEYED if settings.key_argument else None
        known = read_effects(settings.effects or keyed or declared.effects)
        self._retries = settings.retries if known in _REPEATABLE else 0
        self._sends_key = self._retries > 0 and known is Effects.KEYED
        self._config, self._secrets = script.granted(name, declared)

    async def ainvoke(self, arguments: dict[str, JSON]) -> JSON | Large:
        try:
            return await self._invoke(arguments, is_repeated=False)
        except WorkerLostError as error:
            if not self._retries or error.side_effects is SideEffects.NOT_STARTED:
                raise
            lost = error
        for attempt in range(1, self._retries + 1):
            logger.info("%s: the call is made again (%d of %d): %s", self.name, attempt, self._retries, lost)
            try:
                return await self._invoke(arguments, is_repeated=True)
            except CallError as failure:
                if failure.side_effects is SideEffects.NOT_STARTED:  # of this attempt: the first one may have acted
                    raise lost from failure
                if not isinstance(failure, WorkerLostError):
                    raise
                lost = failure
        raise lost

    async def _invoke(self, arguments: dict[str, JSON], *, is_repeated: bool) -> JSON | Large:
        call = current_call.get()
        script = self._script
        script.look(perf_counter() if call is None else call.started)
        while True:
            if call is not None and not is_repeated:
                call.phase = "its script was being saved"
            pool = await script.current_pool()
            request = Request(
                self.function,
                arguments,
                self._config,
                self._secrets,
                call,
                is_repeated=is_repeated,
                sends_key=self._sends_key,
            )
            try:
                return await pool.run(request)
            except RetiredError:  # it was edited while this call waited: the new version takes it
                continue
            except CallError as error:
                if call is not None and not is_repeated and error.side_effects is SideEffects.NOT_STARTED:
                    call.phase = "its script was being saved"
                if error.side_effects is not SideEffects.NOT_STARTED or not await script.has_replaced(pool):
                    raise

    def submit(self, call: Call) -> Request | None:
        """The same without a coroutine, if a worker is free at this moment; None if not."""
        script = self._script
        if self._retries or (call.started >= script.next_look and not script.look(call.started)):
            return None
        request = Request(self.function, call.arguments, self._config, self._secrets, call)
        return request if script.pool.submit(request) else None
