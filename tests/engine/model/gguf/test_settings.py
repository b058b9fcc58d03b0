"""Entries of a GGUF file that change what is computed: by whatever name they are read, and never passed over."""

import re
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from engine.errors import ModelError
from engine.model.gguf.config import config_of
from engine.model.gguf.header import GgufHeader, read_gguf
from engine.model.gguf.settings import ALSO_CALLED, HARMLESS
from tests.engine.gguf_cases import MADE, make
from tests.engine.gguf_files import write_gguf
from tests.engine.tiny_models import tiny_model

CASES = ("gemma3", "ministral3", "llama", "phi3", "qwen3_moe", "nemotron_h of experts")
RENAMED = {"gemma3": ("rope.freq_base", "rope.freq_base_swa"), "ministral3": (*ALSO_CALLED,)[2:]}


@pytest.fixture(scope="module")
def headers(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The header of a file of each case."""
    folder: Path = tmp_path_factory.mktemp("headers")

    @cache
    def header_of(case: str) -> GgufHeader:
        model = make(case) if case in MADE else tiny_model(case)
        return read_gguf((write_gguf(folder / f"{case}.gguf", model),))

    return header_of


def config(header: GgufHeader, **entries: object) -> dict[str, object]:
    """With other entries; `__` in their names stands for a dot, and None for none."""
    metadata = {**header.metadata}
    for name, value in entries.items():
        key = f"{header.architecture}.{name.replace('__', '.')}"
        metadata.pop(key, None) if value is None else metadata.update({key: value})
    return config_of(replace(header, metadata=metadata), "m")


@pytest.mark.parametrize("case", RENAMED)
def test_entries_are_read_by_the_names_that_ollama_has_for_them(case: str, headers: Any) -> None:
    header = headers(case)
    prefix = f"{header.architecture}."
    metadata = {
        prefix + ALSO_CALLED[key.removeprefix(prefix)] if key.removeprefix(prefix) in RENAMED[case] else key: value
        for key, value in header.metadata.items()
    }
    assert metadata.keys() != header.metadata.keys()
    assert config_of(replace(header, metadata=metadata), "m") == config(header)


def test_a_cap_that_ollama_writes_for_none_is_none(headers: Any) -> None:
    said: dict[str, object] = {"rope__freq_base": None, "rope__global__freq_base": 1e6}
    assert config(headers("gemma3"), final_logit_softcapping=30.0)["final_logit_softcapping"] == 30.0
    assert config(headers("gemma3"), final_logit_softcapping=30.0, **said)["final_logit_softcapping"] is None
    assert config(headers("gemma3"), final_logit_softcapping=20.0, **said)["final_logit_softcapping"] == 20.0


@pytest.mark.parametrize("key", HARMLESS)
def test_what_changes_a_network_and_is_not_known_of_it_is_refused(key: str, headers: Any) -> None:
    header, name, harmless = headers("llama"), key.replace(".", "__"), HARMLESS[key]
    for value in harmless:
        assert config(header, **{name: value}) == config(header)
    if key == "rope.scaling.type":
        assert config(header, **{name: "yarn"}) == config(header), "by a factor of 1"
    else:
        with pytest.raises(ModelError, match=re.escape(key)):
            config(header, **{name: not harmless[0] if isinstance(harmless[0], bool) else 3.5})


@pytest.mark.parametrize("case", CASES)
def test_a_network_that_knows_it_heeds_it(case: str, headers: Any) -> None:
    header = headers(case)
    for key in HARMLESS.keys() - {"attention.causal", "rope.scaling.type", "swin_norm"}:
        if f"{header.architecture}.{key}" not in header.metadata:
            with suppress(ModelError):
                assert config(header, **{key.replace(".", "__"): 3}) != config(header), key


def test_a_window_of_a_llama_is_refused_where_mistral_has_no_such_network(headers: Any) -> None:
    assert config(headers("mixtral"), attention__sliding_window=7)["sliding_window"] == 7
    assert config(headers("mixtral"))["sliding_window"] is None
    with pytest.raises(ModelError, match=r"attention\.sliding_window"):
        config(headers("llama"), attention__sliding_window=7, attention__sliding_window_pattern=2)


def test_another_base_for_windows_is_refused_where_there_is_one_for_all(headers: Any) -> None:
    assert config(headers("phi3"), rope__freq_base_swa=10_000.0) == config(headers("phi3"))
    with pytest.raises(ModelError, match=r"rope\.freq_base_swa"):
        config(headers("phi3"), rope__freq_base_swa=5_000.0)
