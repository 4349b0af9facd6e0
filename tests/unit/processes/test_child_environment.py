"""Which variables of the host a child process gets."""

from __future__ import annotations

from toolrun.processes.child_environment import child_environment

BASE = {"PATH": "/bin", "HOME": "/home/ada", "LANG": "C", "LANGUAGE": "en", "LC_TIME": "C"}
HOST = {**BASE, "API_KEY": "secret", "USER": "ada", "LD_PRELOAD": "x.so"}


def test_a_child_gets_paths_and_locale_and_nothing_else() -> None:
    assert child_environment(HOST) == BASE


def test_a_child_gets_what_its_caller_allows_besides() -> None:
    assert child_environment(HOST, {"USER", "MISSING"}.__contains__) == {**BASE, "USER": "ada"}
