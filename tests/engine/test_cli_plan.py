"""`plan`: one JSON document as promised, a table for people, one clear line for everything that cannot be planned."""

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from engine.cli import plan as command
from engine.cli.arguments import Parser
from engine.errors import CoppiceError, InputError
from engine.model.checkpoint import open_checkpoint
from engine.model.model_folder import EMBEDDED_MODELS
from tests.engine.model.broken_folders import edit_json, whole_folder, with_foreign_tokenizer

GIB = 1 << 30


def run(*arguments: str) -> None:
    parser = Parser(prog="plan")
    command.add_arguments(parser)
    command.plan(parser.parse_args(arguments))


def document(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    run(*arguments, "--json")
    return json.loads(capsys.readouterr().out)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The embedded target's folder, its MLP so wide that the layers outweigh everything around them."""
    folder = tmp_path_factory.mktemp("large") / "model"
    shutil.copytree(EMBEDDED_MODELS / "demo-target", folder)
    tensors = open_checkpoint(str(folder)).tensors
    wide, rows = 16384, ("gate_proj", "up_proj")
    weights = {}
    for name, tensor in tensors.items():
        shape = list(tensor.shape)
        if "mlp." in name:
            shape[0 if any(row in name for row in rows) else 1] = wide
        weights[name] = torch.zeros(shape, dtype=torch.bfloat16)
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    edit_json(folder / "config.json", intermediate_size=wide)
    return folder


def test_the_document_holds_every_promised_field(capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys)
    assert found["verdict"] == "device"
    assert [layer["index"] for layer in found["layers"]] == list(range(8))
    assert {layer["tier"] for layer in found["layers"]} == {"device"}
    assert sum(layer["bytes"] for layer in found["layers"]) == found["bytes"]["parts"]["layers"]
    assert found["bytes"].keys() >= {"device", "ram", "ssd"}
    assert found["predicted"]["seconds_per_pass"] > 0
    assert found["predicted"]["tokens_per_second"] > 0
    assert found["predicted"]["peak_rss_bytes"] > found["bytes"]["device"]
    assert (found["target"], found["draft"]) == ("demo-target", "demo-draft")


def test_limits_move_layers_to_ssd_and_are_kept(large: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--target", str(large), "--draft", "none", "--weights", "bfloat16", "--context", "64"]
    free = document(capsys, *options)
    layer = free["layers"][0]["bytes"]
    assert free["verdict"] == "device"
    limit = (free["bytes"]["device"] - layer) / GIB
    tight = document(capsys, *options, "--ram-limit", str(limit))
    assert tight["verdict"] == "ssd"
    assert {place["tier"] for place in tight["layers"]} == {"device", "ssd"}
    assert tight["bytes"]["device"] + tight["bytes"]["ram"] <= limit * GIB
    assert tight["predicted"]["tokens_per_second"] <= free["predicted"]["tokens_per_second"]
    nothing = document(capsys, *options, "--ram-limit", "0.01")
    assert (nothing["verdict"], nothing["fits"]) == ("no", False)
    assert "10.2 MiB may be used" in nothing["reason"]
    assert len(nothing["layers"]) == 8


def test_compressed_layers_are_smaller(large: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--target", str(large), "--draft", "none", "--context", "64", "--weights"]
    plain, int8, nf4 = (
        document(capsys, *options, weights)["layers"][0]["bytes"] for weights in ("bfloat16", "int8", "nf4")
    )
    assert 7.5 < 8 * 2 * int8 / plain < 8.5
    assert 4.0 < 8 * 2 * nf4 / plain < 4.3


def test_a_place_is_obeyed_or_refused_or_forced(large: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--target", str(large), "--draft", "none", "--context", "64"]
    on_ssd = document(capsys, *options, "--place", "ssd")
    assert (on_ssd["verdict"], {layer["tier"] for layer in on_ssd["layers"]}) == ("ssd", {"ssd"})
    too_much = [*options, "--place", "device", "--ram-limit", "0.05"]
    assert document(capsys, *too_much)["verdict"] == "no"
    forced = document(capsys, *too_much, "--force")
    assert (forced["verdict"], forced["fits"]) == ("device", False)


def test_measured_rates_count(large: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--target", str(large), "--draft", "none", "--context", "64", "--place", "ssd"]
    slow = document(capsys, *options, "--ssd-rate", "0.05")
    assert slow["predicted"]["seconds_per_pass"] == pytest.approx(slow["bytes"]["ssd"] / 0.05e9)
    assert slow["predicted"]["tokens_per_second"] == pytest.approx(1 / slow["predicted"]["seconds_per_pass"])


def test_the_machine_is_measured_once_and_remembered(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assumed = document(capsys, "--weights", "bfloat16")
    measured = document(capsys, "--weights", "bfloat16", "--measure")
    remembered = document(capsys, "--weights", "bfloat16")
    other = document(capsys, "--weights", "float32")
    assert assumed["predicted"]["measured_at"] is other["predicted"]["measured_at"] is None
    assert datetime.fromisoformat(measured["predicted"]["measured_at"]) <= datetime.now(UTC)
    assert remembered["predicted"]["measured_at"] == measured["predicted"]["measured_at"]
    assert remembered["predicted"]["seconds_per_pass"] == measured["predicted"]["seconds_per_pass"]
    assert assumed["predicted"]["seconds_per_pass"] != measured["predicted"]["seconds_per_pass"]


def test_a_tree_gives_more_tokens_per_pass_and_takes_more_room(capsys: pytest.CaptureFixture[str]) -> None:
    small, big = (document(capsys, "--budget", budget) for budget in ("8", "2048"))
    assert small["predicted"]["tokens_per_pass"] < big["predicted"]["tokens_per_pass"]
    assert small["bytes"]["parts"]["buffers"] < big["bytes"]["parts"]["buffers"]
    measured = document(capsys, "--budget", "8", "--tokens-per-pass", "2.5")
    assert measured["predicted"]["tokens_per_pass"] == 2.5


def test_people_get_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    run("--place", "ssd")
    out = capsys.readouterr().out
    first, *rest = out.splitlines()
    assert first == "demo-target with demo-draft: 0 of 8 layers stay in memory; 8 stream from SSD."
    assert any(line.startswith("SSD") and "8 layers" in line for line in rest)
    assert any("s per pass (computing" in line for line in rest)
    assert any(line.startswith("one token per pass") for line in rest)
    assert any(line.startswith("Rates ") for line in rest)
    run("--ram-limit", "0.01")
    assert "tokens per pass" not in capsys.readouterr().out, "what does not fit promises no speed"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--target", "no/such/folder"], "There is no model folder"),
        (["--draft", "no/such/folder"], "There is no model folder"),
        (["--context", "100000"], "reads at most 2048 tokens, not 100000"),
        (["--context", "-1"], "Context -1 is out of range"),
        (["--budget", "0"], "'0' is not a number of nodes"),
        (["--budget", "many"], "--budget"),
        (["--budget", "100000"], "Budget 100000 is out of range"),
        (["--vram-limit", "lots"], "'lots' is not a number"),
        (["--ram-limit", "-1"], "'-1' is not a number of GiB above 0"),
        (["--ram-limit", "nan"], "'nan' is not a number of GiB above 0"),
        (["--ssd-rate", "0"], "'0' is not a number above 0"),
        (["--tokens-per-pass", "inf"], "'inf' is not a number above 0"),
        (["--weights", "int3"], "invalid choice"),
        (["--place", "moon"], "invalid choice"),
    ],
)
def test_bad_input_is_one_clear_sentence(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InputError) as refusal:
        run(*arguments)
    assert words in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert capsys.readouterr().out == ""


def test_a_draft_that_does_not_belong_is_refused(tmp_path: Path) -> None:
    folder = whole_folder(tmp_path / "draft")
    with_foreign_tokenizer(folder)
    with pytest.raises(CoppiceError, match="another tokenizer than the target"):
        run("--draft", str(folder))


@pytest.mark.parametrize("role", ["target", "draft"])
def test_what_could_not_be_loaded_is_not_planned_for(role: str, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(EMBEDDED_MODELS / f"demo-{role}", folder)
    edit_json(folder / "config.json", sliding_window=-4)
    with pytest.raises(CoppiceError, match="sliding_window = -4; it must be a whole number above 0"):
        run(f"--{role}", str(folder))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_one_clear_sentence() -> None:
    with pytest.raises(InputError, match="no CUDA device"):
        run("--device", "cuda")


def test_every_way_is_told_and_whether_a_tree_pays(large: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pair = ["--target", str(large), "--draft", str(EMBEDDED_MODELS / "demo-draft"), "--context", "256"]
    whole = document(capsys, *pair)
    most = (whole["bytes"]["device"] - 9 * whole["layers"][0]["bytes"] // 2) / GIB  # ready, they take twice as much
    streamed = document(capsys, *pair, "--ram-limit", f"{most:.3f}")
    assert streamed["verdict"] == "ssd"
    plain, small, *_others = streamed["ways"]
    assert (plain["name"], plain["nodes"], small["name"]) == ("plain", 0, "small")
    assert streamed["trees"].startswith("A tree of ")
    assert {way["name"] for way in streamed["ways"]} >= {"kept", "smaller"}
    assert streamed["basis"].startswith("Tokens per pass are assumed, as published for another pair. Pairs differ: ")
    run(*pair, "--ram-limit", f"{most:.3f}")
    told = capsys.readouterr().out
    assert "one token per pass" in told
    assert streamed["trees"].partition(" gives")[0] in told
    alone = document(capsys, "--target", str(large), "--draft", "none")
    assert [way["name"] for way in alone["ways"]] == ["plain"]
    assert (alone["trees"], alone["advice"], alone["basis"]) == ("", [], "")
