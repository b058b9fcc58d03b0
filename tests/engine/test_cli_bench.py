"""What `bench` can be told, and what its document tells of itself."""

import json
from pathlib import Path
from unittest.mock import Mock

import pytest

from engine.cli.arguments import build_parser, generate_options
from engine.cli.bench import as_text, read_prompts, rows
from engine.cli.calibrate import sizes_for
from engine.cli.contenders import Contender, Run
from engine.errors import InputError
from engine.protocol.messages import ChatMessage
from tests.engine.test_cli import assert_refused, document

FEW = ["--prompt-count", "2", "--max-new-tokens", "12", "--baselines", ""]


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "cache"))


def test_a_saved_table_tells_every_setting_and_every_prompt(capsys: pytest.CaptureFixture[str]) -> None:
    found = document(
        capsys, "bench", *FEW, "--methods", "specexec", "--budgets", "8", "--decay", "0.9", "--raw", "--ignore-eos"
    )
    settings = found["settings"]
    options = vars(build_parser().parse_args(["bench"])).keys() - {"command", "json", "save"}
    assert settings.keys() == options
    assert (settings["decay"], settings["raw"], settings["budgets"]) == (0.9, True, [8])
    assert settings["prompts"].endswith("prompts.jsonl")
    assert found["machine"].keys() >= {"coppice", "python", "torch", "transformers"}
    for row in found["rows"]:
        assert sum(each["new_tokens"] for each in row["prompts"]) == row["new_tokens"] == 24
        assert sum(each["passes"] for each in row["prompts"]) == row["passes"]
        assert row["stream_gb_per_second"] == 0.0


def test_a_grow_map_is_what_tree_shape_printed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    shape = document(capsys, "tree-shape", "--acceptance", "0.8,0.1", "--budget", "12", "--max-depth", "6")
    file = tmp_path / "map.json"
    file.write_text(json.dumps(shape))
    command = ["generate", "--prompt", "Hi", "--max-new-tokens", "12", "--method", "sequoia"]
    found = document(capsys, *command, "--grow-map", str(file))
    assert found["budget"] == len(shape["parents"]) - 1
    assert found["drafted_nodes"] <= found["budget"] * found["passes"]
    assert_refused(capsys, [*command[:-1], "chain", "--grow-map", str(file)], "knows no grow map")
    for content in ("{", "[]", '{"parents": [0, 0]}', '{"parents": [-1, 2, 0]}', '{"parents": [-1]}'):
        file.write_text(content)
        assert_refused(capsys, [*command, "--grow-map", str(file)], "map.json holds no")
    assert_refused(capsys, [*command, "--grow-map", str(tmp_path / "none")], "cannot be read")


def test_prompts_are_split_at_line_feeds_alone_and_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    file, texts = tmp_path / "prompts.jsonl", ["a\u2028b\u2029c\x85d", "e"]
    lines = [json.dumps({"prompt": text}, ensure_ascii=False) for text in texts]
    file.write_bytes("\r\n".join([*lines, ""]).encode("utf-8-sig"))
    assert read_prompts(str(file), 2) == [[ChatMessage("user", text)] for text in texts]


def test_expansions_are_specinfer_s_and_in_a_benchmark_each_method_has_its_own() -> None:
    bench = build_parser().parse_args(["bench", "--expansions", "4,2,1"])
    assert generate_options(bench, "specinfer", 64, 0).speculation.expansions == (4, 2, 1)
    assert generate_options(bench, "chain", 64, 0).speculation.expansions == ()
    alone = build_parser().parse_args(["generate", "--prompt", "a", "--expansions", "4,2,1"])
    with pytest.raises(InputError, match="knows no expansions"):
        generate_options(alone, "chain", 64, 0).check()


def test_times_are_measured_up_to_what_is_asked_for() -> None:
    assert sizes_for(0) == (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
    assert sizes_for(768)[-1] == 1024
    assert sizes_for(3000)[-1] == 4096


def test_an_answer_of_one_token_has_no_rate_where_the_first_is_not_timed() -> None:
    reference, baseline = (Contender(method, 0, 0.0, Mock()) for method in ("none", "transformers"))
    table = rows({reference: [Run(1, (5,), 0.1, 1, 1)], baseline: [Run(1, (5,), 0.1, 0)]})
    assert [row["tokens_per_second"] for row in table] == [10.0, None]
    assert [row["seconds_per_token"] for row in table] == [0.1, None]
    assert [row["speedup"] for row in table] == [1.0, None]
    assert table[1]["prompts"][0]["tokens_per_second"] is None
    line = as_text({"rows": table, "settings": {"prompt_count": 1}}).splitlines()[-1]
    assert line.split() == ["transformers", "0", "-", "-", "-", "-", "1/1"]


def test_a_benchmark_of_one_token_ends_with_its_table(capsys: pytest.CaptureFixture[str]) -> None:
    few = ["--prompt-count", "1", "--max-new-tokens", "1", "--methods", "chain", "--budgets", "2"]
    found = document(capsys, "bench", *few, "--baselines", "transformers")
    assert [row["new_tokens"] for row in found["rows"]] == [1, 1, 1]
