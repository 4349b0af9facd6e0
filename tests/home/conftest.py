"""What the tests of the home share: a broker of each kind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.brokers import BrokerProcess


@pytest.fixture(params=["amqtt", "mosquitto"])
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker that runs, of either kind."""
    running = BrokerProcess(request.param, tmp_path)
    running.start()
    yield running
    running.kill()


@pytest.fixture
def quick_broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """The embedded broker alone, where the broker is not the subject."""
    running = BrokerProcess("amqtt", tmp_path)
    running.start()
    yield running
    running.kill()
