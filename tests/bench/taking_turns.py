"""Clients that take turns at one engine: tokens of their prompts that are read, with texts kept in RAM and without.

python -m tests.bench.taking_turns [--target SOURCE] [--draft SOURCE] [--clients 2] [--turns 4] [--json]
"""

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any

from engine.engine import Engine, load
from engine.errors import Cancellation
from engine.loading.pair import open_pair
from engine.protocol.messages import ChatMessage, Finished, Prefilled, Round
from engine.protocol.options import GenerateOptions, LoadOptions

BEGINNING = "Client {number} wants a story about the dragon number {number}. " * 6
NEXT = "And what did the dragon say to the queen on day {turn}?"
NEW_TOKENS = 24


def main() -> None:
    """Measure, and print one JSON document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", default="embedded")
    parser.add_argument("--draft", default="auto")
    parser.add_argument("--clients", type=int, default=2)
    parser.add_argument("--turns", type=int, default=4, help="questions of each")
    parser.add_argument("--json", action="store_true", help="in one line")
    arguments = parser.parse_args()
    found = measure(LoadOptions(arguments.target, arguments.draft), arguments.clients, arguments.turns)
    json.dump(found, sys.stdout, indent=None if arguments.json else 2)
    sys.stdout.write("\n")


def measure(options: LoadOptions, clients: int, turns: int, new_tokens: int = NEW_TOKENS) -> dict[str, Any]:
    """Tokens of all prompts, those of them that were read either way, and whether the answers were the same."""
    (kept, with_texts), (plain, without) = (
        converse(loaded(options, keeps_texts), clients, turns, new_tokens) for keeps_texts in (True, False)
    )
    return {
        "clients": clients,
        "turns": turns,
        "prompt_tokens": sum(event.prompt_tokens for event in kept),
        "read_with_texts_kept": tokens_read(kept),
        "read_without": tokens_read(plain),
        "same_answers": with_texts == without,
    }


def converse(engine: Engine, clients: int, turns: int, new_tokens: int) -> tuple[list[Prefilled], list[str]]:
    """What was told of every prompt, and every answer; the clients ask one after the other, and begin again."""
    chats = [[ChatMessage("user", BEGINNING.format(number=number))] for number in range(clients)]
    prompts, answers, options = [], [], GenerateOptions(max_new_tokens=new_tokens, ignore_eos=True)
    for turn in range(turns):
        for chat in chats:
            if turn:
                chat.append(ChatMessage("user", NEXT.format(turn=turn)))
            answers.append("")
            for event in engine.generate(0, engine.prompt(chat), options):
                if isinstance(event, Prefilled):
                    prompts.append(event)
                elif isinstance(event, Round | Finished):
                    answers[-1] += event.text
            chat.append(ChatMessage("assistant", answers[-1]))
    engine.close()
    return prompts, answers


def tokens_read(prompts: Sequence[Prefilled]) -> int:
    """Those that were not there already."""
    return sum(event.prompt_tokens - event.cached_tokens for event in prompts)


def loaded(options: LoadOptions, keeps_texts: bool) -> Engine:
    """The pair, ready to answer."""
    steps = load(1, open_pair(options), Cancellation(), keeps_texts)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            engine: Engine = end.value
            return engine


if __name__ == "__main__":
    main()
