"""Nothing that a model, a tool, a person or another program says makes a conversation unsendable.

Each poison goes through each provider's package to a server that enforces the provider's rules; then one more turn
has to succeed, with everything that the first one left in the conversation.
"""

from __future__ import annotations

import asyncio
import functools
import gc
import ssl
from typing import Any

import pytest
from langchain_core.messages import content as langchain_content

from providers.base import Step
from providers.clients import KINDS, Side, open_side
from providers.poison import Poison, poisons
from toolrun import ToolExecutor, ToolManager
from toolrun.clients import TurnLimits

POISONS = list(poisons())
GROUPS = sorted({poison.name.partition(":")[0] for poison in POISONS})


@pytest.fixture
def quick_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    """What packages do anew each time: LangChain works out a constant for every content block, HTTP clients read all
    certificates. Either takes longer than a turn."""
    constant = langchain_content._get_data_content_block_types
    monkeypatch.setattr(langchain_content, constant.__name__, functools.cache(constant))
    monkeypatch.setattr(ssl, "create_default_context", functools.cache(ssl.create_default_context))


def executor_for(poison: Poison) -> ToolExecutor:
    async def give(value: Any = None) -> Any:
        if isinstance(poison.given, Exception):
            raise poison.given
        return poison.given

    give.__doc__ = f"Give something. {poison.told}"
    return ToolExecutor(ToolManager([give]), timeout=5.0, observers=[])


def test_there_are_at_least_200_poisons_each_with_a_name_of_its_own() -> None:
    assert len(POISONS) >= 200
    assert len({poison.name for poison in POISONS}) == len(POISONS)


@pytest.mark.usefixtures("quick_packages")
@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("kind", KINDS)
async def test_after_every_poison_one_more_turn_succeeds(kind: str, group: str) -> None:
    failed: dict[str, str] = {}
    with open_side(kind) as side:
        for poison in (it for it in POISONS if it.name.partition(":")[0] == group):
            problem = await problem_with(poison, side)
            if problem:
                failed[poison.name] = problem[:300]
        if side.provider == "google":
            await collected_clients()
    assert failed == {}


async def collected_clients() -> None:
    """Google's package closes a client in a task of its own when the client is collected."""
    gc.collect()
    await asyncio.gather(*(asyncio.all_tasks() - {asyncio.current_task()}))


async def problem_with(poison: Poison, side: Side) -> str | None:
    server, executor = side.server, executor_for(poison)
    server.play(*([poison.said] if poison.said else []), Step(text="Fine."), Step(text="Fine."))
    client = side.client(executor, system=poison.told or None, limits=TurnLimits(rounds=5))
    try:
        reply = await client.query(poison.question, history=poison.history)
        server.forget()
        server.play(Step(text="Next."))
        followed = await client.query("And now?", history=reply.messages)
        return None if followed.text == "Next." else followed.text
    except Exception as error:  # noqa: BLE001  whatever it is, the poison did it
        return f"{type(error).__name__}: {error}; {server.violations}"
    finally:
        server.forget()
        await executor.close()
