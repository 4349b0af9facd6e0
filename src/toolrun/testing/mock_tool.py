"""`MockTool`: a tool that answers as a test says, and remembers how it was called."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Mapping, Sequence
from typing import Any

from toolrun.errors import ToolError
from toolrun.json import JSON, dumps
from toolrun.text import plural

Answer = Any
"""The result, an exception to raise, or a function of the arguments that makes one of these."""


class MockTool:
    """A tool that does nothing. Its arguments are repaired and checked like those of any other."""

    is_async = True

    def __init__(
        self,
        name: str,
        answer: Answer = None,
        *,
        answers: Sequence[tuple[Mapping[str, JSON], Answer]] = (),
        delay: float = 0.0,
        description: str = "A mock.",
        parameters: Mapping[str, JSON] | None = None,
    ) -> None:
        """`answers` are pairs of arguments and the answer to calls that have them; the first that fits counts.

        `answer` is for all other calls; if there are `answers` and no `answer`, they fail. `delay` is in seconds.
        """
        self.name = name
        self.description = description
        self.schema: Mapping[str, JSON] = {"type": "object"} if parameters is None else parameters
        self.calls: list[dict[str, JSON]] = []
        """The arguments of each call, as a tool gets them."""
        self._answer = answer
        self._answers = [(dict(arguments), found) for arguments, found in answers]
        self._delay = delay

    async def ainvoke(self, arguments: dict[str, JSON]) -> object:
        self.calls.append(copy.deepcopy(arguments))
        if self._delay:
            await asyncio.sleep(self._delay)
        answer = self._find(arguments)
        if callable(answer) and not isinstance(answer, type):
            answer = answer(arguments)
        if isinstance(answer, BaseException) or (isinstance(answer, type) and issubclass(answer, BaseException)):
            raise answer
        return copy.deepcopy(answer)

    def _find(self, arguments: Mapping[str, JSON]) -> Answer:
        for wanted, answer in self._answers:
            if all(name in arguments and arguments[name] == value for name, value in wanted.items()):
                return answer
        if self._answers and self._answer is None:
            raise ToolError(f"the mock '{self.name}' has no answer for {dumps(dict(arguments)).decode()[:500]}")
        return self._answer

    def __repr__(self) -> str:
        return f"<MockTool {self.name!r}, with {plural(len(self.calls), 'call')}>"
