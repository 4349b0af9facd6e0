"""The pytest plugin: `@pytest.mark.recording("FILE")` and the fixture `recording`.

pytest loads it by its entry point in every project that has toolrun installed, so it imports nothing else of toolrun
until a test asks for the fixture.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from toolrun.recording.playback import Recording


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "recording(*files, lenient=False): plays calls that 'toolrun record' wrote, to the fixture 'recording'; "
        "files are relative to the file of the test",
    )


@pytest.fixture
def recording(request: pytest.FixtureRequest) -> Iterator[Recording]:
    """The recording that the marker names. Strict: a call that it has no answer for fails the test."""
    from toolrun.errors import ConfigError
    from toolrun.recording.playback import Recording

    marker = request.node.get_closest_marker("recording")
    if marker is None or not marker.args or marker.kwargs.keys() - {"lenient"}:
        pytest.fail('The fixture "recording" needs @pytest.mark.recording("FILE", …, lenient=False)', pytrace=False)
    paths = [request.path.parent / name for name in marker.args]
    try:
        played = Recording.load(*paths, lenient=bool(marker.kwargs.get("lenient", False)))
    except ConfigError as error:
        pytest.fail(str(error), pytrace=False)
    yield played
    if played.mismatches:
        pytest.fail("\n".join(played.mismatches), pytrace=False)
