"""Settings behave as frozen dataclasses do, although `dataclass` does not write all of their methods."""

import copy
import dataclasses
import pickle
from types import MappingProxyType

import pytest

from toolrun.config.model import Limits, ModelSettings, ServerSettings, ToolSettings


def test_a_field_cannot_be_set_again() -> None:
    limits = Limits()
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'max_queue'"):
        limits.max_queue = 1  # type: ignore[misc]
    assert limits.max_queue == 1024


def test_an_attribute_that_is_no_field_cannot_be_set() -> None:
    limits = Limits()
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'max_qeue'"):
        limits.max_qeue = 1
    assert not hasattr(limits, "max_qeue")


def test_a_field_cannot_be_deleted() -> None:
    limits = Limits(strict=True)
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'strict'"):
        del limits.strict
    assert limits.strict


def test_settings_are_equal_when_their_type_and_all_fields_are() -> None:
    assert ModelSettings(api_key="a") == ModelSettings(api_key="a")
    assert ModelSettings(api_key="a") != ModelSettings(api_key="b")
    assert Limits(5) == Limits(max_concurrency=5)
    assert Limits() != "Limits()"
    assert ToolSettings() != ServerSettings()


def test_equal_settings_have_equal_hashes() -> None:
    assert hash(Limits(5)) == hash(Limits(max_concurrency=5))
    assert len({Limits(), Limits(), Limits(strict=True)}) == 2


def test_settings_show_their_fields_but_not_what_is_confidential() -> None:
    shown = repr(ModelSettings(use="ollama:qwen3", api_key="sk-7", rounds=3))
    assert shown.startswith("ModelSettings(use='ollama:qwen3', base_url='', system='', rounds=3, ")
    assert "sk-7" not in shown


def test_settings_can_be_copied_with_changes() -> None:
    limits = Limits(max_queue=7)
    assert dataclasses.replace(limits, strict=True) == Limits(max_queue=7, strict=True)
    with pytest.raises(TypeError, match="slow"):
        dataclasses.replace(limits, slow=1)  # type: ignore[call-arg]


@pytest.mark.parametrize("twin", [copy.copy, copy.deepcopy, lambda it: pickle.loads(pickle.dumps(it))])
def test_a_copy_is_equal_and_frozen_too(twin) -> None:  # type: ignore[no-untyped-def]
    limits = twin(Limits(max_queue=7))
    assert limits == Limits(max_queue=7)
    with pytest.raises(dataclasses.FrozenInstanceError):
        limits.max_queue = 1


def test_each_instance_has_a_default_mapping_that_cannot_be_changed() -> None:
    assert ToolSettings().config == MappingProxyType({})
    with pytest.raises(TypeError):
        ToolSettings().config["a"] = 1  # type: ignore[index]
