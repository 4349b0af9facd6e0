"""Recognises the commands of a grammar, offline: pocketsphinx, whose English model is in its package.

An engine with a grammar hears one of its sentences in any noise. Three checks keep noise from turning on lights: the
hypothesis must be a complete sentence; it must cover everything that is loud, because the engine easily takes half of a
sentence for silence; and it must explain the sound about as well as a free sequence of phones, which no grammar
restricts.
"""

from __future__ import annotations

import itertools
import threading
from array import array
from collections.abc import Iterable, Mapping, Sequence
from operator import mul
from pathlib import Path
from typing import Any, Final

from toolrun.errors import SpeechError
from toolrun.extra import missing
from toolrun.voice.speech.grammar import Grammar, make_grammar
from toolrun.voice.speech.pronunciation import pronounce
from toolrun.voice.speech.speech_engine import RATE, WIDTH

_COMMANDS: Final = "commands"
_PHONES: Final = "phones"
_FRAME: Final = RATE // 100
"""Samples in a frame of the engine."""
_SHORTEST: Final = RATE // 10 * WIDTH
"""Bytes. A shorter sound holds no word, and the engine cannot process it."""
_STRETCH: Final = 25
"""Frames over which the loudness of silence is averaged."""
_LOUD: Final = 0.3
"""A stretch with more than this share of the words' energy is not silence."""
MARGIN: Final = -6.0
"""How much better a command has to be, in the engine's units a frame. Measured with voices of espeak-ng: commands that
are understood have -5 to 21, sentences mistaken for a command -17 to 4. No human voices were measured."""


class SphinxRecogniser:
    """A `Recogniser` for a set of devices and commands. The constructor takes about 0.3 s: call it in a thread."""

    def __init__(
        self,
        devices: Iterable[str],
        commands: Sequence[str],
        *,
        pronunciations: Mapping[str, str] | None = None,
        margin: float = MARGIN,
    ) -> None:
        """`pronunciations` extend the dictionary: `{"tradfri": "T R AO D F R IY"}`."""
        self._decoder = _decoder()
        self._margin = margin
        self._lock = threading.Lock()  # the decoder has one utterance at a time
        own = dict(pronunciations or {})
        self.grammar: Grammar = make_grammar(
            devices, commands, lambda word: own.get(word) or pronounce(word, self._decoder.lookup_word)
        )
        try:
            for word, phones in self.grammar.pronunciations.items():
                if word in own or not self._decoder.lookup_word(word):
                    self._decoder.add_word(self._free_name(word), phones, True)
            self._decoder.add_jsgf_string(_COMMANDS, self.grammar.jsgf)
        except RuntimeError as error:
            raise SpeechError(
                f"pocketsphinx refuses the grammar: {error}. Are all pronunciations in phones of the CMU dictionary?"
            ) from None

    def hear(self, pcm: bytes) -> str:
        """The recognised command, with the devices' names as they are written; empty if it is not a command."""
        if len(pcm) < _SHORTEST:
            return ""
        with self._lock:
            heard = self._decode(_COMMANDS, pcm)
            written = self.grammar.written(heard.hypstr) if heard is not None else ""
            spans = [(it.word, it.start_frame, it.end_frame + 1) for it in self._decoder.seg()] if written else []
            if not written or has_loud_silence(pcm, spans):
                return ""
            free = self._decode(_PHONES, pcm)
        frames = max(1, len(pcm) // WIDTH // _FRAME)
        if free is not None and (self._log(heard) - self._log(free)) / frames < self._margin:
            return ""
        return written

    def _decode(self, search: str, pcm: bytes) -> Any:
        self._decoder.activate_search(search)
        self._decoder.start_utt()
        try:
            self._decoder.process_raw(pcm[: len(pcm) - len(pcm) % WIDTH], full_utt=True)
        finally:
            self._decoder.end_utt()
        return self._decoder.hyp()

    def _free_name(self, word: str) -> str:
        """The word, or what the engine calls a further pronunciation of one that it knows: word(2), word(3), …"""
        names = itertools.chain([word], (f"{word}({number})" for number in itertools.count(2)))
        return next(name for name in names if not self._decoder.lookup_word(name))

    def _log(self, hypothesis: Any) -> float:
        return float(self._decoder.logmath.log(hypothesis.score)) if hypothesis.score > 0 else float("-inf")


def has_loud_silence(pcm: bytes, spans: Sequence[tuple[str, int, int]]) -> bool:
    """Whether a part that the engine took for silence or noise is as loud as the words.

    Spans are the segments of the hypothesis with their first and last frames; segments without words are in brackets.
    """
    samples = array("h", pcm[: len(pcm) - len(pcm) % WIDTH])
    energy = [
        sum(map(mul, frame, frame))
        for start in range(0, len(samples), _FRAME)
        if (frame := samples[start : start + _FRAME])
    ]
    words, silence = [], [0]
    for word, start, end in spans:
        frames = energy[start:end]
        if word[0] not in "<[":
            words += frames
        else:
            silence += [sum(frames[at : at + _STRETCH]) for at in range(max(0, len(frames) - _STRETCH + 1))]
    return bool(words) and max(silence) / _STRETCH > _LOUD * sum(words) / len(words)


def _decoder() -> Any:
    try:
        from pocketsphinx import Decoder, get_model_path  # type: ignore[import-untyped]  # it has no types
    except ImportError as error:
        raise missing("voice", error, "Speech recognition") from error
    decoder = Decoder(lm=None, loglevel="FATAL")
    decoder.add_allphone_file(_PHONES, str(Path(get_model_path()) / "en-us" / "en-us-phone.lm.bin"))
    return decoder
