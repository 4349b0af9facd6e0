"""The guide names what the programs have, and the files that it shows work."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import get_args

import aiomqtt
import pytest
from devices import Kind, Simulation, switch
from zwave_mcp_server import OFFERS
from zwave_topics import CLASS_NAMES

from support.brokers import HOME, LIMIT, ROOT, BrokerProcess, find_mosquitto
from toolrun.config.load import load_config
from toolrun.voice import BrokerAddress

GUIDE = (ROOT / "docs/guides/home.md").read_text()


def shown_file(path: str) -> str:
    """The content of a file that the guide shows, without its first line, which is the path."""
    found = re.search(rf"^```\w+\n# {re.escape(path)}\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
    assert found is not None, f"the guide does not show {path}"
    return found[1]


def first_column(text: str) -> list[str]:
    return re.findall(r"^\| `([^`]+)`", text, re.MULTILINE)


def test_the_tables_have_the_tools_the_variables_and_the_behaviours() -> None:
    rows = first_column(GUIDE)
    assert [row for row in rows if row.endswith(("_devices", "_device", "_data", "_health"))] == list(OFFERS)
    source = (HOME / "zwave_mcp_server.py").read_text()
    read = list(dict.fromkeys(re.findall(r'environment\.get\("([A-Z_]+)"', source)))
    assert [row for row in rows if row.isupper()] == read
    assert [row for row in rows if row in get_args(Kind)] == list(get_args(Kind))


def test_every_command_class_that_is_understood_is_named() -> None:
    [sentence] = re.findall(r"The server understands (.*?)\.", GUIDE, re.DOTALL)
    assert {int(number) for number in re.findall(r"\d+", sentence)} == set(CLASS_NAMES)


def test_every_option_of_the_demo_is_named() -> None:
    done = subprocess.run(
        [sys.executable, HOME / "house.py", "--help"], capture_output=True, text=True, timeout=LIMIT, check=True
    )
    options = set(re.findall(r"^  (--\w+)", done.stdout, re.MULTILINE))
    _, _, section = GUIDE.partition("## Try it")
    named = {row.split()[0] for row in first_column(section.partition("\n## ")[0])}
    assert named == options


def test_the_configuration_of_a_real_house_is_valid(tmp_path: Path) -> None:
    path = tmp_path / "toolrun.toml"
    path.write_text(shown_file("/etc/house/toolrun.toml"))
    config = load_config(path, environ={"MQTT_URL": "mqtt://toolrun:secret@localhost:1883"}, overrides={})
    assert not config.missing_servers
    assert config.servers["zwave"].env == {"MQTT_URL": "mqtt://toolrun:secret@localhost:1883"}
    assert config.voice.mqtt == "mqtt://toolrun:secret@localhost:1883"
    assert (HOME / config.servers["zwave"].args[0]).exists()


def make_passwords(path: Path) -> None:
    """A file with the users of the guide, made as the guide says."""
    program = find_mosquitto("mosquitto_passwd")
    for options, user in re.findall(r"mosquitto_passwd (-c )?/etc/mosquitto/passwords (\S+)", GUIDE):
        command = [program, "-b", *options.split(), path, user, "p@ss"]
        subprocess.run(command, timeout=LIMIT, check=True)


async def test_the_configuration_of_mosquitto_lets_in_who_has_a_password_and_nobody_else(tmp_path: Path) -> None:
    settings = shown_file("/etc/mosquitto/conf.d/house.conf")
    passwords = tmp_path / "passwords"
    make_passwords(passwords)
    listener, rest = settings.split("\n", 1)
    assert listener == "listener 1883 127.0.0.1", "the test listens elsewhere, with the rest of the settings"
    broker = BrokerProcess("mosquitto", tmp_path, rest.replace("/etc/mosquitto/passwords", str(passwords)))
    broker.start()
    try:
        url = broker.url.replace("mqtt://", "mqtt://zwave-js-ui:p%40ss@")
        async with (
            Simulation.open(url, [switch(2, "Fan", "Attic")]),
            BrokerAddress.parse(url.replace("zwave-js-ui", "toolrun")).client() as client,
        ):
            await client.subscribe("zwave/Attic/Fan/status")
            assert (await anext(aiter(client.messages))).retain
        with pytest.raises(aiomqtt.MqttError):
            async with BrokerAddress.parse(broker.url).client():
                pass
    finally:
        broker.kill()


def test_systemd_understands_the_unit(tmp_path: Path) -> None:
    """Also where it is not the init system; where it is not installed at all there is nothing to ask."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed (Debian: systemd)")
    unit = tmp_path / "house.service"
    # It asks whether the program is there.
    unit.write_text(shown_file("/etc/systemd/system/house.service").replace("/opt/house/bin/toolrun", sys.executable))
    done = subprocess.run(
        ["systemd-analyze", "verify", unit], capture_output=True, text=True, timeout=LIMIT, check=False
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
