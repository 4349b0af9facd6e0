"""The Z-Wave MCP server as a process: every tool, good and bad, over both brokers and both forms of topics."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from devices import Simulation, dimmer, switch
from zwave_topics import Layout

from support.brokers import LIMIT, BrokerProcess, find_mosquitto
from support.zwave_process import SERVER, eventually, open_zwave


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_four_tools_are_offered_with_camel_case_parameters(
    quick_broker: BrokerProcess, tmp_path: Path, mode: str
) -> None:
    async with open_zwave(quick_broker.url, tmp_path / "log", mode=mode) as zwave:
        tools = {tool.name: tool for tool in (await zwave.client.list_tools()).tools}
    assert list(tools) == ["list_zwave_devices", "control_zwave_device", "get_device_sensor_data", "check_zwave_health"]
    schema = tools["control_zwave_device"].input_schema
    assert list(schema["properties"]) == ["deviceName", "action", "level"]
    assert schema["required"] == ["deviceName", "action"]
    assert schema["properties"]["action"]["enum"] == ["on", "off", "dim"]
    assert schema["properties"]["level"]["type"] == "integer"
    hints = {name: tool.annotations and tool.annotations.read_only_hint for name, tool in tools.items()}
    assert hints == {name: name != "control_zwave_device" for name in tools}


async def test_devices_are_listed_switched_and_dimmed(broker: BrokerProcess, tmp_path: Path) -> None:
    async with Simulation.open(broker.url) as house, open_zwave(broker.url, tmp_path / "log") as zwave:
        assert await zwave.call("list_zwave_devices") == (
            "4 Z-Wave devices:\n"
            "- Desk Lamp (Office): dimmer, off\n"
            "- Hall Sensor (Hall): sensor, Air temperature: 21.5 °C, Battery level: 87 %, Humidity: 46 %, "
            "Motion sensor status: idle\n"
            "- Switch One (Kitchen): switch, off\n"
            "- Switch Two (Living Room): switch, off"
        )

        async def control(**arguments: object) -> str:
            return await zwave.call("control_zwave_device", **arguments)

        assert await control(deviceName="switch one", action="on") == "Switch One is now on."
        assert [house[name].state for name in ("Switch One", "Switch Two")] == [True, False]
        assert await control(deviceName="switch one", action="on") == "Switch One is now on."
        assert await control(deviceName="Switch One", action="off", level=0) == "Switch One is now off."
        assert house["Switch One"].state is False

        assert await control(deviceName="desk lamp", action="dim", level=40) == "Desk Lamp is now on at 40 %."
        assert await control(deviceName="desk lamp", action="off") == "Desk Lamp is now off."
        assert await control(deviceName="desk lamp", action="on") == "Desk Lamp is now on at 40 %."
        assert await control(deviceName="desk lamp", action="on", level=100) == "Desk Lamp is now on at 100 %."
        assert house["Desk Lamp"].state == 99
        assert await control(deviceName="desk lamp", action="dim", level=0) == "Desk Lamp is now off."


async def test_the_other_form_of_topics_does_as_well(quick_broker: BrokerProcess, tmp_path: Path) -> None:
    async with (
        Simulation.open(quick_broker.url, layout=Layout.NAMED) as house,
        open_zwave(quick_broker.url, tmp_path / "log") as zwave,
    ):
        await zwave.call("control_zwave_device", deviceName="switch one", action="on")
        await zwave.call("control_zwave_device", deviceName="desk lamp", action="dim", level=40)
        assert (house["Switch One"].state, house["Desk Lamp"].state) == (True, 40)
        text = await zwave.call("get_device_sensor_data", deviceName="hall sensor")
        assert "- Air temperature: 21.5 °C (just now)\n" in text
        assert "- Motion sensor status: idle (just now)" in text


async def test_sensor_data_has_units_words_and_age(broker: BrokerProcess, tmp_path: Path) -> None:
    async with Simulation.open(broker.url) as house, open_zwave(broker.url, tmp_path / "log") as zwave:
        text = await zwave.call("get_device_sensor_data", deviceName="hall sensor")
        assert text.splitlines()[:2] == ["Hall Sensor (Hall), sensor", "- Air temperature: 21.5 °C (just now)"]

        await house.measure("Hall Sensor", "Motion sensor status", 8)

        async def is_moving() -> bool:
            data = await zwave.data("get_device_sensor_data", deviceName="hall sensor")
            found = {it["label"]: it["value"] for it in data["measurements"]}
            return bool(found["Motion sensor status"] == "Motion detection")

        await eventually(is_moving, "the motion is told")
        assert await zwave.call("get_device_sensor_data", deviceName="switch two") == (
            "Switch Two (Living Room), switch\n- State: off"
        )


async def test_health_tells_of_the_network_and_of_one_device(broker: BrokerProcess, tmp_path: Path) -> None:
    async with Simulation.open(broker.url) as house, open_zwave(broker.url, tmp_path / "log") as zwave:
        assert await zwave.call("check_zwave_health") == "The Z-Wave network is healthy: 4 devices."
        assert await zwave.call("check_zwave_health", deviceName="switch two") == "Switch Two answers."
        await house.misbehave("Switch Two", "dead")
        assert await zwave.call("check_zwave_health", deviceName="switch two") == "Switch Two does not answer."
        data = await zwave.data("check_zwave_health")
        assert (data["isHealthy"], data["dead"], data["isGatewayConnected"], data["isDriverReady"]) == (
            False,
            ["Switch Two (Living Room)"],
            True,
            True,
        )


REFUSED: list[tuple[dict[str, object], str]] = [
    ({"deviceName": "switch", "action": "on"}, "Did you mean: Switch One (Kitchen), Switch Two (Living Room)?"),
    ({"deviceName": "toaster", "action": "on"}, "There is no device called 'toaster'. Known devices: "),
    ({"deviceName": "Hall Sensor", "action": "on"}, "Hall Sensor is a sensor and cannot be switched."),
    ({"deviceName": "Switch One", "action": "dim", "level": 40}, "Switch One is a switch and cannot be dimmed"),
    ({"deviceName": "Switch One", "action": "on", "level": 40}, "Switch One is a switch and cannot be dimmed"),
    ({"deviceName": "Desk Lamp", "action": "dim"}, "'dim' needs 'level'"),
    ({"deviceName": "Desk Lamp", "action": "on", "level": 0}, "'on' with level 0 contradicts itself"),
    ({"deviceName": "Desk Lamp", "action": "dim", "level": 101}, "'level': input should be less than or equal"),
    ({"deviceName": "Desk Lamp", "action": "dim", "level": True}, "'level': input should be a valid integer"),
    ({"deviceName": "Desk Lamp", "action": "blink"}, "'action': input should be 'on', 'off' or 'dim', got 'blink'"),
    ({"device_name": "Switch One", "command": "on"}, "missing 'deviceName'; missing 'action'; unknown "),
    ({"deviceName": "", "action": "on"}, "'deviceName': string should have at least 1 character"),
    ({"deviceName": "#", "action": "on"}, "There is no device called '#'"),
]


async def test_what_cannot_be_done_is_refused_and_nothing_is_switched(
    quick_broker: BrokerProcess, tmp_path: Path
) -> None:
    async with Simulation.open(quick_broker.url) as house, open_zwave(quick_broker.url, tmp_path / "log") as zwave:
        for arguments, text in REFUSED:
            assert text in await zwave.fail("control_zwave_device", **arguments)
        # The answer to a later command comes after whatever the earlier ones did.
        await zwave.call("control_zwave_device", deviceName="Switch Two", action="on")
        assert [house[name].state for name in ("Switch One", "Switch Two", "Desk Lamp")] == [False, True, 0]


async def test_other_tools_refuse_what_they_do_not_know(quick_broker: BrokerProcess, tmp_path: Path) -> None:
    async with Simulation.open(quick_broker.url), open_zwave(quick_broker.url, tmp_path / "log") as zwave:
        assert "no device called 'x'" in await zwave.fail("get_device_sensor_data", deviceName="x")
        assert "missing 'deviceName'" in await zwave.fail("get_device_sensor_data")
        assert "no device called 'x'" in await zwave.fail("check_zwave_health", deviceName="x")
        assert "unknown 'room'" in await zwave.fail("list_zwave_devices", room="Hall")
        assert "There is no tool 'open_door'" in await zwave.fail("open_door")


async def test_of_two_devices_with_one_name_none_is_switched(quick_broker: BrokerProcess, tmp_path: Path) -> None:
    lamps = [switch(2, "Lamp", "Kitchen"), dimmer(3, "Lamp", "Bedroom", level=30)]
    async with (
        Simulation.open(quick_broker.url, lamps) as house,
        open_zwave(quick_broker.url, tmp_path / "log") as zwave,
    ):
        text = await zwave.fail("control_zwave_device", deviceName="lamp", action="on")
        assert (
            text == "Several devices are called 'lamp': Lamp (Bedroom), Lamp (Kitchen). Say which, with its location."
        )
        assert await zwave.call("control_zwave_device", deviceName="kitchen lamp", action="on") == "Lamp is now on."
        assert (house["Kitchen/Lamp"].state, house["Bedroom/Lamp"].state) == (True, 30)


async def test_commands_to_several_devices_at_once_do_not_mix(broker: BrokerProcess, tmp_path: Path) -> None:
    lamps = [dimmer(i, f"Lamp {i}", "") for i in range(10, 30)]
    async with Simulation.open(broker.url, lamps) as house, open_zwave(broker.url, tmp_path / "log") as zwave:
        answers = await asyncio.gather(
            *(
                zwave.call("control_zwave_device", deviceName=lamp.name, action="dim", level=lamp.node_id)
                for lamp in lamps
            )
        )
        assert answers == [f"{lamp.name} is now on at {lamp.node_id} %." for lamp in lamps]
        assert [lamp.state for lamp in house.devices] == [lamp.node_id for lamp in lamps]


async def test_another_prefix_is_another_house(quick_broker: BrokerProcess, tmp_path: Path) -> None:
    async with (
        Simulation.open(quick_broker.url, [switch(2, "Here", "")], prefix="home/zwave"),
        Simulation.open(quick_broker.url, [switch(2, "There", "")], prefix="zwave"),
        open_zwave(quick_broker.url, tmp_path / "log", ZWAVE_PREFIX="home/zwave") as zwave,
    ):
        assert await zwave.call("list_zwave_devices") == "1 Z-Wave devices:\n- Here: switch, off"


def guarded_broker(folder: Path) -> BrokerProcess:
    """A broker that knows one user."""
    passwords = folder / "passwords"
    subprocess.run([find_mosquitto("mosquitto_passwd"), "-b", "-c", passwords, "me", "p@ss"], check=True)
    return BrokerProcess("mosquitto", folder, f"allow_anonymous false\npassword_file {passwords}\n")


async def test_a_broker_with_passwords_gets_them_from_the_url(tmp_path: Path) -> None:
    broker = guarded_broker(tmp_path)
    broker.start()
    try:
        refused = run_server(MQTT_URL=broker.url.replace("//", "//me:wrong@"))
        assert refused.returncode == 1
        assert f"zwave: Cannot reach the MQTT broker at {broker.url}: " in refused.stderr
        assert "uthori" in refused.stderr
        assert "wrong" not in refused.stderr
        async with open_zwave(broker.url.replace("//", "//me:p%40ss@"), tmp_path / "log") as zwave:
            assert await zwave.call("list_zwave_devices") == "No Z-Wave device is known."
    finally:
        broker.kill()


def run_server(stdin: str = "", **settings: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, SERVER], input=stdin, capture_output=True, text=True, env=settings, timeout=LIMIT
    )


def test_stdout_has_json_rpc_only_and_the_log_goes_to_stderr(quick_broker: BrokerProcess) -> None:
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    requests = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "list_zwave_devices", "arguments": {}}},
        {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "check_zwave_health", "arguments": 7}},
    ]
    with subprocess.Popen(
        [sys.executable, SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={"MQTT_URL": quick_broker.url, "ZWAVE_LOG_LEVEL": "debug"},
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        for request in requests:
            process.stdin.write(json.dumps(request) + "\n")
        process.stdin.write("this is not JSON\n")
        process.stdin.flush()
        lines = [process.stdout.readline()]
        while len({json.loads(line).get("id") for line in lines} & {1, 2, 3}) < 3:
            lines.append(process.stdout.readline())
        process.stdin.close()
        lines += process.stdout.readlines()
        log = process.stderr.read()
        assert process.wait(LIMIT) == 0
    assert all(json.loads(line)["jsonrpc"] == "2.0" for line in lines)
    assert "INFO zwave: list_zwave_devices {}: No Z-Wave device is known." in log


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MQTT_URL", "localhost"),
        ("ZWAVE_PREFIX", "#"),
        ("ZWAVE_REPORT_TIMEOUT", "soon"),
        ("ZWAVE_REPORT_TIMEOUT", "0"),
        ("ZWAVE_LOG_LEVEL", "all"),
    ],
)
def test_a_wrong_setting_is_named(name: str, value: str) -> None:
    done = run_server(**{name: value})
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"zwave: {name}: ")
    assert len(done.stderr.splitlines()) == 1


UV_RUN = [str(Path(sys.executable).with_name("uv")), "run", "--no-project", "--quiet", str(SERVER)]


@pytest.fixture
def environment_made_ahead() -> None:
    """uv has made the server's environment. Skips the test where it cannot; in CI that is a failure."""
    environment = {**os.environ, "MQTT_URL": "mqtt://127.0.0.1:1"}
    done = subprocess.run(
        UV_RUN, capture_output=True, text=True, env=environment, stdin=subprocess.DEVNULL, timeout=150
    )
    if "Cannot reach the MQTT broker" not in done.stderr:
        if os.environ.get("CI") == "true":
            pytest.fail(done.stderr)
        pytest.skip(f"uv cannot make the environment: {done.stderr}")
    assert done.returncode == 1


@pytest.mark.timeout(240)
@pytest.mark.usefixtures("environment_made_ahead")
async def test_it_runs_as_a_user_would_start_it(quick_broker: BrokerProcess, tmp_path: Path) -> None:
    """Through uv, in the environment that the file asks for."""
    async with (
        Simulation.open(quick_broker.url) as house,
        open_zwave(quick_broker.url, tmp_path / "log", command=UV_RUN) as zwave,
    ):
        assert await zwave.call("control_zwave_device", deviceName="Switch One", action="on") == "Switch One is now on."
        assert house["Switch One"].state is True
