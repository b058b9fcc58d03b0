"""Compares Coppice with llama.cpp on tiny random models: `python -m tests.campaigns.llama_cpp --families`.

Each is written as a GGUF file in 32 bits. llama.cpp continues texts of several lengths greedily; compared are the
logarithms of the probabilities of what it finds likeliest, at every place, with those that Coppice gives them.
"""

import json
import os
import random
import sys
import tempfile
import traceback
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tests.campaigns.llama_cpp import CONTEXT, MODELS, Peer, resident
from tests.campaigns.llama_departures import as_llama_cpp, rounded_gelu
from tests.engine import gguf_cases
from tests.engine.gguf_families import architecture_of
from tests.engine.gguf_files import write_gguf
from tests.engine.model.gguf import test_contents

TOKENIZER = MODELS / "demo-target"
LENGTHS = (4, 9, 70, 300, 700)  # of texts; windows are of 7 tokens, and scaled embeddings were made for 128
COUNT = 16  # tokens that continue a text
LIKELIEST = 40
ALL: dict[str, Any] = {
    "vocab_size": 4096, "max_position_embeddings": CONTEXT, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0,
}  # fmt: skip
YARN = gguf_cases.YARN
SHORT = {
    "rope_type": "longrope", "rope_theta": 10000.0, "short_factor": [1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0],
    "long_factor": [9.0] * 8,
}  # fmt: skip
INDEXER = {"index_head_dim": 64}  # llama.cpp turns keys by 64 numbers
SHARED_HEADS = {"num_key_value_heads": 4}
FULL = ["full_attention"]
STATES = {"linear_value_head_dim": 16}
MORE: Mapping[str, dict[str, Any]] = {
    # with bounds of yarn at both ends: llama.cpp rounds them, though the network does not
    "gpt_oss": {"rope_parameters": {**YARN, "rope_theta": 6.0, "original_max_position_embeddings": 200}},
    # numbers that llama.cpp does not look for in the file
    "gemma3n": {
        "num_hidden_layers": 24, "num_kv_shared_layers": 4,
        "layer_types": ((["sliding_attention"] * 4 + FULL) * 5)[:24],
        "activation_sparsity_pattern": [0.95] * 10 + [0.0] * 14, "vocab_size_per_layer_input": ALL["vocab_size"],
        "hidden_size_per_layer_input": 256, "laurel_rank": 64,
    },
    "gemma4 that shares keys": {"vocab_size_per_layer_input": ALL["vocab_size"]},
    "phi3 of long texts": {"original_max_position_embeddings": 2},  # llama.cpp takes any for long, if its memory is
    "deepseek_v2": {"n_group": 1, "topk_group": 1},  # of groups llama.cpp takes the best two experts, as V3 does
    "deepseek_v2 lite": {"num_hidden_layers": 27},  # by which llama.cpp knows it
    "deepseek_v32": INDEXER,
    **dict.fromkeys(("deepseek_v4", "dots3_note"), INDEXER),
    "minimax_m3": {"index_topk_blocks": 400},  # without flash attention, which rounds to 16 bits, it chooses none
    "chameleon": {"vocab_size": 8300},  # with the parts of pictures
    "glm_moe_dsa": INDEXER,
    "glm4_moe": {"num_mtp_layers": 0},  # of layers that predict, the writer writes only stubs
    "llama4": {"num_hidden_layers": 4},
    "cohere": {"num_hidden_layers": 64},  # by which llama.cpp knows that queries are normed, or layers have windows
    "exaone4": {"num_hidden_layers": 64, "layer_types": (["sliding_attention"] * 3 + ["full_attention"]) * 16},
    "dots1": SHARED_HEADS,  # llama.cpp knows no others
    "olmoe": SHARED_HEADS,
    "deepseek ocr": SHARED_HEADS,
    "arcee": {"mlp_bias": False},
    # llama.cpp takes the factors of a whole head, of which half turns, for those of the half
    "step3p5": {
        "rope_parameters": {
            "full_attention": {"rope_type": "default", "rope_theta": 5e6, "partial_rotary_factor": 0.5},
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
        },
    },
    "qwen35": STATES,  # as wide as those of keys
    "qwen35moe": STATES,
    "qwen3next": STATES,
}  # fmt: skip
"""What llama.cpp needs or does otherwise than a network, which tests without it do not need."""

OTHERS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "llama with linear": ("llama", {"rope_parameters": test_contents.ROPES["linear"]}),
    "llama with yarn": ("llama", {"rope_parameters": YARN}),
    "llama 3.1": ("llama", {"rope_parameters": test_contents.LLAMA3}),
    "phi3 of short texts": ("phi3", {"original_max_position_embeddings": 2048, "rope_parameters": SHORT}),
    "gemma2 27b": ("gemma2", {"num_hidden_layers": 46, "head_dim": 32}),
    "gemma3 27b": (
        "gemma3",
        {
            "num_hidden_layers": 62, "head_dim": 32, "query_pre_attn_scalar": 16,
            "layer_types": (["sliding_attention"] * 5 + ["full_attention"]) * 10 + ["sliding_attention"] * 2,
            "rope_parameters": {
                "full_attention": {"rope_type": "linear", "rope_theta": 1e6, "factor": 8.0},
                "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
            },
        },
    ),
    "olmo3 with yarn": ("olmo3", {"rope_parameters": YARN}),
    **gguf_cases.OTHER_NAMES,
    "baichuan": ("llama", {**SHARED_HEADS, "num_hidden_layers": 32}),  # by which llama.cpp knows it
}  # fmt: skip
"""Cases besides those of the tests, each of one of these, with other settings or under another architecture."""

APART = {"phimoe of long texts", "bitnet of squares", "chameleon of norms behind"}
"""Cases of what llama.cpp cannot compute: a file has another scale of the embedding than its network, or another
activation than that which llama.cpp takes for any of its kind, or what follows attention reads less there."""
LONGEST = {"chameleon": 512}
"""Tokens of texts that llama.cpp aborts at, by `model_type`: what it reads without writing has no logits to change."""

Likeliest = tuple[int, list[tuple[int, float]]]
"""The token that is taken, and the logarithms of probabilities of some; none where a token is no whole letter."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The largest difference of logarithms of probabilities, and how many likeliest tokens were the same."""

    worst: float
    same: int
    asked: int


def texts() -> list[list[int]]:
    """Random texts of several lengths."""
    rng = random.Random(3)
    return [[rng.randrange(8, ALL["vocab_size"]) for _ in range(length)] for length in LENGTHS]


def told_by_peer(path: Path, asked: Sequence[Sequence[int]]) -> list[list[Likeliest]] | str:
    """What llama.cpp finds behind every text, or why it says nothing; in a fork of this process, as it may abort."""
    reader, writer = os.pipe()
    with tempfile.TemporaryFile() as log:
        child = os.fork()
        if not child:
            os.close(reader)
            os.environ["GGML_NO_BACKTRACE"] = "1"
            for stream in (1, 2):
                os.dup2(log.fileno(), stream)
            _ask(path, asked, writer)
        os.close(writer)
        with os.fdopen(reader, encoding="utf-8") as pipe:
            said = pipe.read()
        os.waitpid(child, 0)
        log.seek(0)
        told: list[list[Likeliest]] = json.loads(said) if said else []
        return told or _reason(log.read().decode("utf-8", "replace"))


def _ask(path: Path, asked: Sequence[Sequence[int]], writer: int) -> None:
    """Ask llama.cpp, tell, and end this process."""
    try:
        peer = Peer(path)
        told = [likeliest(peer, text) for text in asked]
        with os.fdopen(writer, "w", encoding="utf-8") as pipe:
            json.dump(told, pipe)
    except Exception:  # noqa: BLE001 # the parent tells it
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(0)


def likeliest(peer: Peer, text: Sequence[int]) -> list[Likeliest]:
    """What is likeliest at every place of llama.cpp's own continuation."""
    found: list[Likeliest] = []
    for _ in range(COUNT):
        reply = peer.complete([*text, *(token for token, _ in found)], 1, n_probs=LIKELIEST)
        places = reply.get("completion_probabilities", ())
        ranked = [(entry["id"], entry["logprob"]) for place in places for entry in place["top_logprobs"]]
        found.append((reply["tokens"][0], ranked))
    return found


def _reason(log: str) -> str:
    """The first error that llama.cpp wrote, or the last line."""
    lines = [line for line in log.splitlines() if line.strip()] or ["nothing"]
    return next(
        (line.partition("error loading model: ")[2] for line in lines if "error loading model:" in line), lines[-1]
    )


def compare(path: Path, kind: str) -> Finding | str:
    """Compare both on a file of a network of this `model_type`; or why llama.cpp does not answer."""
    asked = [text for text in texts() if len(text) < LONGEST.get(kind, CONTEXT)]
    told = told_by_peer(path, asked)
    if isinstance(told, str):
        return told
    worst, same = 0.0, 0
    with patch("torch.nn.functional.gelu", rounded_gelu):  # networks hold it
        context = resident(path)
    for text, places in zip(asked, told, strict=True):
        taken = [token for token, _ in places]
        with as_llama_cpp(kind):
            context.prefill(text[:-1])
            logits = context.score([text[-1], *taken[:-1]], range(-1, len(taken) - 1))
        for (token, ranked), own in zip(places, logits.log_softmax(-1), strict=True):
            same += token == int(own.argmax())
            worst = max([worst, *(abs(float(own[other]) - expected) for other, expected in ranked)])
    return Finding(worst, same, len(asked) * COUNT)


def cases() -> list[str]:
    """Those of the tests, and others."""
    return [case for case in (*test_contents.MADE, *gguf_cases.MADE, *OTHERS) if case not in APART]


def write(case: str, path: Path) -> tuple[str, str]:
    """Write the model of a case, with a vocabulary and a context as llama.cpp needs them.

    Returns its architecture and its `model_type`.
    """
    base, own = OTHERS.get(case, (case, {}))
    tests = test_contents if base in test_contents.MADE else gguf_cases
    model = tests.make(base, **{**ALL, **MORE.get(base, {}), **own})
    frequencies = {"rope_freqs.weight": test_contents.frequencies(model)} if case == "llama 3.1" else {}
    architecture = case if case in gguf_cases.OTHER_NAMES else architecture_of(model.config.get_text_config())
    write_gguf(path, model, tokenizer=TOKENIZER, extra=frequencies, architecture=architecture)
    return architecture, model.config.model_type


def compare_families(wanted: Collection[str]) -> None:
    """Print a row of the table in `resources/docs/families.md` for each case."""
    with tempfile.TemporaryDirectory() as made:
        path = Path(made) / "m.gguf"
        for case in wanted or cases():
            architecture, kind = write(case, path)
            found = compare(path, kind)
            row = found if isinstance(found, str) else f"{found.worst:.1e} | {found.same} of {found.asked}"
            print(f"| `{architecture}` | {case} | {row} |", flush=True)
