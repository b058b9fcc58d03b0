"""The terminal: documents and traces as promised, and one clear line for everything that cannot be."""

import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from app.__main__ import main as become_coppice
from engine.__main__ import main
from engine.cli.commands import run
from engine.errors import no_package
from engine.text.tokenizer import Tokenizer
from tests.campaigns.extent import choose, for_the_proofs
from tests.engine.model.broken_folders import (
    whole_folder,
    with_disagreeing_config,
    with_foreign_tokenizer,
)
from tests.engine.text.conftest import EMBEDDED

GENERATE = {
    "text", "token_ids", "prompt_tokens", "new_tokens", "finish_reason", "method", "budget", "passes",
    "tokens_per_pass", "tokens_per_second", "drafted_nodes", "seconds", "placement", "bytes_streamed",
    "stream_gb_per_second", "peak_rss_bytes", "peak_vram_bytes",
}  # fmt: skip
ROOT = Path(__file__).parents[2]
PROMPTS = choose(1, 2)
LENGTH = choose(20, 40)
QUESTION = ["--prompt", "Tell me a story about a dragon.", "--max-new-tokens", str(LENGTH)]


def document(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert main([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_generate_prints_one_document_with_every_promised_field(capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, "generate", *QUESTION, "--budget", "32")
    assert found.keys() >= GENERATE
    assert found["seconds"].keys() >= {"load", "prefill", "draft", "target", "other", "decode"}
    assert found["placement"] == {"device": 8, "ram": 0, "ssd": 0}
    assert found["budget"] == 32
    assert found["method"] == "specexec"
    assert found["finish_reason"] == "length"
    assert found["new_tokens"] == len(found["token_ids"]) == LENGTH
    assert found["tokens_per_pass"] == pytest.approx(LENGTH / found["passes"])
    assert found["tokens_per_second"] == pytest.approx(LENGTH / found["seconds"]["decode"])
    assert found["peak_rss_bytes"] > 50 << 20


def test_the_trace_tells_the_answer_again(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    found = document(capsys, "generate", *QUESTION, "--budget", "16", "--trace", str(trace))
    rounds = [json.loads(line) for line in trace.read_text().splitlines()]
    assert [line["round"] for line in rounds] == list(range(found["passes"]))
    told, words = [], []
    for line in rounds:
        assert len(line["tokens"]) == len(line["parents"]) == len(line["log_probs"]) == len(line["depths"]) <= 17
        assert len(line["pieces"]) == len(line["tokens"])
        words += [*(line["pieces"][node] for node in line["accepted"][1:]), line["bonus_piece"]]
        assert line["parents"][0] == -1
        assert all(0 <= parent < node for node, parent in enumerate(line["parents"]) if node)
        assert all(
            line["parents"][child] == node for node, child in zip(line["accepted"], line["accepted"][1:], strict=False)
        )
        assert line["accepted"][0] == 0
        told += [*(line["tokens"][node] for node in line["accepted"][1:]), line["bonus"]]
    assert told == found["token_ids"]
    assert "".join(words) == found["text"]
    assert sum(len(line["tokens"]) - 1 for line in rounds) == found["drafted_nodes"]
    # A round's root is the last token of the round before.
    assert [line["tokens"][0] for line in rounds[1:]] == [line["bonus"] for line in rounds[:-1]]


@pytest.mark.parametrize("broken", [["--prompt", "Hi", "--target", "some/where/deep"], ["--token-ids", "1,99999"]])
def test_a_recording_stays_until_there_is_a_round_in_its_place(
    broken: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    trace = tmp_path / "trace.jsonl"
    trace.write_text("of before")
    assert_refused(capsys, ["generate", *broken, "--trace", str(trace)], "")
    assert trace.read_text() == "of before"
    found = document(capsys, "generate", "--prompt", "Hi", "--max-new-tokens", "4", "--trace", str(trace))
    assert [json.loads(line)["round"] for line in trace.read_text().splitlines()] == list(range(found["passes"]))


@for_the_proofs
def test_samples_use_successive_seeds_after_one_load(capsys: pytest.CaptureFixture[str]) -> None:
    sampled = ["generate", *QUESTION, "--temperature", "1.0"]
    both = document(capsys, *sampled, "--seed", "5", "--samples", "2")["samples"]
    alone = document(capsys, *sampled, "--seed", "6", "--method", "none")
    assert both[1]["token_ids"] == alone["token_ids"] != both[0]["token_ids"]


def test_messages_and_raw_token_ids(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    chat = tmp_path / "chat.json"
    chat.write_text(json.dumps([{"role": "user", "content": QUESTION[1]}]))
    limit = ["--max-new-tokens", "4"]
    by_prompt = document(capsys, "generate", "--prompt", QUESTION[1], *limit)
    by_messages = document(capsys, "generate", "--messages", str(chat), *limit)
    assert by_messages["token_ids"] == by_prompt["token_ids"]
    raw = document(capsys, "generate", "--token-ids", "1,5,6", *limit, "--ignore-eos")
    assert (raw["prompt_tokens"], raw["new_tokens"]) == (3, 4)
    ids = ",".join(map(str, Tokenizer.open(EMBEDDED).encode_raw(QUESTION[1])))
    as_ids = document(capsys, "generate", "--token-ids", ids, *limit)
    for source in (QUESTION, ("--messages", str(chat))):
        as_it_stands = document(capsys, "generate", "--raw", *source, *limit)
        assert as_it_stands["token_ids"] == as_ids["token_ids"] != by_prompt["token_ids"]


def test_text_goes_to_stdout_and_figures_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", *QUESTION]) == 0
    captured = capsys.readouterr()
    assert len(captured.out) > 50
    assert "tokens/pass" in captured.err
    assert "tokens/pass" not in captured.out


def test_bench_measures_all_contenders_on_the_same_prompts(capsys: pytest.CaptureFixture[str]) -> None:
    found = document(
        capsys,
        "bench",
        "--prompt-count",
        str(PROMPTS),
        "--max-new-tokens",
        "16",
        "--budgets",
        "4,16",
        "--methods",
        "specexec",
    )
    rows = {row["method"]: row for row in found["rows"]}
    assert [row["temperature"] for row in found["rows"]] == [0.0] * 5
    assert list(rows) == ["none", "specexec 4", "specexec 16", "transformers", "assisted"]
    assert {row["same_text_as_none"] for row in rows.values()} == {PROMPTS}, "greedy text differs between methods"
    assert rows["none"]["speedup"] == 1.0
    assert rows["none"]["tokens_per_pass"] == 1.0
    assert rows["specexec 16"]["tokens_per_pass"] > rows["specexec 4"]["tokens_per_pass"] > 1.5
    assert found["machine"]["target"]["name"] == "demo-target"


def test_bench_saves_one_table_over_methods_budgets_and_temperatures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = tmp_path / "table.json"
    options = ["--prompt-count", "1", "--max-new-tokens", "6", "--baselines", "", "--save", str(saved)]
    found = document(capsys, "bench", *options, "--budgets", "2,4", "--temperatures", "0,0.6", "--methods", "specexec")
    assert [(row["method"], row["temperature"], row["budget"]) for row in found["rows"]] == [
        (name, temperature, budget)
        for temperature in (0.0, 0.6)
        for name, budget in (("none", None), ("specexec 2", 2), ("specexec 4", 4))
    ]
    assert all(row["same_text_as_none"] == 1 for row in found["rows"])
    assert json.loads(saved.read_text()) == found


def truncated(folder: Path) -> None:
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1000])


def without_weights(folder: Path) -> None:
    (folder / "model.safetensors").unlink()


@pytest.mark.parametrize(
    ("break_it", "words"),
    [
        (shutil.rmtree, "There is no model folder"),
        (without_weights, "safetensors"),
        (truncated, "model.safetensors"),
        (with_disagreeing_config, "config.json"),
    ],
)
def test_a_broken_target_is_one_clear_line(
    break_it: Callable[[Path], object], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = whole_folder(tmp_path / "model")
    break_it(folder)
    assert_refused(capsys, ["generate", "--prompt", "Hi", "--target", str(folder)], words)


def test_a_draft_with_hardly_a_common_token_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = whole_folder(tmp_path / "draft")
    with_foreign_tokenizer(folder)
    assert_refused(capsys, ["generate", "--prompt", "Hi", "--draft", str(folder)], "another tokenizer than the target")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["generate", "--prompt", ""], "prompt is empty"),
        (["generate", "--prompt", "  \n"], "prompt is empty"),
        (["generate", "--token-ids", ""], "prompt is empty"),
        (["generate", "--token-ids", "1,x"], "list of token ids"),
        (["generate", "--token-ids", "1,99999"], "outside the model's vocabulary"),
        (["generate", "--token-ids", ",".join(["5"] * 2048)], "the context holds 2,048. Shorten the prompt, or"),
        (["generate", "--prompt", "Hi", "--budget", "-1"], "'-1' is not a number of nodes"),
        (["generate", "--prompt", "Hi", "--budget", "many"], "--budget"),
        (["generate", "--prompt", "Hi", "--budget", "100000"], "Budget 100000 is out of range"),
        (["generate", "--prompt", "Hi", "--temperature", "nan"], "Temperature nan is out of range"),
        (["generate", "--prompt", "Hi", "--top-p", "0"], "Top-p 0.0 is out of range"),
        (["generate", "--prompt", "Hi", "--max-new-tokens", "0"], "Max new tokens 0 is out of range"),
        (["generate", "--prompt", "Hi", "--samples", "0"], "0 samples are too few"),
        (["generate", "--prompt", "Hi", "--context", "100000"], "reads at most 2048 tokens"),
        (["generate", "--prompt", "Hi", "--draft", "none", "--method", "specexec"], "needs a draft model"),
        (["generate", "--prompt", "Hi", "--messages", "x.json"], "not allowed with"),
        (["generate", "--messages", "no-such-file.json"], "cannot be read"),
        (["generate", "--prompt", "Hi", "--regex", "a\udcff"], "the pattern is not UTF-8 text"),
        (["generate", "--prompt", "Hi", "--trace", "no/such/folder/t.jsonl"], "cannot be written"),
        (["generate", "--prompt", "Hi", "--target", "some/where/deep"], "some/where/deep"),
        (["generate", "--prompt", "Hi", "--target", "my models/a.gguf"], "There is no file 'my models/a.gguf'"),
        (["generate", "--prompt", "Hi", "--target", "models/a.gguf"], "There is no file or folder 'models/a.gguf'"),
        (["generate", "--prompt", "Hi", "--target", ""], "No model is given."),
        (["bench", "--methods", "magic"], "no method 'magic'"),
        (["bench", "--prompt-count", "999"], "prompts, not 999"),
        (["bench", "--budgets", "0"], "'0' is not a number of nodes"),
        (["bench", "--budgets", "auto,x"], "'x' is not a number of nodes"),
        (["bench", "--budgets", "8,99999"], "Budget 99999 is out of range"),
        (["bench", "--temperatures", "0,hot"], "'hot' is not a number"),
        (["bench", "--temperatures", "-1"], "Temperature -1.0 is out of range"),
        (["bench", "--save", "/no/such/folder/table.json"], "lies in no folder"),
        (["dance"], "invalid choice"),
        (["serve", "--portable"], "Unrecognized arguments: --portable. See `coppice serve --help`."),
        (["generate", "--prompt", "Hi", "--loud"], "See `coppice-engine generate --help`."),
        (["--loud", "generate", "--prompt", "Hi"], "See `coppice-engine --help`."),
    ],
)
def test_bad_input_is_one_clear_line(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert_refused(capsys, arguments, words)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["generate", "--token-ids", ","], "prompt is empty"),
        (["generate", "--prompt", "Hi", "--method", "sequoia", "--acceptance", "no-such-file"], "cannot be read"),
        (["bench", "--methods", "sequoia", "--acceptance", "no-such-file"], "cannot be read"),
        (["bench", "--temperatures", "0,nan"], "Temperature nan is out of range"),
        (["bench", "--methods", "specexec", "--budgets", "8,99999"], "Budget 99999 is out of range"),
        (["bench", "--methods", "specinfer", "--expansions", "4,99"], "expansion is out of range"),
    ],
)
def test_bad_input_is_refused_before_anything_is_loaded(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert_refused(capsys, [*arguments, "--target", "some/where/deep"], words)


def test_every_command_writes_into_the_cache_that_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    here = ["--cache-dir", str(tmp_path / "cache")]
    folder = Path(document(capsys, "prepare", "--weights", "int8", *here)["folder"])
    assert tmp_path / "cache" in folder.parents
    [model] = document(capsys, "prepared", *here)["models"]
    assert (model["folder"], model["complete"]) == (str(folder), True)
    document(capsys, "generate", *QUESTION, *here)
    assert list((tmp_path / "cache" / "learnt").iterdir())
    assert document(capsys, "prepared", "--cache-dir", str(tmp_path / "other"))["models"] == []


def with_stdin(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content), encoding="utf-8"))


def test_a_prompt_comes_from_stdin(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    few = ["--max-new-tokens", "4"]
    said = document(capsys, "generate", "--prompt", "Tell me a story.", *few)
    with_stdin(monkeypatch, b"Tell me a story.\n")  # as `echo` ends it
    assert document(capsys, "generate", "--prompt", "-", *few)["token_ids"] == said["token_ids"]
    with_stdin(monkeypatch, b'\xef\xbb\xbf[{"role": "user", "content": "Tell me a story."}]')
    assert document(capsys, "generate", "--messages", "-", *few)["token_ids"] == said["token_ids"]


def test_messages_from_stdin_that_are_none_are_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for content, words in ((b"[]", "stdin holds no messages"), (b"{", "stdin is not valid JSON")):
        with_stdin(monkeypatch, content)
        assert_refused(capsys, ["generate", "--messages", "-"], words)


@pytest.mark.parametrize(("content", "words"), [(b"", "prompt is empty"), (b"\xff", "stdin cannot be read: it is not")])
def test_a_prompt_that_is_none_is_refused(
    content: bytes, words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with_stdin(monkeypatch, content)
    assert_refused(capsys, ["generate", "--prompt", "-", "--target", "some/where/deep"], words)


def test_a_prompt_from_a_stdin_that_is_closed_is_empty(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", None)
    assert_refused(capsys, ["generate", "--prompt", "-"], "prompt is empty")


@pytest.mark.parametrize(
    "content", ["[]", "{", '[{"role": "robot", "content": "x"}]', '[{"role": "user"}]', "[" * 9999]
)
def test_a_file_of_messages_that_is_none_is_refused(
    content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chat = tmp_path / "chat.json"
    chat.write_text(content)
    assert_refused(capsys, ["generate", "--messages", str(chat)], "chat.json")


def assert_refused(capsys: pytest.CaptureFixture[str], arguments: list[str], words: str) -> None:
    assert main([*arguments, "--json"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    assert line.startswith("error: ")
    assert words in line


def test_as_a_process_it_prints_the_line_and_exits_2() -> None:
    command = [sys.executable, "-m", "engine", "tree-shape", "--acceptance", "nowhere", "--budget", "4"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert result.stderr.count("\n") == 1
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("words", [["engine", "plan"], ["app"], ["app", "serve"], ["app", "download", "a/b"]], ids=str)
def test_a_python_without_the_packages_is_told_in_a_line(words: list[str]) -> None:
    """As who has cloned the project starts it with the Python of the system."""
    bare = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-S", "-m", *words]
    result = subprocess.run(command, cwd=ROOT, env=bare, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (2, "")
    assert re.fullmatch(r"error: This Python has no package '\w+'\. Use the one in \.venv.*\n", result.stderr)


def test_a_module_of_our_own_that_is_missing_is_a_fault() -> None:
    with pytest.raises(ModuleNotFoundError):
        no_package(ModuleNotFoundError(name="engine.nowhere"))


@pytest.mark.skipif(sys.platform == "win32", reason="needs a shell that closes streams")
@pytest.mark.parametrize(
    ("acceptance", "redirection", "code"), [("0.8", ">&-", 0), ("9.8", "2>&-", 2), ("9.8", ">&- 2>&-", 2)]
)
def test_a_stream_that_is_closed_takes_nothing(acceptance: str, redirection: str, code: int) -> None:
    words = [sys.executable, "-m", "engine", "tree-shape", "--acceptance", acceptance, "--budget=4", "--max-depth=3"]
    command = ["sh", "-c", f'"$@" {redirection}', "sh", *words]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout, result.stderr) == (code, "", "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_an_error_that_cannot_be_written_keeps_its_exit_code() -> None:
    command = [sys.executable, "-m", "engine", "tree-shape", "--acceptance", "9.8", "--budget=4", "--max-depth=3"]
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        assert subprocess.run(command, stderr=full, check=False).returncode == 2


def test_letters_that_the_output_does_not_know_end_no_answer() -> None:
    """A terminal of an older encoding, or a pipe on Windows."""
    command = [sys.executable, "-m", "engine", "generate", "--prompt", "Hi", "--max-new-tokens", "8", "--regex", "ü{3}"]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    output = subprocess.check_output(command, text=True, env=environment, stderr=subprocess.STDOUT)
    *_, text, figures = output.splitlines()
    assert text == "\\xfc\\xfc\\xfc"
    assert " tokens in " in figures  # behind the text, also where both go to one file


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGINT that one process can send another")
def test_an_interrupt_exits_130_without_a_traceback_and_keeps_the_rounds_so_far(tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    endless = ["--max-new-tokens", "1900", "--ignore-eos", "--temperature", "1", "--trace", str(trace)]
    # A shell that runs the tests in the background lets its children ignore the signal: listen to it all the same.
    listening = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)"
    script = f"{listening}; from engine.__main__ import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", script, "generate", *QUESTION, *endless]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout
        process.stdout.read(1)  # it is writing
        process.send_signal(signal.SIGINT)
        text, errors = process.communicate()
    assert process.returncode == 130
    assert text.endswith("\n")
    assert "Traceback" not in errors
    rounds = [json.loads(line) for line in trace.read_text().splitlines()]
    assert [line["round"] for line in rounds] == list(range(max(1, len(rounds))))


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGINT that one process can send another")
def test_an_interrupt_within_generated_code_exits_130_too(tmp_path: Path) -> None:
    """As that of dataclasses: of a module that is run, Python would end by the signal, which callers see as -2."""
    lines = (
        "from engine import __main__ as m",
        "m._run = lambda _: exec('raise KeyboardInterrupt')",
        "raise SystemExit(m.main([]))",
    )
    (tmp_path / "interrupted.py").write_text("\n".join(lines))
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    command = [sys.executable, "-m", "interrupted"]
    result = subprocess.run(command, capture_output=True, check=False, env=paths)
    assert (result.returncode, result.stderr) == (130, b"")


@pytest.mark.parametrize("started", ["engine.idle_threads.let_idle_threads_sleep", "app.engine.serve.run"])
def test_an_interrupt_while_a_program_starts_is_one_too(started: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(started, Mock(side_effect=KeyboardInterrupt))
    begin = main if started.startswith("engine") else become_coppice
    assert begin(["serve"]) == 130


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_lack_of_memory_is_one_clear_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("engine.cli.commands._dispatch", Mock(side_effect=MemoryError))
    assert run(["tree-shape", "--acceptance", "0.5", "--budget", "4", "--max-depth", "2"]) == 2
    assert capsys.readouterr().err.startswith("error: Memory ran out.")


def test_a_full_disk_is_one_clear_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert_refused(
        capsys,
        ["generate", *QUESTION, "--max-new-tokens", "4", "--trace", "/dev/full"],
        "No space left on device. Make room",
    )
