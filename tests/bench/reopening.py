"""A long chat that is opened again after a restart: time to its first token, from kept texts and read anew.

python -m tests.bench.reopening [--gigabytes 1.5] [--tokens 8000] [--folder DIR] [--json]
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from engine.engine import Engine
from engine.kept_files import kept_bytes, kept_folder
from engine.protocol.messages import Finished, Round
from engine.protocol.options import GenerateOptions, LoadOptions
from engine.text.prompt import Prompt
from engine.weights.planning.machine import peak_rss_bytes
from tests.bench.folders import made_folder
from tests.bench.inflate import EMBEDDED, inflate
from tests.bench.taking_turns import loaded

DRAFT = EMBEDDED.with_name("demo-draft")
STORY = "Once upon a time there was a dragon who wanted to know everything about day {day}, and asked the queen. "
QUESTION = "And what did the queen say then?"
NEW_TOKENS = 16
PLENTY = 64 << 30


def main() -> None:
    """Measure in three processes, one after the other, and print one JSON document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=1.5, help="bytes of the decoder layers, which stream")
    parser.add_argument("--tokens", type=int, default=8000, help="of the chat")
    parser.add_argument("--folder", type=made_folder, default=None, help="where the model is made and texts are kept")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--part", choices=("first", "kept", "fresh"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.part:
        found = measured(arguments.folder, arguments.tokens, arguments.part)
    else:
        with tempfile.TemporaryDirectory(dir=arguments.folder) as scratch:
            found = compare(Path(scratch), arguments.gigabytes, arguments.tokens)
    json.dump(found, sys.stdout, indent=None if arguments.json or arguments.part else 2)
    sys.stdout.write("\n")


def compare(scratch: Path, gigabytes: float, tokens: int) -> dict[str, Any]:
    """A first day on which the chat is written and kept, and a second one, with what was kept and without."""
    for source, name, size in ((EMBEDDED, "target", gigabytes), (DRAFT, "draft", 0.0)):
        folder = inflate(scratch / name, int(size * 1e9), source)
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**config, "max_position_embeddings": 2 * tokens}))
    first, kept, fresh = (_in_new_process(scratch, tokens, part) for part in ("first", "kept", "fresh"))
    return {
        "layer_bytes": int(gigabytes * 1e9),
        "chat_tokens": tokens,
        "seconds_to_first_token": {"kept": kept["seconds"], "fresh": fresh["seconds"]},
        "times_faster": fresh["seconds"] / kept["seconds"],
        "tokens_not_read": kept["cached_tokens"] / kept["prompt_tokens"],
        "same_answer": kept["text"] == fresh["text"],
        "bytes_kept": first["bytes_kept"],
        "seconds_to_keep": first["seconds_to_keep"],
        "peak_rss_bytes": {part["part"]: part["peak_rss_bytes"] for part in (first, kept, fresh)},
    }


def measured(scratch: Path, tokens: int, part: str) -> dict[str, Any]:
    """One part, in a process of its own."""
    options = LoadOptions(
        str(scratch / "target"),
        str(scratch / "draft"),
        "cpu",
        place="ssd",
        cache_dir=str(scratch),
        context_tokens=2 * tokens,
    )
    engine = loaded(options, keeps_texts=True)
    if part != "fresh":
        engine.keep_on_disk(str(scratch), PLENTY)
    chat = scratch / "chat.json"
    story = engine.tokenizer.encode_raw("".join(STORY.format(day=day) for day in range(tokens // 10)))[:tokens]
    prompt = story if part == "first" else json.loads(chat.read_text())
    found = _answered(engine, prompt)
    if part == "first":
        begin = time.perf_counter()
        assert engine.rest(lambda: None), engine.kept_complaint
        found |= {
            "seconds_to_keep": time.perf_counter() - begin,
            "bytes_kept": kept_bytes(kept_folder(scratch)),
        }
        chat.write_text(json.dumps([*story, *found["tokens"], *engine.tokenizer.encode_raw(QUESTION)[1:]]))
    engine.close()
    return {**found, "part": part, "peak_rss_bytes": peak_rss_bytes()}


def _answered(engine: Engine, prompt: list[int]) -> dict[str, Any]:
    text, tokens = "", list[int]()
    answer = GenerateOptions(max_new_tokens=NEW_TOKENS, ignore_eos=True, conversation="the chat")
    for event in engine.generate(0, Prompt(tuple(prompt)), answer):
        if isinstance(event, Round):
            nodes = memoryview(event.tree.tokens).cast("i")
            tokens += [*(nodes[node] for node in event.accepted[1:]), event.bonus]
        if isinstance(event, Round | Finished):
            text += event.text
        if isinstance(event, Finished):
            assert event.statistics
            statistics = event.statistics
    return {
        "text": text,
        "tokens": tokens,
        "seconds": statistics.first_token_seconds,
        "prompt_tokens": statistics.prompt_tokens,
        "cached_tokens": statistics.cached_tokens,
    }


def _in_new_process(scratch: Path, tokens: int, part: str) -> dict[str, Any]:
    sys.stderr.write(f"{part}\n")
    command = [sys.executable, "-m", "tests.bench.reopening", "--part", part]
    command += ["--folder", str(scratch), "--tokens", str(tokens)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


if __name__ == "__main__":
    main()
