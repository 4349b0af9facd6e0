"""Puts a process behind the walls that its policy asks for and this system allows: a `ProcessSpec` in, another one out.

A system that lacks the rung that the user demands does not start the process.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from toolrun.errors import SideEffects, UnavailableError
from toolrun.processes.engine import Confinement, ProcessSpec
from toolrun.processes.sandbox.command import covered_paths, worker_command, worker_plan
from toolrun.processes.sandbox.policy import OFF, Policy, ProjectPaths
from toolrun.processes.sandbox.startup_variables import split_variables
from toolrun.processes.sandbox.system_support import (
    BUBBLEWRAP,
    NAMESPACES,
    NONE,
    RUNGS,
    SEATBELT,
    SandboxProbeError,
    SystemSupport,
    find_support,
    forget_support,
)

_SUPERVISED: Final = sys.platform == "linux"


class SandboxUnavailableError(UnavailableError):
    """This system cannot enforce a sandbox as the user demands it."""

    side_effects = SideEffects.NOT_STARTED


class Sandboxes:
    """The sandboxes of a project. What the system allows is found out when the first one is needed."""

    def __init__(
        self, cache: Path, project_paths: ProjectPaths, required: str = NONE, support: SystemSupport | None = None
    ) -> None:
        self.project_paths = project_paths
        self._cache = cache
        self._required = required
        self._support = support

    async def support(self) -> SystemSupport:
        """What this system allows. Raises SandboxUnavailableError if that cannot be found out now."""
        if self._support is None:
            try:
                self._support = await asyncio.to_thread(find_support, self._cache)
            except SandboxProbeError as error:
                raise SandboxUnavailableError(f"{error}. Nothing was started with less; try again.") from error
        return self._support

    def forget(self) -> None:
        """A start has failed, so that what was found out may be wrong."""
        self._support = None
        forget_support(self._cache)

    async def confine(
        self, spec: ProcessSpec, policy: Policy, arguments: Sequence[str], memory: int | None
    ) -> ProcessSpec:
        """The same process behind walls. `arguments` are those of the worker. Raises SandboxUnavailableError."""
        if policy.level == OFF:
            return confine_off(spec, policy, arguments, memory)
        support = await self.support()
        self._check(spec.name, policy, support)
        variables, late = split_variables(spec.variables, policy, spec.directory)
        return replace(
            spec,
            variables=variables if support.rung != SEATBELT else spec.variables,
            confinement=Confinement(
                command=partial(worker_command, policy, support.rung, arguments),
                plan=partial(worker_plan, policy, support.rung, support.abi, memory, variables=late),
                rung=support.rung,
                has_namespace=support.rung in (NAMESPACES, BUBBLEWRAP),
                has_temporary=support.rung != NONE,
                covered=partial(covered_paths, policy) if support.rung in (NAMESPACES, BUBBLEWRAP) else tuple,
                on_failure=self.forget,
                hosts=policy.net if isinstance(policy.net, tuple) else (),
            ),
        )

    def _check(self, name: str, policy: Policy, support: SystemSupport) -> None:
        if RUNGS.index(support.rung) < RUNGS.index(self._required):
            reasons = "; ".join(f"{rung}: {reason}" for rung, reason in support.refused.items())
            raise SandboxUnavailableError(
                f"'{name}' was not started: toolrun.toml requires the sandbox '{self._required}', and this system "
                f"allows '{support.rung}' ({reasons}). Change [workers] sandbox_required to run it with less."
            )
        if isinstance(policy.net, tuple) and support.rung != NAMESPACES:
            raise SandboxUnavailableError(
                f"'{name}' was not started: a list of hosts in [{policy.section}] net needs the sandbox 'namespaces', "
                f"and this system allows '{support.rung}'. Use net = true or net = false."
            )


def confine_off(spec: ProcessSpec, policy: Policy, arguments: Sequence[str], memory: int | None) -> ProcessSpec:
    """No walls; but what the process starts ends with it, where the system can do that."""
    if not _SUPERVISED:
        return replace(spec, arguments=(*spec.arguments, *arguments))
    command = partial(worker_command, policy, NONE, arguments)
    plan = partial(worker_plan, policy, NONE, 0, memory)
    return replace(spec, confinement=Confinement(command, plan, OFF))
