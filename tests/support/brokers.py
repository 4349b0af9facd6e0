"""MQTT brokers as processes of their own, that a test can kill and start again on the same port."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest
from broker import free_port

ROOT = Path(__file__).parents[2]
HOME = ROOT / "examples/home"
LIMIT = 50
"""Seconds that nothing should ever take."""

BrokerKind = Literal["amqtt", "mosquitto"]


def find_mosquitto(program: str = "mosquitto") -> str:
    """Where mosquitto is. Skips the test where it is not installed; in CI that is a failure."""
    found = shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if found is None:
        message = f"{program} is not installed (Debian: mosquitto)"
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)
    return found


@dataclass
class BrokerProcess:
    """A broker on the loopback address. `folder` is for its configuration and its log."""

    kind: BrokerKind
    folder: Path
    extra_settings: str = "allow_anonymous true\n"
    """More lines for the configuration of mosquitto."""
    port: int = field(default_factory=free_port)
    _process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"mqtt://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, and wait until clients can connect."""
        with (self.folder / "broker.log").open("ab") as log:
            self._process = subprocess.Popen(self._command(), stdout=log, stderr=log)
        deadline = time.monotonic() + LIMIT
        while not self._accepts():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                pytest.fail(f"{self.kind} does not listen: {(self.folder / 'broker.log').read_text()}")
            time.sleep(0.02)

    def kill(self) -> None:
        """End it at once, with no goodbye to anybody."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(LIMIT)
            self._process = None

    def _command(self) -> list[str]:
        if self.kind == "amqtt":
            return [sys.executable, str(HOME / "broker.py"), "--port", str(self.port)]
        settings = self.folder / "mosquitto.conf"
        # As root it would give up its rights, and with them the test's folder.
        settings.write_text(f"listener {self.port} 127.0.0.1\nuser root\npersistence false\n{self.extra_settings}")
        return [find_mosquitto(), "-c", str(settings)]

    def _accepts(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1):
                return True
        except OSError:
            return False
