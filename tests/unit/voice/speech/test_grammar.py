"""Names and phrases become a grammar, and what was heard becomes a sentence."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolrun.errors import ConfigError
from toolrun.voice.speech.grammar import Grammar, default_commands, make_grammar, read_commands, spell, spoken_words

DEVICES = ["Switch One", "TV-Lamp_2", "Bedroom Dimmer", "Dimmer"]
COMMANDS = ["turn (on | off) [the] {device}", "set {device} to {number} percent", "what time is it"]


def pronounced(word: str) -> str | None:
    """As if every word had a pronunciation, apart from foreign ones."""
    return "AH" if word.isascii() else None


@pytest.fixture
def grammar() -> Grammar:
    return make_grammar(DEVICES, COMMANDS, pronounced)


def test_the_engine_gets_one_rule_for_each_command(grammar: Grammar) -> None:
    lines = grammar.jsgf.splitlines()
    assert lines[:2] == ["#JSGF V1.0;", "grammar home;"]
    assert "<command0> = turn ( on | off ) [ the ] <device>;" in lines
    assert "<command1> = set <device> to <number> percent;" in lines
    assert "<device> = switch one | tv lamp two | bedroom dimmer | dimmer;" in lines
    assert lines[-1] == "public <said> = <command0> | <command1> | <command2>;"
    assert grammar.problems == ()


@pytest.mark.parametrize(
    ("heard", "written"),
    [
        ("turn on switch one", "turn on Switch One"),
        ("turn off the tv lamp two", "turn off the TV-Lamp_2"),
        ("set bedroom dimmer to fifty percent", "set Bedroom Dimmer to 50 percent"),
        ("set tv lamp two to twenty five percent", "set TV-Lamp_2 to 25 percent"),
        ("set dimmer to one hundred percent", "set Dimmer to 100 percent"),
        ("  what  time is it ", "what time is it"),
        ("turn on switch", ""),
        ("turn on", ""),
        ("what time", ""),
        ("turn on switch one please", ""),
        ("turnon switch one", ""),
        ("set dimmer to percent", ""),
        ("set dimmer to twenty twenty percent", ""),
        ("", ""),
    ],
)
def test_what_was_heard_is_written_as_people_write_it(grammar: Grammar, heard: str, written: str) -> None:
    assert grammar.written(heard) == written


def test_all_words_have_a_pronunciation(grammar: Grammar) -> None:
    rules = re.sub(r"<[^<>]*>|grammar home|public|#JSGF V1\.0|[][()|=;]", " ", grammar.jsgf)
    assert set(rules.split()) == set(grammar.pronunciations)
    assert {"tv", "lamp", "hundred", "zero", "percent", "the"} <= set(grammar.pronunciations)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Switch One", "switch one"),
        ("livingRoom Light", "living room light"),
        ("TV-Lamp_2", "tv lamp two"),
        ("Küche (Decke)", "kuche decke"),
        ("Straße 21", "strasse twenty one"),
        ("Kid’s room", "kid's room"),
        ("Sensor 007", "sensor zero zero seven"),
        ("Node 100", "node one hundred"),
        ("Node 123", "node one two three"),
        ("lamp3a", "lamp three a"),
        ("💡", ""),
    ],
)
def test_a_name_is_said_word_by_word(name: str, words: str) -> None:
    assert " ".join(spoken_words(name)) == words


@pytest.mark.parametrize(
    ("devices", "problem"),
    [
        (["Lamp", "Кухня"], "The device 'Кухня' cannot be said: nobody knows how 'кухня' is pronounced."),
        (["Lamp", "💡"], "The device '💡' has no name that can be said."),
        (["Lamp 1", "Lamp One"], "The devices 'Lamp 1' and 'Lamp One' sound the same; only the first is known."),
    ],
)
def test_a_device_that_cannot_be_said_is_reported_and_the_others_work(devices: list[str], problem: str) -> None:
    grammar = make_grammar(devices, ["turn on {device}"], pronounced)
    assert len(grammar.problems) == 1
    assert grammar.problems[0].startswith(problem)
    assert list(grammar.devices.values()) == devices[:1]


def test_a_device_that_is_named_twice_is_no_problem() -> None:
    assert make_grammar(["Lamp", "Lamp"], ["turn on {device}"], pronounced).problems == ()


@pytest.mark.parametrize(
    ("phrase", "problem"),
    [
        ("turn (on | off {device}", "lacks a ')'"),
        ("turn on) {device}", "has a ')' without its beginning"),
        ("turn [on) {device}", "has a ')' without its beginning"),
        ("turn (on |) {device}", "has a choice with nothing in it"),
        ("[]", "has a choice with nothing in it"),
        ("set {device} to {colour}", "has the unknown place {colour}; there are {device} and {number}"),
        ("turn on; rm", "has ';', which cannot be said"),
        ("<device>", "has '<', which cannot be said"),
        ("свет {device}", "cannot be said: nobody knows how 'свет' is pronounced. Give it a pronunciation"),
    ],
)
def test_a_phrase_with_a_mistake_is_reported_and_the_others_work(phrase: str, problem: str) -> None:
    grammar = make_grammar(["Lamp"], [phrase, "turn on {device}"], pronounced)
    assert len(grammar.problems) == 1
    assert grammar.problems[0].startswith(f"The command '{phrase}' {problem}")
    assert grammar.written("turn on lamp") == "turn on Lamp"


def test_without_devices_the_other_commands_work() -> None:
    grammar = make_grammar([], COMMANDS, pronounced)
    assert len(grammar.problems) == 2
    assert "needs a device, and none is known" in grammar.problems[0]
    assert grammar.written("what time is it") == "what time is it"
    assert "<device>" not in grammar.jsgf


def test_a_grammar_with_nothing_to_say_is_refused() -> None:
    with pytest.raises(ConfigError, match="The grammar is empty: give at least one command") as caught:
        make_grammar([], ["turn on {device}"], pronounced)
    assert "needs a device, and none is known" in str(caught.value)


def test_the_phrases_that_ship_can_all_be_said() -> None:
    grammar = make_grammar(DEVICES, default_commands(), pronounced)
    assert grammar.problems == ()
    assert grammar.written("turn off everything") == "turn off everything"
    assert grammar.written("what is the temperature of the switch one") == "what is the temperature of the Switch One"
    assert grammar.written("set the volume to thirty percent") == "set the volume to 30 percent"


def test_commands_are_read_line_by_line() -> None:
    assert read_commands("# a remark\n\n turn on # and off\nstop\n") == ("turn on", "stop")


@given(st.integers(0, 100))
def test_every_number_up_to_a_hundred_is_heard_as_itself(number: int) -> None:
    grammar = make_grammar([], ["set it to {number}"], pronounced)
    assert grammar.written(f"set it to {' '.join(spell(str(number)))}") == f"set it to {number}"


@given(st.lists(st.text(max_size=20), max_size=5))
def test_whatever_a_device_is_called_it_is_known_or_reported(names: list[str]) -> None:
    grammar = make_grammar(names, ["turn on {device}", "stop"], pronounced)
    for spoken, name in grammar.devices.items():
        assert grammar.written(f"turn on {spoken}") == " ".join(f"turn on {name}".split())
    reported = " ".join(grammar.problems)
    assert all(name in grammar.devices.values() or f"'{name}'" in reported for name in names)
