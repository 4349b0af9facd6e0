"""script/demo: the first thing that a newcomer runs. All of the home, with real processes."""

from __future__ import annotations

import asyncio
import shutil
import socket
import sys
import time
from pathlib import Path

import pytest

from providers.base import Asked, Step
from providers.ollama import OllamaServer
from support.brokers import HOME, BrokerProcess, find_mosquitto
from support.console import CACHE, LIMIT, ROOT, environment, run
from support.terminal import CTRL_C, CTRL_D, terminal
from toolrun.voice import BrokerAddress

DEMO = HOME / "house.py"
NOBODY = "http://127.0.0.1:9"
ALONE = {"ANTHROPIC_API_KEY": "", "OLLAMA_HOST": NOBODY, "MQTT_URL": ""}
"""No model and no broker but the demo's own."""


def descendants(pid: int) -> set[int]:
    """All processes below one."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(entry.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        children.setdefault(parent, []).append(int(entry.parent.name))
    found, waiting = set(), [pid]
    while waiting:
        below = children.get(waiting.pop(), [])
        found.update(below)
        waiting += below
    return found


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def assert_gone(processes: set[int]) -> None:
    deadline = time.monotonic() + LIMIT
    while left := [pid for pid in processes if is_alive(pid)]:
        assert time.monotonic() < deadline, f"processes are left: {left}"
        time.sleep(0.02)


def test_every_step_works_in_a_clean_environment(tmp_path: Path) -> None:
    """One that has nothing but a PATH and a home."""
    clean = {name: environment()[name] for name in environment() if name.startswith(("UV_", "PIP_", "SSL_"))}
    ours = {"PATH": environment()["PATH"], "HOME": str(tmp_path), "TOOLRUN_WORKERS_CACHE": str(CACHE)}
    variables = [f"{name}={value}" for name, value in (clean | ours).items()]
    done = run("env", "-i", *variables, str(ROOT / "script" / "demo"), "--check", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("\ncheck: every step worked\n")
    assert "A rule-based stand-in is used. It is no AI" in " ".join(done.stdout.split())
    for part in (
        'calls     control_zwave_device {"device_name": "switch one", "command": "on"}',
        'repaired  control_zwave_device {"deviceName": "switch one", "action": "on"}',
        "device    Switch One (Kitchen): off → on",
        "speaks    “Switch One is now on.”",
        "fails     Switch Two was told to turn on",
        "speaks    “Switch Two was told to turn on",
        "heard     “turn off switch one”, by MQTT",
    ):
        assert part in done.stdout
    assert "\x1b" not in done.stdout
    assert all(len(line) <= 80 for line in done.stdout.splitlines()), done.stdout


@pytest.mark.parametrize(
    ("file", "before", "after", "steps"),
    [
        ("devices.py", "device.apply(wanted)", "pass", ["A recording", "A dimmer", "The same device"]),
        ("tools/sun_times.py", 'zone = ZoneInfo(config["timezone"])', "raise SystemExit(1)", ["A script"]),
        ("turn_on_switch_one.wav", None, None, ["A recording"]),
    ],
)
def test_the_check_fails_when_a_part_does(
    file: str, before: str | None, after: str | None, steps: list[str], tmp_path: Path
) -> None:
    home = shutil.copytree(HOME, tmp_path / "home", ignore=shutil.ignore_patterns("__pycache__"))
    path = home / file
    if before is None or after is None:
        path.write_bytes(path.read_bytes()[:44] + bytes(32_000))
    else:
        assert before in path.read_text()
        path.write_text(path.read_text().replace(before, after))
    done = run(sys.executable, str(home / "house.py"), "--check", cwd=tmp_path, env=ALONE)
    assert done.returncode == 1, done.stdout + done.stderr
    [verdict] = [line for line in done.stdout.splitlines() if line.startswith("check: not as expected: ")]
    for step in steps:
        assert step in verdict
    assert "A local tool" not in verdict


def test_a_newcomer_types_commands_and_leaves() -> None:
    with terminal(sys.executable, str(DEMO), cwd=ROOT, env=ALONE) as shown:
        told = shown.expect("Now you: type a command.")
        assert "There is no model (Ollama does not run at" in told
        assert "stand-in" in told
        assert "Switch One (Kitchen): off → on" in told
        shown.expect("\n> ")
        processes = descendants(shown.process.pid)
        assert processes, "the Z-Wave server is a process of its own"
        shown.type("help")
        assert "set the desk lamp to 40 percent" in shown.expect("\n> ")
        shown.type("turn off everything")
        assert "Switch One (Kitchen): on → off" in shown.expect("\n> ")
        shown.type("open the pod bay doors")
        assert "only a stand-in" in shown.expect("\n> ")
        shown.press(CTRL_D)
        shown.expect("Try next")
        assert shown.ends() == 0
        assert "\x1b[" in shown.raw
        assert "Traceback" not in shown.text
    assert_gone(processes)


def test_ctrl_c_in_the_middle_of_a_call_leaves_no_process() -> None:
    with terminal(sys.executable, str(DEMO), cwd=ROOT, env=ALONE) as shown:
        shown.expect("\n> ")
        shown.type("when does the sun set")  # so that there is a worker too
        shown.expect("\n> ")
        shown.type("break switch two")
        shown.expect("\n> ")
        processes = descendants(shown.process.pid)
        assert len(processes) >= 2
        shown.type("turn on switch two")
        shown.expect("calls     control_zwave_device")
        shown.press(CTRL_C)
        shown.expect("interrupted; everything has ended")
        assert shown.ends() == 130
        assert "Traceback" not in shown.text
    assert_gone(processes)


def test_the_model_that_is_there_is_used() -> None:
    control = Asked("control_zwave_device", {"device_name": "Switch One", "command": "on"})
    with OllamaServer() as server:
        server.play(Step(calls=[control]), Step(text="Done: the **switch** is on."))
        env = {**ALONE, "OLLAMA_HOST": server.url}
        done = run(sys.executable, str(DEMO), cwd=ROOT, env=env)
        assert done.returncode == 0, done.stdout + done.stderr
        assert f"ollama:qwen3:0.6b (Ollama runs at {server.url})" in " ".join(done.stdout.split())
        assert "stand-in is used" not in done.stdout
        assert "device    Switch One (Kitchen): off → on" in done.stdout
        assert "speaks    “Done: the switch is on.”" in done.stdout


def test_commands_can_come_through_a_pipe() -> None:
    done = run(sys.executable, str(DEMO), cwd=ROOT, env=ALONE, stdin="set the desk lamp to 40 percent\nquit\n")
    assert (done.returncode, done.stderr) == (0, "")
    assert "device    Desk Lamp (Office): off → on at 40 %" in done.stdout


def test_a_port_that_is_taken_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run(sys.executable, str(DEMO), "--check", "--port", str(port), cwd=ROOT, env=ALONE)
    assert done.returncode == 1
    assert str(port) in done.stderr
    assert "Choose another --port, or name a broker in MQTT_URL." in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("url", "problem"), [("mqtt://127.0.0.1:9", "cannot be reached"), ("broker", "MQTT_URL: ")])
def test_a_broker_that_is_not_there_is_named(url: str, problem: str) -> None:
    done = run(sys.executable, str(DEMO), "--check", cwd=ROOT, env={**ALONE, "MQTT_URL": url})
    assert done.returncode == 1
    assert problem in done.stderr
    assert "Traceback" not in done.stderr


def test_a_model_that_cannot_be_used_is_named() -> None:
    done = run(sys.executable, str(DEMO), "--model", "nobody:x", cwd=ROOT, env=ALONE)
    assert (done.returncode, done.stderr.partition(",")[0]) == (1, "demo: --model is 'nobody:x'")


async def test_a_broker_of_somebody_else_is_used_and_left_as_it_was(tmp_path: Path) -> None:
    find_mosquitto()
    broker = BrokerProcess("mosquitto", tmp_path)
    broker.start()
    try:
        done = await asyncio.to_thread(
            run, sys.executable, str(DEMO), "--check", cwd=ROOT, env={**ALONE, "MQTT_URL": broker.url}
        )
        assert done.returncode == 0, done.stdout + done.stderr
        async with BrokerAddress.parse(broker.url).client() as client:
            await client.subscribe("#", qos=1)
            await client.publish("end", "1", qos=1)
            message = await asyncio.wait_for(anext(aiter(client.messages)), LIMIT)
        assert (message.topic.value, message.retain) == ("end", False), "the first message is none that was left there"
    finally:
        broker.kill()
