"""Whether a family of models opens, and whether its trees and its text then equal transformers' own."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

from engine.errors import ModelError
from engine.loading.probing import require_tree_held
from engine.model.architecture import open_architecture
from engine.model.checkpoint import Checkpoint, open_checkpoint
from engine.model.context import Context
from engine.model.families.one_pass_families import carried_width
from engine.model.families.text_backbone import HeadedDecoder
from engine.model.network import Network, cache_name
from engine.model.one_pass.chunked_calls import LEAST_ROWS
from engine.model.passes.tree_cache import CompressedTreeLayer, IndexedTreeLayer, TreeLayer
from engine.model.safe_config import MOST_LAYERS
from engine.model.safetensors_header import TensorInfo
from engine.model.shape import model_sizes
from engine.model.streamable_network import load_layerwise
from engine.protocol.options import LoadOptions
from tests.engine.family_models import VOCABULARY, save_language_model, save_tiny, usual_config
from tests.engine.speculation.pairs import random_prompt, write

CPU = torch.device("cpu")
UNHEADED = "its language model stands only inside of the whole, whose head does more than multiply"
BRANCHING, WRITING = "cannot hold a token tree", "is not a text-generation model"
PROMPT_TOKENS = 19  # longer than windows and chunks, so that they cut through prompt and tree
NEW_TOKENS = 16
NODES = 24
BUDGETS = (1, 16, 64)
TOLERANCE = 1e-3  # of the logits' deviation: rounding moves it by a hundredth of that, a wrong mask by whole units


class Standing(StrEnum):
    """What the table says of a family."""

    EXACT = "exact"
    OPENS = "opens"
    REFUSED = "refused"
    UNTRIED = "untried"


@dataclass(frozen=True, slots=True)
class Verdict:
    """One row of the table; `text` is the model_type of the language model that was built, `because` a clause."""

    family: str
    standing: Standing
    text: str = ""
    because: str = ""

    def as_entry(self) -> dict[str, str]:
        """What the record of a campaign keeps."""
        return {name: str(value) for name, value in asdict(self).items()}


class Everything(frozenset[str]):
    """A set of all names there are: transformers' own, made from its table of models, would import all of them."""

    def __contains__(self, _name: object) -> bool:
        return True


def everything_headed() -> Any:
    """Let decoders be built that only wrappers have, though nothing has been proved of them yet."""
    return patch("engine.model.families.text_backbone.VERIFIED", Everything())


@contextmanager
def nothing_known() -> Iterator[None]:
    """Forget which families hold trees and which do not."""
    with (
        patch("engine.model.families.probe.VERIFIED", frozenset()),
        patch("engine.model.architecture.REFUTED", frozenset()),
    ):
        yield


def judge(family: str, folder: Path) -> Verdict:
    """Make a tiny model of a family, open it, and compare all that it computes with transformers."""
    with nothing_known():
        with everything_headed():
            verdict = _judge(family, folder)
        reason = _refusal(family, WRITING) if verdict.standing is Standing.UNTRIED else ""
    return Verdict(family, Standing.REFUSED, because=reason) if reason else verdict


def _judge(family: str, folder: Path) -> Verdict:
    if reason := _refusal(family, BRANCHING):
        return Verdict(family, Standing.REFUSED, because=reason)
    try:
        reference = _save(family, folder)
    except Exception as error:  # noqa: BLE001 # config classes refuse what does not fit, each in its own way
        return Verdict(family, Standing.UNTRIED, because=_clause(error))
    try:
        checkpoint = open_checkpoint(str(folder))
        network = loaded(checkpoint)
        model_sizes(checkpoint)
        for _ in require_tree_held(0, Context(network, capacity=8), checkpoint, LoadOptions(cache_dir=str(folder))):
            pass
    except ModelError as error:
        return Verdict(family, Standing.REFUSED, because=_reason(error))
    text = str(network.model.config.model_type)
    fault = differences(reference, network, noisy(loaded(checkpoint)))
    if fault and isinstance(network.model, HeadedDecoder):
        return Verdict(family, Standing.REFUSED, because=UNHEADED)
    if fault:
        return Verdict(family, Standing.REFUSED, text, fault)
    sizes = _of_sizes(network, checkpoint)
    return Verdict(family, Standing.OPENS if sizes else Standing.EXACT, text, sizes)


def _refusal(family: str, kind: str) -> str:
    """Why a model of this family is refused by its config.json, whatever its size; empty if it is not.

    `kind`: what has to stand in the sentence.
    """
    anywhere = Path(family)
    tensors = {str(number): TensorInfo("F32", (1,), anywhere, 0, 4) for number in range(MOST_LAYERS)}
    try:
        config = json.loads(json.dumps(usual_config(family).to_dict(), default=str))
    except Exception:  # noqa: BLE001 # some cannot be made of nothing
        config = {"model_type": family}
    try:
        open_architecture(Checkpoint(family, family, anywhere, config, (), tensors))
    except ModelError as error:
        return _reason(error) if kind in str(error.message) else ""
    except Exception:  # noqa: BLE001 # a config that its own class does not make says nothing
        pass
    return ""


def _save(family: str, folder: Path) -> Any:
    try:
        return save_tiny(family, folder)
    except Exception:
        try:
            return save_language_model(family, folder)
        except KeyError:
            pass
        raise


def loaded(checkpoint: Checkpoint) -> Network:
    """The network as the engine loads it, in float32."""
    steps = load_layerwise(checkpoint, torch.float32, CPU)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: Network = end.value
            return found


def noisy(network: Network, noise: float = 0.1) -> Network:
    """A draft that often, but not always, agrees with the model that it was."""
    generator = torch.Generator().manual_seed(5)
    for parameter in network.model.parameters():
        if parameter.ndim >= 2:
            parameter.add_(torch.randn(parameter.shape, generator=generator) * noise * parameter.std())
    return network


def differences(reference: Any, network: Network, draft: Network) -> str:
    """What differs from transformers, as a clause; empty if nothing does."""
    return _of_trees(reference, network) or _of_texts(reference, network, draft) or _of_long_prompts(network)


def random_tree(nodes: int) -> tuple[list[int], list[int]]:
    """Tokens and parents; half of the nodes go deeper, so that windows cut through, the others branch off."""
    chance = torch.Generator().manual_seed(1)
    tokens = torch.randint(3, VOCABULARY, (nodes,), generator=chance).tolist()
    deeper = torch.rand(nodes, generator=chance).tolist()
    spread = torch.rand(nodes, generator=chance).tolist()
    parents = [-1] + [node - 1 if deeper[node] < 0.5 else int(spread[node] * node) for node in range(1, nodes)]
    return tokens, parents


@torch.inference_mode()
def _of_trees(reference: Any, network: Network) -> str:
    """One pass over a tree behind a prompt, against every path alone in transformers' own model, without a cache."""
    tokens, parents = random_tree(NODES)
    prompt = random_prompt(PROMPT_TOKENS, seed=0)
    context = Context(network, capacity=64)
    context.prefill(prompt)
    together = context.score(tokens, parents)
    for leaf in set(range(NODES)) - set(parents):
        path = [leaf]
        while parents[path[0]] >= 0:
            path.insert(0, parents[path[0]])
        alone = _of_path(reference, prompt, [tokens[step] for step in path])
        found = together[path]
        if not isinstance(network.model, HeadedDecoder):
            # Some wrappers leave out the constant by which their language model scales its logits.
            found = found * (alone.std() / found.std())
        difference = float((found - alone).abs().max() / alone.std())
        if not difference <= TOLERANCE:
            return f"the logits of a tree differ from those of a path by {difference:.2g} of their deviation"
    return ""


def _of_path(reference: Any, prompt: list[int], path: list[int]) -> Any:
    """Logits behind each token of a path. Of a model with a state as plain decoding reads them: one by one.

    Not all of these models compute the same when they read a text at once (Nemotron-H holds its time steps to a limit).
    """
    if not getattr(reference, "_is_stateful", False):
        whole = torch.tensor([[*prompt, *path]])
        return reference(input_ids=whole, use_cache=False).logits[0, PROMPT_TOKENS:]
    cache = cache_name(reference)
    output = reference(input_ids=torch.tensor([[*prompt, path[0]]]), use_cache=True)
    rows = [output.logits[0, -1]]
    for position, token in enumerate(path[1:], start=len(prompt) + 1):
        more = {cache: output[cache], "position_ids": torch.tensor([[position]])}
        output = reference(input_ids=torch.tensor([[token]]), **more, use_cache=True)
        rows.append(output.logits[0, -1])
    return torch.stack(rows)


def _of_sizes(network: Network, checkpoint: Checkpoint) -> str:
    """What the planner takes a token's keys and values for, against what the cache holds."""
    context = Context(network, capacity=8)
    context.score([5, 6], [-1, 0])
    found = [_of_slot(layer) for layer in context._cache.attention]
    sizes = model_sizes(checkpoint).layers
    planned = [layer.kv_width for layer in sizes if layer.kv_width or not layer.state]
    if len(found) == 2 * len(planned):  # LongCat-Flash attends twice in a layer
        found = [sum(pair) for pair in zip(found[::2], found[1::2], strict=True)]
    if found != planned:
        return f"a token takes {found} numbers in the caches, not {planned}"
    kept, pending = context._cache.states.nbytes, context._cache.states.pending_nbytes
    states = [layer.state for layer in sizes if layer.state]
    told = sum(state.text_bytes(4) for state in states), sum(2 * state.node_bytes(4) for state in states)
    return "" if (kept, pending) == told else f"states take {kept} and {pending} bytes, not {told}"


def _of_slot(layer: TreeLayer) -> int:
    """Numbers that a token takes in one layer's cache."""
    kept: list[torch.Tensor] = [layer.keys, layer.values] if layer.is_initialized else []
    if isinstance(layer, IndexedTreeLayer) and layer.indexer_keys is not None:
        kept.append(layer.indexer_keys)
    entries = layer.entries.values() if isinstance(layer, CompressedTreeLayer) else ()
    return sum(tensor.numel() for tensor in kept) // layer.capacity + sum(-(-e.shape[1] // size) for size, e in entries)


def _of_texts(reference: Any, network: Network, draft: Network) -> str:
    """Greedy text with trees of several sizes, against `generate`."""
    prompt = random_prompt(PROMPT_TOKENS, seed=0)
    made = reference.generate(
        input_ids=torch.tensor([prompt]),
        max_new_tokens=NEW_TOKENS,
        do_sample=False,
        eos_token_id=None,
        pad_token_id=0,
    )
    expected = made[0, PROMPT_TOKENS:].tolist()
    for budget in BUDGETS:
        if write(network, draft, prompt, NEW_TOKENS, budget).tokens != expected:
            return f"the text with trees of {budget} tokens is another"
    return ""


def _of_long_prompts(network: Network) -> str:
    """A prompt that every layer reads in chunks while its weights are there, against a pass for each chunk."""
    if not carried_width(network.model.config.get_text_config(decoder=True).to_dict(), hidden=1, head_dim=1):
        return ""
    tokens, parents = random_tree(NODES)
    found = []
    for one_pass in (False, True):
        context = Context(replace(network, reads_in_one_pass=True), capacity=64, one_pass=one_pass)
        context.prefill_rows = LEAST_ROWS
        context.prefill(random_prompt(PROMPT_TOKENS, seed=0))
        found.append(context.score(tokens, parents))
    if float((found[0] - found[1]).abs().max() / found[0].std()) <= TOLERANCE:
        return ""
    return "a prompt that is read in one pass differs from one that is read in chunks"


def _reason(error: ModelError) -> str:
    """The clause of a refusal behind the model's name."""
    message = str(error.message)
    return message.partition(": ")[2].rstrip(".") or message.partition("' ")[2].rstrip(".") or message


def _clause(error: Exception) -> str:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return f"{type(error).__name__}: {lines[-1].strip()}"[:160]
