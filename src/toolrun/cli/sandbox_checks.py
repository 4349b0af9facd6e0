"""What `toolrun doctor` says of the sandbox: what this system enforces, and what each script gets and asks for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from toolrun.cli.doctor_check import OK, PROBLEM, WARNING, DoctorCheck
from toolrun.cli.summary import relative
from toolrun.config.model import Permissions
from toolrun.processes.sandbox.policy import OFF
from toolrun.processes.sandbox.system_support import BUBBLEWRAP, RUNGS, SandboxProbeError, SystemSupport, find_support
from toolrun.runtime import Runtime
from toolrun.scripts.script_sandbox import granted, script_level, ungranted
from toolrun.text import section


def look_at_sandbox(required: str, cache: Path) -> DoctorCheck:
    """The check of this system. Blocks."""
    try:
        return sandbox_check(required, find_support(cache))
    except SandboxProbeError as error:
        return DoctorCheck(PROBLEM, "sandbox", f"{error}; no sandboxed script runs", "try again when less is running")


def sandbox_check(required: str, support: SystemSupport) -> DoctorCheck:
    """What enforces the sandbox of scripts on this system, what it leaves open, and why it is not more."""
    about = f"{support.rung} (Landlock {support.abi})" if support.abi else support.rung
    more = [f"gap: {gap}" for gap in support.gaps()]
    more += [f"{rung} does not work here: {reason}" for rung, reason in support.refused.items()]
    if RUNGS.index(support.rung) < RUNGS.index(required):
        about = f"{about}, but toolrun.toml requires {required}: no sandboxed script runs"
        advice = f"allow {required} on this system, or change [workers] sandbox_required"
        return DoctorCheck(PROBLEM, "sandbox", "\n".join([about, *more]), advice)
    if support.gaps() and not (support.abi and RUNGS.index(support.rung) >= RUNGS.index(BUBBLEWRAP)):
        missing = "allow user namespaces, or install bubblewrap" if support.abi else "start the kernel with Landlock"
        advice = f"{missing}; [workers] sandbox_required refuses to run with less"
        return DoctorCheck(WARNING, "sandbox", "\n".join([about, *more]), advice)
    return DoctorCheck(OK, "sandbox", "\n".join([about, *more]))


def permission_checks(runtime: Runtime) -> Iterator[DoctorCheck]:
    """The sandbox of each script, and what the script asks for in vain."""
    config = runtime.config
    if runtime.scripts and Path.home().resolve().is_relative_to(config.root.resolve()):
        message = f"{config.root} is the project, and your home is in it: scripts may read or write all of it"
        advice = "put toolrun.toml into a directory of its own, beside the tools"
        yield DoctorCheck(WARNING, "sandbox", message, advice)
    for script in runtime.scripts:
        path, level = relative(script.path, config.root), script_level(script.name, script.declared, config)
        lines = _lines(granted(script.name, config), ungranted(script.declared, script.name, config))
        if lines:
            message = f"{path}: {level}; it asks for {', '.join(lines)}, which toolrun.toml does not grant"
            advice = "\n".join(
                ["to grant it, write in toolrun.toml:", section("tool", script.name, "permissions"), *lines.values()]
            )
            yield DoctorCheck(WARNING, "sandbox", message, advice)
        else:
            yield DoctorCheck(OK, "sandbox", f"{path}: {level}{'; it can do whatever you can' if level == OFF else ''}")


def _lines(given: Permissions, missing: Permissions) -> dict[str, str]:
    """What is missing as lines of toolrun.toml, by key. A list also has what is given already."""
    lines: dict[str, str] = {}
    for key in ("net", "read", "write", "run", "env"):
        value, known = getattr(missing, key), getattr(given, key)
        if value:
            both = [*known, *value] if isinstance(known, tuple) and isinstance(value, tuple) else value
            lines[key] = f"{key} = {json.dumps(both, ensure_ascii=False)}"  # in TOML the same
    return lines
