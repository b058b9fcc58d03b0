"""What a pair taught is there at its next start, for this place and sampling alone; bad files are told and ignored."""

import json
import random
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.cli.session import Session
from engine.loading import learned
from engine.loading.learned import VERSION, Learned, LearnedFiles, LearnedState
from engine.loading.pair import open_pair
from engine.protocol.messages import ChatMessage
from engine.protocol.options import GenerateOptions, LoadOptions, SamplingOptions, SpeculationOptions
from engine.speculation.tuning.throughput_model import ThroughputModel
from tests.campaigns.extent import for_the_proofs
from tests.engine.speculation.simulation import Machine, Trial

OPTIONS = GenerateOptions(SamplingOptions(temperature=0.6, top_p=0.9, seed=3))
TIERS = ("device", "device", "ssd")


@pytest.fixture
def files(tmp_path: Path) -> LearnedFiles:
    return LearnedFiles(open_pair(LoadOptions(cache_dir=str(tmp_path))), TIERS, "cpu")


def streamed() -> Machine:
    return Machine(lambda rows: max(1.0, rows / 64), 0.003, 0.0001, 0.01)


@cache
def taught(rounds: int = 40) -> LearnedState:
    """By a machine on which a pass over 64 rows takes no longer than one over a single row."""
    trial = Trial(streamed())
    trial.run(rounds)
    state = LearnedState(throughput=trial.throughput)
    chance = random.Random(1)
    for _ in range(30):
        state.calibration.observe(np.log([[0.9, 0.05]]), [0 if chance.random() < 0.5 else None])
    return state


def test_the_next_start_chooses_well_from_its_first_round(files: LearnedFiles) -> None:
    state = taught()
    files.remember(OPTIONS, state)
    found, why = files.recall(replace(OPTIONS, sampling=replace(OPTIONS.sampling, seed=99)))
    assert found
    assert not why
    assert found.size == state.size
    trial = Trial(streamed(), found.throughput)
    assert trial.rate(trial.run(10)) > 0.9 * trial.machine.best_rate()
    cold = Trial(streamed(), ThroughputModel())
    assert trial.rate(trial.results) > cold.rate(cold.run(10))


def test_calibration_comes_back(files: LearnedFiles) -> None:
    state = taught()
    files.remember(OPTIONS, state)
    found, _ = files.recall(OPTIONS)
    assert found
    asked = np.log([[0.9, 0.05]])
    assert found.calibration.is_proven == state.calibration.is_proven
    np.testing.assert_allclose(
        found.calibration.log_acceptance(asked), state.calibration.log_acceptance(asked), rtol=1e-3, atol=1e-3
    )


@for_the_proofs
def test_a_machine_that_changed_overnight_is_learnt_again(files: LearnedFiles) -> None:
    files.remember(OPTIONS, taught())
    found, _ = files.recall(OPTIONS)
    assert found
    slow = Machine(lambda rows: max(2.0, rows / 64), 0.003, 0.0001, 0.01, chance=random.Random(3))
    trial = Trial(slow, found.throughput)
    trial.run(20)
    assert trial.rate(trial.run(30)) > 0.93 * slow.best_rate()


@pytest.mark.parametrize(
    "other",
    [
        replace(OPTIONS, sampling=replace(OPTIONS.sampling, temperature=0.0)),
        replace(OPTIONS, sampling=replace(OPTIONS.sampling, top_p=1.0)),
        replace(OPTIONS, speculation=SpeculationOptions(calibrate=False)),
        replace(OPTIONS, speculation=SpeculationOptions(depth=8)),
    ],
)
def test_other_settings_have_files_of_their_own(files: LearnedFiles, other: GenerateOptions) -> None:
    files.remember(OPTIONS, taught(5))
    assert files.recall(other) == (None, "")


def test_a_penalty_has_files_of_its_own_and_a_bias_none(files: LearnedFiles) -> None:
    def path(**changes: Any) -> Path:
        return files.path(replace(OPTIONS, sampling=replace(OPTIONS.sampling, **changes)))

    assert path(bias=((3, 1.0),)) == path(seed=1) == path() != path(frequency_penalty=0.5)
    assert path(dry_base=2.0, dry_sequence_breakers=("|",), xtc_threshold=0.2) == path(), "both are off"
    assert (
        len({path(), path(dry_multiplier=0.8), path(dry_multiplier=0.8, dry_base=2.0), path(xtc_probability=0.5)}) == 4
    )


def test_ever_other_settings_take_no_more_and_more_memory(files: LearnedFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learned, "MOST_STATES", 3)
    monkeypatch.setattr(learned, "MOST_FILES", 4)
    memory = Learned(files)
    for number in range(9):
        other = replace(OPTIONS, sampling=replace(OPTIONS.sampling, top_k=number))
        state = memory.state(OPTIONS)
        assert memory.state(OPTIONS) is state, "what is used stays"
        files.remember(other, memory.state(other))
    assert len(memory._states) == 3
    assert len(list(files.path(OPTIONS).parent.glob("*.json"))) == 4


def test_method_and_budget_make_no_difference(files: LearnedFiles) -> None:
    fixed = replace(OPTIONS, speculation=SpeculationOptions(method="specexec", budget=16))
    assert files.path(fixed) == files.path(OPTIONS)


def test_another_place_is_another_file(files: LearnedFiles, tmp_path: Path) -> None:
    pair = open_pair(LoadOptions(cache_dir=str(tmp_path)))
    assert LearnedFiles(pair, ("device",) * 3, "cpu").path(OPTIONS) != files.path(OPTIONS)
    packed = open_pair(LoadOptions(cache_dir=str(tmp_path), weights="int8"))
    assert LearnedFiles(packed, TIERS, "cpu").path(OPTIONS) != files.path(OPTIONS)
    assert LearnedFiles(pair, TIERS, "cpu", "8 bits").path(OPTIONS) != files.path(OPTIONS)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[" * 100_000, b"[]", b"null", b"{}", b'"learnt"'])
def test_a_file_that_holds_nothing_of_ours_is_one_sentence(files: LearnedFiles, content: bytes) -> None:
    files.remember(OPTIONS, taught(5))
    files.path(OPTIONS).write_bytes(content)
    assert_ignored(files, "is damaged")


def broken(*path: Any, value: Any) -> Callable[[dict[str, Any]], None]:
    """Puts a value deep into a document."""

    def change(document: dict[str, Any]) -> None:
        at = document
        for name in path[:-1]:
            at = at[name]
        at[path[-1]] = value

    return change


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (broken("version", value=VERSION + 1), "newer version"),
        (broken("version", value=0), "older version"),
        (broken("version", value="new"), "damaged"),
        (broken("target", value="another"), "another pair"),
        (broken("draft", value="another"), "another pair"),
        (broken("placement", value="cuda, layers ram 3"), "another pair, place"),
        (broken("settings", "temperature", value=1.0), "way of sampling"),
        (broken("learnt", "prospects", value=None), "damaged"),
        (broken("learnt", "prospects", "rounds", value=-1), "damaged"),
        (broken("learnt", "prospects", "rounds", value=float("nan")), "damaged"),
        (broken("learnt", "prospects", "passes", "measured", value=[[1, "fast", 1]]), "damaged"),
        (broken("learnt", "prospects", "passes", "measured", value=[[1, -1.0, 0]]), "damaged"),
        (broken("learnt", "prospects", "passes", "measured", value=[[1.0, 2.0]]), "damaged"),
        (broken("learnt", "prospects", "methods", "specexec", "acceptance", "sums", value=[[1.0]]), "damaged"),
        (broken("learnt", "prospects", "methods", "specexec", "drafting", "measured", value=1e999), "damaged"),
        (broken("learnt", "calibration", "seen", value="much"), "damaged"),
        (broken("learnt", "calibration", "gain", value=None), "damaged"),
    ],
)
def test_a_document_that_is_not_for_us_is_one_sentence(
    files: LearnedFiles, change: Callable[[dict[str, Any]], None], words: str
) -> None:
    files.remember(OPTIONS, taught(5))
    document = json.loads(files.path(OPTIONS).read_bytes())
    change(document)
    files.path(OPTIONS).write_text(json.dumps(document))
    assert_ignored(files, words)


def assert_ignored(files: LearnedFiles, words: str) -> None:
    found, why = files.recall(OPTIONS)
    assert found is None
    assert words in why
    assert why.startswith("What this pair taught before is not used: ")
    assert why.endswith("It is learnt anew.")


def test_a_newer_file_stays_as_it_is_and_a_damaged_one_is_replaced(files: LearnedFiles) -> None:
    path = files.path(OPTIONS)
    path.parent.mkdir()
    for content, stays in (('{"version": 7}', True), ("{", False)):
        fresh = LearnedFiles(open_pair(LoadOptions(cache_dir=str(path.parent.parent))), TIERS, "cpu")
        path.write_text(content)
        learned = Learned(files=fresh)
        learned.state(OPTIONS).throughput.rounds += 1
        assert learned.complaint
        learned.keep()
        assert (path.read_text() == content) is stays
        assert not learned.complaint, "told once"
    assert [each.name for each in path.parent.iterdir()] == [path.name], "something half written was left"


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "learnt").write_text("a file where the folder should be")
    files = LearnedFiles(open_pair(LoadOptions(cache_dir=str(tmp_path))), TIERS, "cpu")
    files.remember(OPTIONS, taught(5))
    found, why = files.recall(OPTIONS)
    assert found is None
    assert "cannot be read" in why


def test_how_long_passes_take_is_shared_by_all_ways_of_sampling(files: LearnedFiles) -> None:
    learned = Learned(files=files)
    warm, greedy = learned.state(OPTIONS), learned.state(GenerateOptions())
    assert warm is not greedy
    assert warm.throughput.passes is greedy.throughput.passes


def test_settings_that_measured_nothing_do_not_hide_what_others_did(files: LearnedFiles) -> None:
    """A fixed budget measures no passes."""
    files.remember(GenerateOptions(), taught())
    learned = Learned(files=files)
    own = learned.state(OPTIONS).throughput
    assert not own.passes.largest
    found = learned.state(GenerateOptions()).throughput
    assert found.passes is own.passes
    assert found.passes.largest == taught().throughput.passes.largest > 1


def test_an_engine_begins_where_the_last_one_ended_and_writes_the_same_text(tmp_path: Path) -> None:
    options = GenerateOptions(max_new_tokens=80, ignore_eos=True)
    texts, budgets = [], []
    for _ in range(2):
        session = Session(LoadOptions(cache_dir=str(tmp_path), context_tokens=256), quiet=True)
        try:
            answer = session.collect(session.engine.prompt([ChatMessage("user", "Tell me about trees.")]), options)
        finally:
            session.engine.close()
        texts.append(answer.token_ids)
        budgets.append([(event.method, event.budget) for event in answer.rounds])
    assert texts[0] == texts[1]
    assert ("none", 0) in budgets[0][:3], "a cold start tries a round without a tree"
    assert len(list((tmp_path / "learnt").iterdir())) == 1
