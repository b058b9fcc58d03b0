"""Sequoia, SpecInfer and chain on the terminal, and the calibration that Sequoia builds on."""

import io
import json
import shutil
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from engine.__main__ import main
from engine.cli.arguments import build_parser
from engine.cli.model_options import load_options
from engine.speculation.trees.tree_program import PRIOR, checked
from tests.campaigns.extent import choose, for_the_proofs
from tests.engine.test_cli import assert_refused, document

QUESTION = ["--prompt", "Tell me a story about a dragon.", "--max-new-tokens", choose("10", "40")]
SAMPLED = ("sequoia", "specinfer", "chain")
TIMED = (1, 8, 64)
"""Sizes of passes that these tests calibrate with: fewer than people's calibrations do."""


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "cache"))


@for_the_proofs
@pytest.mark.parametrize("method", choose(SAMPLED[:1], SAMPLED))
def test_greedy_text_is_plain_decoding_s_and_sampled_text_repeats(
    method: str, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = document(capsys, "generate", *QUESTION, "--method", "none")
    greedy = document(capsys, "generate", *QUESTION, "--method", method, "--budget", "24")
    assert greedy["token_ids"] == plain["token_ids"]
    assert (greedy["method"], greedy["budget"]) == (method, 24)
    assert greedy["drafted_nodes"] <= 24 * greedy["passes"]
    assert greedy["tokens_per_pass"] > 2
    warm = ["generate", *QUESTION, "--method", method, "--budget", "24", "--temperature", "0.9", "--top-p", "0.95"]
    first, again, other = (document(capsys, *warm, "--seed", seed)["token_ids"] for seed in ("4", "4", "5"))
    assert first == again != other


def test_bench_has_all_methods_behind_one_table(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--prompt-count", "1", "--max-new-tokens", choose("8", "24"), "--baselines", "", "--budgets", "16"]
    found = document(capsys, "bench", *options, "--methods", ",".join(("specexec", *SAMPLED)))
    assert [row["method"] for row in found["rows"]] == ["none", "specexec 16", *(f"{name} 16" for name in SAMPLED)]
    assert all(row["same_text_as_none"] == 1 for row in found["rows"])


@pytest.fixture(scope="module")
def calibrated(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """A cache with one calibration in it, which all tests share, and what was told of it."""
    cache, told = tmp_path_factory.mktemp("calibrated"), io.StringIO()
    options = [
        "--prompt-count",
        choose("1", "2"),
        "--max-new-tokens",
        choose("16", "48"),
        "--baselines",
        "",
        "--methods",
        "",
    ]
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(told):
        patch.setenv("XDG_CACHE_HOME", str(cache))
        patch.setenv("LOCALAPPDATA", str(cache))
        patch.setattr("engine.cli.calibrate.SIZES", TIMED)
        assert main(["bench", *options, "--calibrate", "--json"]) == 0
    [found] = json.loads(told.getvalue())["calibration"]
    return cache, found


def use(calibrated: tuple[Path, Any], cache: Path) -> Path:
    """Put the shared calibration into a test's own cache; returns its file there."""
    shared, found = calibrated
    shutil.copytree(shared, cache, dirs_exist_ok=True)
    return cache / Path(found["file"]).relative_to(shared)


def test_calibration_is_kept_and_used(
    capsys: pytest.CaptureFixture[str], calibrated: tuple[Path, Any], tmp_path: Path
) -> None:
    before = document(capsys, "generate", *QUESTION, "--method", "sequoia")
    file, found = use(calibrated, tmp_path / "cache"), calibrated[1]
    assert found["temperature"] == 0.0
    vector = checked(found["acceptance"])
    assert vector[0] > PRIOR[0], "the embedded draft knows its target well"
    assert json.loads(file.read_text())["acceptance"] == list(vector)
    for times in (found["draft_seconds"], found["target_seconds"]):
        assert list(times) == [str(size) for size in TIMED]
        assert all(seconds > 0 for seconds in times.values())
    after = document(capsys, "generate", *QUESTION, "--method", "sequoia")
    assert after["token_ids"] == before["token_ids"]
    assert after["budget"] != before["budget"], "the optimiser was not asked"
    asked = document(capsys, "generate", *QUESTION, "--method", "sequoia", "--budget", "24")
    assert asked["budget"] == 24


@for_the_proofs
def test_a_person_reads_on_what_sequoia_s_tree_stands(
    capsys: pytest.CaptureFixture[str], calibrated: tuple[Path, Any], tmp_path: Path
) -> None:
    command = ["generate", *QUESTION, "--max-new-tokens", "4", "--method", "sequoia"]
    assert main(command) == 0
    assert "never measured with these settings" in capsys.readouterr().err
    file = use(calibrated, tmp_path / "cache")
    assert main(command) == 0
    # "As measured here, no tree of Sequoia's pays" may stand there: what passes take depends on what else runs.
    assert "never measured" not in capsys.readouterr().err
    file.write_text("{")
    assert main(command) == 0
    assert "is damaged" in capsys.readouterr().err
    assert main([*command, "--acceptance", "prior"]) == 0
    assert "damaged" not in capsys.readouterr().err


def test_a_named_measurement_must_be_one_of_this_pair(
    capsys: pytest.CaptureFixture[str], calibrated: tuple[Path, Any], tmp_path: Path
) -> None:
    command = ["generate", *QUESTION, "--max-new-tokens", "4", "--method", "sequoia"]
    assert_refused(capsys, [*command, "--acceptance", str(tmp_path / "none.json")], "cannot be read")
    named = tmp_path / "mine.json"
    named.write_text(json.dumps({"version": 1}))
    assert_refused(capsys, [*command, "--acceptance", str(named)], "holds no measured acceptance")
    kept = json.loads(use(calibrated, tmp_path / "cache").read_text())
    named.write_text(json.dumps(kept))
    assert document(capsys, *command, "--temperature", "0.5", "--acceptance", str(named))["new_tokens"] == 4
    named.write_text(json.dumps({**kept, "draft": "another"}))
    assert_refused(capsys, [*command, "--acceptance", str(named)], "another pair")
    assert_refused(capsys, ["generate", *QUESTION, "--method", "chain", "--acceptance", str(named)], "no acceptance")


@pytest.mark.parametrize("method", SAMPLED)
def test_without_a_draft_they_are_refused(method: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert_refused(capsys, ["generate", *QUESTION, "--draft", "none", "--method", method], "needs a draft model")


def test_without_a_draft_there_is_nothing_to_calibrate(capsys: pytest.CaptureFixture[str]) -> None:
    assert_refused(capsys, ["bench", "--draft", "none", "--methods", "", "--calibrate"], "Without a draft")


@for_the_proofs
def test_all_methods_stand_in_one_table_and_auto_but_once(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    table = tmp_path / "table.json"
    options = ["--prompt-count", "1", "--max-new-tokens", "6", "--baselines", "", "--save", str(table)]
    found = document(
        capsys, "bench", *options, "--methods", "all", "--budgets", "auto,8", "--temperatures", choose("0.6", "0,0.6")
    )
    rows = [(row["method"], row["temperature"]) for row in found["rows"]]
    assert len(rows) == len(set(rows)) == choose(1, 2) * (2 + 2 * 5)
    assert {"none", "auto", "specexec", "specexec 8", "chain 8", "lookup 8"} <= {method for method, _ in rows}
    assert "auto 8" not in {method for method, _ in rows}
    assert json.loads(table.read_text())["rows"] == found["rows"]


def test_an_acceptance_is_for_sequoia_alone(capsys: pytest.CaptureFixture[str]) -> None:
    for method in ("auto", "specexec", "chain", "none"):
        arguments = ["generate", "--prompt", "Hi", "--method", method, "--acceptance", "prior"]
        assert_refused(capsys, arguments, f"The method '{method}' knows no acceptance")


@pytest.mark.parametrize(("budgets", "room"), [("auto", 0), ("auto,16", 0), ("16,64", 64), ("auto,1024", 1024)])
def test_an_automatic_budget_among_others_keeps_its_room(budgets: str, room: int) -> None:
    assert load_options(build_parser().parse_args(["bench", "--budgets", budgets])).budget == room


@for_the_proofs
def test_sequoia_learns_the_pair_from_its_own_rounds(capsys: pytest.CaptureFixture[str]) -> None:
    """Never calibrated, and not below the chain of its size on prompts that nobody has seen."""
    options = ["--prompt-count", "2", "--max-new-tokens", "48", "--baselines", "", "--no-lookup"]
    found = document(capsys, "bench", *options, "--methods", "sequoia,chain", "--budgets", "64")
    tokens_per_pass = {row["method"]: row["tokens_per_pass"] for row in found["rows"]}
    assert tokens_per_pass["sequoia 64"] >= tokens_per_pass["chain 64"]
