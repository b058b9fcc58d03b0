"""Asks llama.cpp's server and Coppice's the same at llama-server's addresses: `python -m tests.campaigns.llama_server`.

Both have the embedded pair, with tokens that stand around gaps. Greedy texts of `/completion` and `/infill` have to be
the same, and so have tokens, texts of tokens, and conversations as text. Of every answer the fields that both have are
compared by their types; what only llama-server tells is printed. Needs `pip install xllamacpp`.
"""

import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2

from tests.campaigns.engine_servers import MODELS, serving

MARKS = {"<|system|>": "<|fim_prefix|>", "<|user|>": "<|fim_suffix|>", "<|assistant|>": "<|fim_middle|>"}
FILES = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")
GREEDY = {"temperature": 0, "n_predict": 24}
PROMPT = "Once upon a time there was a"
DRY = {"dry_multiplier": 2.0, "dry_allowed_length": 0, "dry_penalty_last_n": 400, "dry_sequence_breakers": ["*"]}
TYPED = "def f(x): # <|fim_suffix|> <|end|>\n    return x\n"
GAP = {"input_prefix": "Once upon a time there was a dragon. He", "input_suffix": " and was happy.\nThe end."}
EXTRA = {"input_extra": [{"filename": "a.txt", "text": "A dragon had a hat.\n"}]}
CHAT = {"messages": [{"role": "system", "content": "Be short."}, {"role": "user", "content": "Hello!"}]}
BEGUN = {"messages": [*CHAT["messages"], {"role": "assistant", "content": "Good"}]}
ASKED: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("/completion", {**GREEDY, "prompt": PROMPT}, "content"),
    ("/completion", {**GREEDY, "prompt": PROMPT, "stop": ["was"]}, "content"),
    ("/completion", {**GREEDY, "prompt": PROMPT, "n_probs": 2, "return_tokens": True}, "tokens"),
    ("/completion", {**GREEDY, "prompt": ["Once upon", " a time"], "n_predict": 1}, "tokens"),
    ("/completion", {**GREEDY, "prompt": PROMPT, "response_fields": ["content", "timings/predicted_n"]}, "content"),
    ("/completion", {**GREEDY, **DRY, "prompt": PROMPT}, "content"),
    ("/infill", {**GREEDY, **GAP}, "content"),
    ("/infill", {**GREEDY, **GAP, **EXTRA, "prompt": " said"}, "content"),
    ("/infill", {**GREEDY, **GAP, "input_suffix": TYPED}, "prompt"),
    ("/tokenize", {"content": TYPED}, "tokens"),
    ("/tokenize", {"content": TYPED, "parse_special": False}, "tokens"),
    ("/tokenize", {"content": "A 🌳", "with_pieces": True}, "tokens"),
    ("/detokenize", {"tokens": [38, 1755, 2, 226]}, "content"),
    ("/apply-template", CHAT, "prompt"),
    ("/apply-template", BEGUN, "prompt"),
)
SETTINGS = {"generation_settings", "params"}  # of which only those are told that there are here
TOLD = ("/props", "/slots", "/v1/models", "/health")


def main() -> None:
    """Compare all of it; exit code 1 if anything differs."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        _write_pair(folder)
        with serving("llama", folder, models=folder) as theirs, serving("coppice", folder, models=folder) as ours:
            results = [*_compare(theirs.address, ours.address)]
    for is_good, words in results:
        print("ok  " if is_good else "BAD ", words)
    sys.exit(not all(is_good for is_good, _ in results))


def _write_pair(folder: Path) -> None:
    """The embedded pair, whose marks of speakers are those around gaps."""
    for name in ("demo-target", "demo-draft"):
        shutil.copytree(MODELS / name, folder / name)
        for file in (folder / name / each for each in FILES):
            text = file.read_text("utf-8")
            for old, new in MARKS.items():
                text = text.replace(old, new)
            file.write_text(text, "utf-8")


def _compare(theirs: str, ours: str) -> Iterator[tuple[bool, str]]:
    for path, asked, field in ASKED:
        answers = [httpx2.post(f"{address}{path}", json=asked, timeout=60).json() for address in (theirs, ours)]
        their, our = (_values(answer, field) for answer in answers)
        shown = json.dumps({name: value for name, value in asked.items() if name not in GREEDY})[:70]
        yield their == our, f"{path} {shown}: {str(our)[:60]!r}" + ("" if their == our else f", theirs {their!r}")
        yield from _types(path, *answers)
    for path in TOLD:
        yield from _types(path, *(httpx2.get(f"{address}{path}", timeout=60).json() for address in (theirs, ours)))


def _values(answer: Any, field: str) -> Any:
    return [each.get(field) for each in answer] if isinstance(answer, list) else answer.get(field)


def _types(path: str, theirs: Any, ours: Any) -> Iterator[tuple[bool, str]]:
    """One line for each field of another type, and one for what is missing."""
    their, our = dict(_kinds(theirs)), dict(_kinds(ours))
    differing = [f"{name} is {our[name]}, theirs {kind}" for name, kind in their.items() if our.get(name, kind) != kind]
    told = (name for name in their if SETTINGS.isdisjoint(name.split(".")))
    missing = sorted(name for name in told if name not in our)
    words = f"{'; '.join(differing) or 'the same'}; not told: {', '.join(missing) or 'nothing'}"
    yield not differing, f"{path} types: {words}"


def _kinds(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """The type of every field, by its path; of lists that of their first entry."""
    if path:
        yield path, "number" if type(value) in (int, float) else type(value).__name__
    if isinstance(value, dict):
        for name, each in value.items():
            yield from _kinds(each, f"{path}.{name}" if path else name)
    elif isinstance(value, list) and value:
        yield from _kinds(value[0], f"{path}[]" if path else "[]")


if __name__ == "__main__":
    main()
