"""What keys and values in 8 bits change: greedy texts that stay the same, and how far logits move.

python -m tests.bench.kv_cache [--prompt-count 8] [--max-new-tokens 96] [--weights float32] [--json]

The embedded pair answers the prompts with the cache as it is computed, and in 8 bits without and with trees. The target
then reads the texts of the former again, teacher forced, in both caches: the largest and the mean difference of a
logit, and the tokens whose logit stays the largest. Bytes are those of one token, in all layers. What a number in 8
bits is off by is told of all keys and values that the target has computed for the last text.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from engine.cli.bench import PROMPTS, read_prompts
from engine.cli.session import Session
from engine.model.context import Context
from engine.model.passes.slot_forms import packed, unpacked
from engine.model.shape import key_group
from engine.protocol.options import GenerateOptions, LoadOptions, SpeculationOptions
from engine.text.prompt import Prompt
from tests.bench.agreement import compared

METHODS = (("none", 0), ("specexec", 16), ("auto", 0))


@torch.inference_mode()
def logits_of(context: Context, prompt: Sequence[int], answer: Sequence[int]) -> Tensor:
    """Before every token of the answer, float32 [tokens, vocabulary]; both texts are read anew."""
    text = [prompt[-1], *answer[:-1]]
    context.rewind(0)
    context.prefill(prompt[:-1])
    found = context.score(text, range(-1, len(text) - 1)).float().clone()
    context.keep([])
    return found


def token_bytes(context: Context) -> float:
    """What one token leaves in the cache."""
    layers = context._cache.attention
    return sum(part.nbytes for layer in layers for part in layer.stored) / layers[0].capacity


def stored_error(context: Context) -> float:
    """How far a number that the context has read is off in 8 bits, at most, of the largest beside it."""
    found = 0.0
    for layer in context._cache.attention:
        for name, states in layer.slots(context.length).items():
            group = key_group(states.shape[-1]) if name == "keys" else states.shape[-1]
            read = unpacked(*packed(states, group), states.dtype)
            apart, largest = (
                (each.float().reshape(-1, group).abs()) for each in (read.float() - states.float(), states)
            )
            found = max(found, float((apart.amax(-1) / largest.amax(-1).clamp_min(1e-30)).max()))
    return found


def differences(exact: Sequence[Tensor], packed: Sequence[Tensor]) -> dict[str, Any]:
    """How far logits are apart, text by text."""
    apart = torch.cat([(a - b).abs() for a, b in zip(exact, packed, strict=True)])
    same = torch.cat([a.argmax(-1) == b.argmax(-1) for a, b in zip(exact, packed, strict=True)])
    spread = float(torch.cat(list(exact)).std())
    return {
        "largest": float(apart.max()),
        "mean": float(apart.mean()),
        "spread": spread,
        "argmax": int(same.sum()),
        "tokens": len(same),
    }


def measured(weights: str, count: int, new_tokens: int, cache: str) -> dict[str, Any]:
    """Both caches, for one number type."""
    texts: dict[str, list[list[int]]] = {}
    prompts: list[Prompt] = []
    forced: dict[str, list[Tensor]] = {}
    nbytes: dict[str, float] = {}
    error = 0.0
    for kv in ("auto", "8"):
        session = Session(LoadOptions(weights=weights, kv=kv, cache_dir=cache), quiet=True)
        prompts = prompts or [session.engine.prompt(chat) for chat in read_prompts(str(PROMPTS), count)]
        for method, budget in METHODS if kv == "8" else METHODS[:1]:
            speculation = SpeculationOptions(method, budget)
            options = GenerateOptions(speculation=speculation, max_new_tokens=new_tokens)
            texts[f"{kv} {method}"] = [list(session.collect(prompt, options).token_ids) for prompt in prompts]
        pairs = zip(prompts, texts["auto none"], strict=True)
        forced[kv] = [logits_of(session.engine.target, prompt.tokens, answer) for prompt, answer in pairs]
        nbytes[kv] = token_bytes(session.engine.target)
        error = error if kv == "8" else stored_error(session.engine.target)
        session.engine.close()
    return {
        "weights": weights,
        "bytes": nbytes,
        "stored_error": error,
        "as_computed": compared(texts["8 none"], texts["auto none"]),
        "trees": {method: compared(texts[f"8 {method}"], texts["8 none"]) for method, _ in METHODS[1:]},
        "logits": differences(forced["auto"], forced["8"]),
    }


def main() -> None:
    """Measure, and print lines per number type, or one JSON document."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prompt-count", type=int, default=8)
    parser.add_argument("--max-new-tokens", type=int, default=96)
    parser.add_argument("--weights", default="float32")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as cache:
        names = arguments.weights.split(",")
        rows = [measured(each, arguments.prompt_count, arguments.max_new_tokens, cache) for each in names]
    sys.stdout.write(json.dumps({"rows": rows}) + "\n" if arguments.json else "".join(map(_lines, rows)))


def _lines(row: dict[str, Any]) -> str:
    texts, logits = row["as_computed"], row["logits"]
    trees = ", ".join(f"{name} {each['same']} of {each['texts']}" for name, each in row["trees"].items())
    return (
        f"{row['weights']}: {row['bytes']['auto']:.0f} and {row['bytes']['8']:.0f} bytes a token\n"
        f"  a number in 8 bits is off by up to 1/{1 / row['stored_error']:.0f} of the largest beside it\n"
        f"  greedy texts in 8 bits as without: {texts['same']} of {texts['texts']}\n"
        f"  with trees as one token at a time, both in 8 bits: {trees}\n"
        f"  logits: largest difference {logits['largest']:.3g}, mean {logits['mean']:.3g}, of a deviation of "
        f"{logits['spread']:.3g}; the same token is first at {logits['argmax']} of {logits['tokens']}\n"
    )


if __name__ == "__main__":
    main()
