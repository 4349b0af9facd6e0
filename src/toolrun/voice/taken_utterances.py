"""Which utterances were taken already: brokers deliver a message again, and publishers repeat themselves.

An utterance is the same as another if its publisher gave both the same id; equal words never are. An id is remembered
for a day: in the journal, and in memory where there is none or while it cannot be written. The journal also knows who
answers an utterance: one whose gateway was killed is taken again when it comes again, and its conversation goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING, Final

from toolrun.errors import UnavailableError
from toolrun.logger import get_logger
from toolrun.voice.voice_event import Answered, Outcome, VoiceEvent

if TYPE_CHECKING:
    from toolrun.journal.journal import Journal
    from toolrun.journal.utterance import Claim

logger = get_logger("toolrun.voice")

_DAY: Final = 24 * 3600.0
_MAX_REMEMBERED: Final = 10_000


class TakenUtterances:
    """The ids of one source of utterances."""

    def __init__(self, source: str, journal: Journal | None = None, clock: Callable[[], float] = monotonic) -> None:
        """Two gateways with the same source and journal share them."""
        self._source = source
        self._journal = journal
        self._clock = clock
        self._times: dict[str, float] = {}
        """When each id was taken, the oldest first."""
        self._claims: dict[str, Claim] = {}
        """Those in the journal that have no answer so far."""

    async def claim(self, id: str) -> bool:
        """Whether the utterance is to be answered. One without an id always is; any other if nobody has answered it
        and nobody is about to, which a process is not any more that was killed."""
        if not id:
            return True
        id = _storable(id)
        if not self._remember(id):
            return False
        if self._journal is None:
            return True
        from toolrun.journal.utterance import claim_utterance

        try:
            claim = await claim_utterance(self._journal, self._source, id)
        except UnavailableError as error:
            logger.warning("the journal does not remember the utterance %s: %s", id, error)
            return True
        if claim is None:
            del self._times[id]  # whoever has it may be killed, and then it is ours when it comes again
            return False
        self._claims[id] = claim
        return True

    def conversation_of(self, id: str) -> str:
        """The stored conversation in which an utterance is answered that was taken; empty if there is none."""
        claim = self._claims.get(_storable(id))
        return claim.conversation or "" if claim is not None else ""

    async def end(self, id: str) -> None:
        """The utterance is answered, and need not be again. To be called before its answer is sent."""
        id = _storable(id)
        claim = self._claims.get(id)
        if claim is None or self._journal is None:
            return
        from toolrun.journal.utterance import end_utterance

        try:
            await end_utterance(self._journal, self._source, id, claim.conversation)
        except UnavailableError as error:
            logger.warning("the journal does not know that the utterance %s is answered: %s", id, error)
        self._claims.pop(id, None)

    def on_event(self, event: VoiceEvent) -> None:
        """Forget an utterance for which there was no room: it may come again. A `Listener`."""
        if not isinstance(event, Answered) or event.outcome is not Outcome.REFUSED:
            return
        id = _storable(event.utterance.id)
        if self._times.pop(id, None) is not None and self._journal is not None:
            from toolrun.journal.utterance import release_utterance

            self._claims.pop(id, None)
            release_utterance(self._journal, self._source, id)

    def _remember(self, id: str) -> bool:
        now = self._clock()
        for known, time in list(self._times.items()):
            if now - time < _DAY and len(self._times) < _MAX_REMEMBERED:
                break
            del self._times[known]
        if id in self._times:
            return False
        self._times[id] = now
        return True


def _storable(id: str) -> str:
    """JSON may have half of a surrogate pair, which no file can."""
    return id.encode("utf-8", "backslashreplace").decode()
