"""Compiles a grammar where it can do no harm: a hostile one overflows the stack or computes for minutes.

No limit of the library's prevents either.

Started by `engine.text.grammars.trial` as a file, with the bytes that it may take; it imports nothing but llguidance.
It reads one document of JSON, `{"kind": ..., "text": ..., "special": {id: name}}`, and writes one: `{"refused": ...}`,
empty where all is well. What compiles a `Constraint` in the engine stands here, too.
"""

import json
import sys
import threading
from collections.abc import Mapping
from typing import Any

from llguidance import LLMatcher, LLParserLimits, LLTokenizer, TokenizerWrapper
from llguidance.gbnf_to_lark import any_to_lark

STACK_BYTES = 1 << 20  # no thread of the engine has less
PROCESSOR_SECONDS = 4
LONGEST = 2000

WHITE_SPACE = r" |\n{1,2}[ \t]{0,20}"
"""Between the parts of a JSON document: as llama.cpp has it (`SPACE_RULE` in its json-schema-to-grammar.cpp), because
models that may write any number of blanks sometimes write nothing else."""


def limits() -> LLParserLimits:
    """The library's own, but for lexer states, of which each takes up to 2 KB: 100 MB instead of 500."""
    return LLParserLimits(max_lexer_states=50_000, verbose_errors=False)


def source_of(kind: str, text: str) -> str:
    """A `Constraint` in the library's own form; raises `ValueError` where it is not even JSON, or no GBNF."""
    match kind:
        case "json":
            return LLMatcher.grammar_from_json_schema('{"type": "object"}', {"whitespace_pattern": WHITE_SPACE})
        case "json_schema":
            return LLMatcher.grammar_from_json_schema(text, {"whitespace_pattern": WHITE_SPACE})
        case "regex":
            return LLMatcher.grammar_from_regex(_without_anchors(text))
        case "lark":
            return LLMatcher.grammar_from_lark(text)
    return LLMatcher.grammar_from_lark(any_to_lark(text))


def _without_anchors(pattern: str) -> str:
    """The library matches whole texts, and knows no `^` and `$`; `\\$` is the character."""
    bare = pattern.removesuffix("$")
    is_escaped = (len(bare) - len(bare.rstrip("\\"))) % 2 == 1
    return (pattern if is_escaped else bare).removeprefix("^")


def matcher_for(tokenizer: LLTokenizer, kind: str, text: str) -> LLMatcher:
    """At the beginning of a text of the grammar's; its errors are its own (`get_error`)."""
    return LLMatcher(tokenizer, source_of(kind, text), log_level=0, limits=limits())


class Letters:
    """A vocabulary of all bytes and the model's special tokens, which grammars may name."""

    def __init__(self, special: Mapping[int, str]) -> None:
        """`special`: their names; bytes have the ids that are left."""
        self.special_token_ids = list(special)
        self.tokens = [b""] * (max(special, default=0) + 257)
        free = [token for token in range(len(self.tokens)) if token not in special]
        self._letters = free[:256]
        for byte, token in enumerate(self._letters):
            self.tokens[token] = bytes((byte,))
        for token, name in special.items():
            self.tokens[token] = name.encode()
        self.eos_token_id, self.bos_token_id = free[256] if not special else self.special_token_ids[0], None

    def __call__(self, text: bytes) -> list[int]:
        return [self._letters[byte] for byte in text]


def refusal(request: Mapping[str, Any]) -> str:
    """Why the grammar cannot be used; empty where it can."""
    try:
        special = {int(token): str(name) for token, name in request["special"].items()}
        matcher = matcher_for(LLTokenizer(TokenizerWrapper(Letters(special))), request["kind"], request["text"])
        if not matcher.is_error():
            matcher.compute_bitmask()
        return str(matcher.get_error())[:LONGEST]
    except Exception as error:  # noqa: BLE001  # it can fail in any way, and each is a refusal
        return str(error)[:LONGEST] or type(error).__name__


def confine(memory_bytes: int) -> None:
    """Take no more memory than this, moderate time, and write no core, as far as the system knows such limits."""
    if sys.platform == "win32":
        return
    import resource  # noqa: PLC0415  # not on Windows

    most = (resource.RLIMIT_AS, memory_bytes), (resource.RLIMIT_CPU, PROCESSOR_SECONDS), (resource.RLIMIT_CORE, 0)
    for limit, bound in most:
        try:
            resource.setrlimit(limit, (bound, bound))
        except (ValueError, OSError):  # macOS bounds no memory
            continue


def main() -> None:
    """Answer one request."""
    confine(int(sys.argv[1]))
    request = json.load(sys.stdin)
    threading.stack_size(STACK_BYTES)
    thread = threading.Thread(target=lambda: json.dump({"refused": refusal(request)}, sys.stdout))
    thread.start()
    thread.join()


if __name__ == "__main__":
    main()
