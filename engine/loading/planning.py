"""Asks the placement planner about a pair of checkpoints: puts their sizes and this machine together."""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import torch

from engine.errors import InputError
from engine.loading.pair import words_of_positions
from engine.loading.preparation import (
    COMPRESSED,
    draft_weights,
    dtype_for,
    may_stay_packed,
    stays_stored,
    words_of_rounding,
)
from engine.model.checkpoint import Checkpoint
from engine.model.device import Arithmetic, own_dtype
from engine.model.families.own_modules import multiplies_with_linear
from engine.model.formats.packed_tables import saved_bytes
from engine.model.heads.eagle import recorded_layers
from engine.model.heads.multi_token import head_of
from engine.model.pictures.picture_sizes import picture_sizes
from engine.model.products.product import WRITTEN
from engine.model.shape import LayerSizes, ModelSizes, StoredWeight, is_expert, largest_matrix, model_sizes
from engine.number_types import COMPUTED, torch_types
from engine.protocol.heads import is_eagle3
from engine.protocol.options import AUTO_ROOM
from engine.protocol.sentences import joined, say
from engine.speculation.tuning.throughput_model import BUDGETS
from engine.weights.codecs.codec import stored_bytes
from engine.weights.planning.arrangement import streamed_layers
from engine.weights.planning.computing import levels_gain_stored
from engine.weights.planning.machine import Machine, Memory, Rates, memory_now
from engine.weights.planning.needs import Codec, KvForm, Layer, ModelNeeds, PassShape, StateNeeds, Workload, merged
from engine.weights.planning.placement import Override, Plan
from engine.weights.planning.seen import Seen
from engine.weights.planning.usual_rates import usual_rates
from engine.weights.planning.ways import (
    NO_TREE,
    Case,
    TreeYield,
    expected_passes,
    fastest,
    outlook,
    seen_over_computed,
)
from engine.weights.store.layout import round_up

DEFAULT_CONTEXT_TOKENS = 8192
KV_FORMS: Mapping[str, Sequence[KvForm]] = {"auto": ["computed"], "fit": ["computed", "8 bits"], "8": ["8 bits"]}
"""The ways to keep keys and values under each option, first the one that is taken if it fits."""

LEAST_CONTEXT = (
    2048  # tokens of a conversation worth the name: an automatic context is a multiple where it is shortened
)
AUTO_BUDGET = 64  # planned with, and drafted with until a better one is known
AUTO_WIDE_ROOM = 1024  # the same as AUTO_ROOM, where that promises more
MIXTURE_BUDGETS = (0, 4, 16)  # further trees that the placement of a mixture is planned for
FASTER = 0.75  # of the seconds that rates say: rounds are never so much faster, so the rates are too low
PAYS_FROM = 8  # rows that packed weights are multiplied with as they are, and the layers are kept so
SINGLE_EXPERT = re.compile(r"((^|\.)experts\.)\d+\.")

# Tokens per pass against budget, of Llama 2 7B and 70B on MTBench at temperature .6, as SpecExec publishes them (arXiv
# 2406.02532). A guess for other pairs, until their own figure is known.
PUBLISHED_RATES = (
    (0, 1.0), (8, 5.3), (16, 7.5), (32, 9.8), (64, 12.2), (128, 14.3), (256, 16.0), (512, 17.3), (1024, 19.5),
    (2048, 22.2), (4096, 23.6),
)  # fmt: skip
CHAINED = 0.86  # the probability with which a chain of 8 gives the published 5.3


@dataclass(frozen=True, slots=True)
class Question:
    """What to plan for.

    `weights`: `auto`, a number type, `nf4` or `int8`, of the target; a draft is never compressed. `context_tokens`: 0
    is automatic. `budget`: drafted nodes per tree; 0 where each round chooses: the plan then has room for larger trees
    than it expects, and says for how large ones. `tokens_per_pass`: as measured for this pair; 0 if it was not.
    `rates`: of this machine, as measured; None if they were not; `arithmetic`: what is fastest on its processor,
    likewise. `memory`: what is free; None to look.
    `draft_rates`: the same with the draft's weights. `trees`: what trees of several sizes give, and `seen`: what rounds
    take, as this pair's answers have shown; empty and None if they have not. `recent`: tokens per pass of the last
    answers.
    `kv`, `activations`: see `LoadOptions`; `kv_form`: one of its ways, None to find the first that fits; `is_rounded`,
    `draft_is_rounded`: see `ModelNeeds`, of the target and of a draft that stays packed.
    `drafts_itself`: copies in 4 bits of the layers that stream are the draft; `drafts_with_heads`: the target's own
    heads draft, alone or merged with the draft model.
    """

    weights: str = "auto"
    context_tokens: int = 0
    budget: int = 0
    tokens_per_pass: float = 0.0
    rates: Rates | None = None
    draft_rates: Rates | None = None
    arithmetic: Arithmetic | None = None
    memory: Memory | None = None
    trees: tuple[TreeYield, ...] = ()
    recent: tuple[float, ...] = ()
    seen: Seen | None = None
    drafts_itself: bool = False
    drafts_with_heads: bool = False
    kv: str = "auto"
    kv_form: KvForm | None = None
    activations: str = "exact"
    is_rounded: bool = False
    draft_is_rounded: bool = False
    override: Override = field(default_factory=Override)


def plan_pair(target: Checkpoint, draft: Checkpoint | None, device: torch.device, question: Question) -> Plan:
    """Where the target's layers go on this machine, as it is now, and how its keys and values are kept.

    Reads no weights. Raises `InputError` or `ModelError` for what cannot be planned.
    """
    forms = [question.kv_form] if question.kv_form else KV_FORMS[question.kv]
    plans = []
    for form in forms:
        found = _plan_with(target, draft, device, replace(question, kv_form=form))
        if found.fits:
            rounding = words_of_rounding(question.activations, found.is_rounded)
            return _told(found, words_of_kv(form), rounding, words_of_positions(draft, found.context_tokens))
        plans.append(found)
    last = replace(question, kv_form=forms[-1])
    shorter = _with_shorter_context(target, draft, device, last, plans[0])
    return _told(shorter, words_of_positions(draft, shorter.context_tokens))


def are_low(
    target: Checkpoint, draft: Checkpoint | None, device: torch.device, question: Question, found: Plan
) -> bool:
    """Whether rounds were so much faster than the rates say that these were measured on a busy machine."""
    if question.rates is None:
        return False
    case = case_of(target, draft, device, replace(question, kv_form=found.kv_form, context_tokens=found.context_tokens))
    return 0.0 < seen_over_computed(case, found) < FASTER


def words_of_kv(form: KvForm) -> str:
    """What a person should know of it; empty where keys and values are as they are computed."""
    if form == "computed":
        return ""
    return say("Keys and values are kept in 8 bits, each within 1/127 of the largest beside it.")


def _with_shorter_context(
    target: Checkpoint, draft: Checkpoint | None, device: torch.device, question: Question, found: Plan
) -> Plan:
    """Of a plan that does not fit: the one for the longest context that does, where the context was left open.

    Else the same, with a sentence about the context that would fit, if any does.
    """
    longest = _longest_context(case_of(target, draft, device, question), found.context_tokens)
    if not longest:
        return found
    if question.context_tokens or question.override.force:
        return _told(found, say("A context of {count} tokens would fit.", count=longest))
    shorter = _plan_with(target, draft, device, replace(question, context_tokens=longest))
    told = say("The context is {count} tokens long, as no more fits.", count=longest)
    rounding = words_of_rounding(question.activations, shorter.is_rounded)
    return _told(shorter, told, words_of_kv(shorter.kv_form), rounding)


def _told(found: Plan, *further: str) -> Plan:
    if not any(further):
        return found
    return replace(found, reason=joined((found.reason, *further)), note=joined((found.note, *further)))


def _longest_context(case: Case, asked: int) -> int:
    """The longest context that fits, a multiple of `LEAST_CONTEXT`; 0 where not even that does."""
    low, high = 0, (asked - 1) // LEAST_CONTEXT
    while low < high:
        middle = (low + high + 1) // 2
        work = replace(case.work, context_tokens=middle * LEAST_CONTEXT)
        low, high = (middle, high) if replace(case, work=work).plan().fits else (low, middle - 1)
    return low * LEAST_CONTEXT


def _plan_with(target: Checkpoint, draft: Checkpoint | None, device: torch.device, question: Question) -> Plan:
    """With the one way of keeping keys and values that the question names."""
    case = case_of(target, draft, device, question)
    found = case.plan()
    if case.drafts and not question.budget and case.machine.memory.has_gpu and found.verdict in ("offload", "ssd"):
        found = _roomier(case) or found
    if case.drafts and not question.budget and found.verdict in ("offload", "ssd"):
        found = _sized(case, found, tree_yields(question))
    streams = streamed_layers(found.arrangement.tiers, case.machine.memory.has_gpu)
    if question.drafts_itself and found.verdict != "no" and not streams:
        raise InputError(
            say(
                "All layers of '{name}' stay in memory: a copy of them in 4 bits is no faster draft.", name=target.name
            ),
            say("Choose another draft, or none."),
        )
    # Also where the layers are placed for trees of another size: what is told is told of the one that was asked for.
    tree = TreeYield(case.work.budget, case.work.tokens_per_pass, case.work.levels)
    found = replace(found, forecast=outlook(case, found, tree))
    return replace(found, expected=expected_passes(case, found)) if case.is_measured else found


def case_of(target: Checkpoint, draft: Checkpoint | None, device: torch.device, question: Question) -> Case:
    """What the planner is asked, in figures; raises `InputError` or `ModelError` for what cannot be planned."""
    sizes = model_sizes(target)
    if question.drafts_itself and question.weights == "nf4":
        raise InputError(
            say(
                "The layers of '{name}' are kept in 4 bits: a copy of them in 4 bits is no faster draft.",
                name=target.name,
            ),
            say("Choose other weights, or another draft."),
        )
    drafts = draft is not None or question.drafts_itself
    budget = (question.budget or AUTO_BUDGET) if drafts else 0
    work = Workload(
        context_tokens=context_for(sizes.name, sizes.max_positions, question.context_tokens),
        budget=budget,
        tokens_per_pass=question.tokens_per_pass or expected_tokens_per_pass(budget),
        room=question.budget or (AUTO_ROOM if drafts else AUTO_BUDGET),  # the text alone suggests no large trees
    )
    needs = with_kv(needs_of(target, sizes, question.weights, device, question.arithmetic), sizes, question.kv_form)
    needs = replace(needs, is_rounded=question.is_rounded)
    if may_stay_packed(target, needs, device) and question.rates and question.rates.few_rows >= PAYS_FROM:
        needs = _staying_packed(target, needs, dtype_for(question.weights, target, device, question.arithmetic))
    pictures = picture_sizes(target, sizes.hidden, needs.shape.value_bytes, work.context_tokens)
    needs = replace(needs, encoding_bytes=pictures.encoding, feature_bytes=pictures.features)
    return Case(
        "tree",
        with_copies(needs, sizes, target) if question.drafts_itself else needs,
        _drafting(target, draft, sizes, question, device) if draft else None,
        Machine(
            question.memory or memory_now(device.type),
            question.rates or usual_rates(device, needs.is_packed),
            drafting=question.draft_rates,
        ),
        work,
        question.override,
        question.rates is not None,
        question.seen if question.seen and question.seen.kv_form == needs.kv_form else None,
    )


def _drafting(
    target: Checkpoint, draft: Checkpoint, sizes: ModelSizes, question: Question, device: torch.device
) -> ModelNeeds:
    """What the draft needs, with heads where these draft; `sizes`: the target's. Heads compute in its number type."""
    is_eagle = is_eagle3(draft.config)
    if not question.drafts_with_heads and not is_eagle:
        return _alone(draft, sizes, question, device)
    heads, recorded = (draft, len(recorded_layers(draft, target))) if is_eagle else (head_of(target), 1)
    needs = needs_of(target, model_sizes(heads), question.weights, device, question.arithmetic)
    shape = replace(needs.shape, vocabulary=max(needs.shape.vocabulary, sizes.vocabulary))
    needs = replace(needs, shape=shape, record_bytes=recorded * sizes.hidden * shape.value_bytes)
    return needs if draft == heads else merged(_alone(draft, sizes, question, device), needs)


def _alone(draft: Checkpoint, target: ModelSizes, question: Question, device: torch.device) -> ModelNeeds:
    """What a draft model needs. Its logits may become those of the target's vocabulary, so the larger one counts."""
    weights, rates = draft_weights(question.weights), question.draft_rates
    needs = needs_of(draft, model_sizes(draft), weights, device, question.arithmetic)
    if rates and may_stay_packed(draft, needs, device) and levels_gain_stored(rates):
        needs = _staying_packed(draft, needs, dtype_for(weights, draft, device, question.arithmetic))
        needs = replace(needs, is_rounded=question.draft_is_rounded)
    if needs.stays_stored:
        needs = replace(needs, layers=tuple(replace(each, run_bytes=each.stored_bytes) for each in needs.layers))
    return replace(needs, shape=replace(needs.shape, vocabulary=max(needs.shape.vocabulary, target.vocabulary)))


def _staying_packed(checkpoint: Checkpoint, needs: ModelNeeds, dtype: torch.dtype) -> ModelNeeds:
    """The needs of a packed checkpoint whose layers are multiplied as they are; tables are, in these number types."""
    is_tied = bool(checkpoint.config.get("tie_word_embeddings", True))
    saved = saved_bytes(checkpoint.weights, needs.shape.value_bytes, is_tied) if dtype in WRITTEN else 0
    return replace(needs, stays_stored=True, rest_bytes=needs.rest_bytes - saved)


def _roomier(case: Case) -> Plan | None:
    """The plan with room for the largest trees, if they promise more tokens per second; else None."""
    usual, wide = (
        replace(case.work, budget=nodes, room=nodes, tokens_per_pass=expected_tokens_per_pass(nodes))
        for nodes in (AUTO_ROOM, AUTO_WIDE_ROOM)
    )
    promised = replace(case, work=wide).plan()
    now = replace(case, work=usual).plan()
    if not promised.fits or promised.forecast.tokens_per_second <= now.forecast.tokens_per_second:
        return None
    return replace(case, work=replace(case.work, room=AUTO_WIDE_ROOM)).plan()


def _sized(case: Case, found: Plan, trees: Sequence[TreeYield]) -> Plan:
    """The plan of a mixture for the trees that give most: small ones leave memory to experts, large ones to layers."""
    if not any(layer.expert_elements for layer in case.target.layers):
        return found
    plans = [found]
    for each in (NO_TREE, *trees):
        if each.nodes in MIXTURE_BUDGETS:
            work = replace(case.work, budget=each.nodes, tokens_per_pass=each.tokens_per_pass, room=found.largest_tree)
            plans.append(replace(case, work=work).plan())

    def rate(plan: Plan) -> float:
        best = fastest(case, plan, [NO_TREE, *trees])
        return best.tokens_per_second if best and plan.fits else 0.0

    return max(plans, key=rate)


def context_for(name: str, longest: int, asked: int) -> int:
    """The context in tokens, prompt and answer together; raises `InputError` if the model cannot read so much.

    `longest`: `max_positions` of the model, by whichever way it is known; `asked` 0 is automatic.
    """
    if asked > longest:
        raise InputError(
            say("'{name}' reads at most {count} tokens, not {asked}.", name=name, count=longest, asked=asked),
            say("Choose a shorter context."),
        )
    return asked or min(longest, DEFAULT_CONTEXT_TOKENS)


def expected_tokens_per_pass(budget: int) -> float:
    """A guess from the published figures, between them linear in the logarithm of the budget.

    Below the first of them as a chain, every node of which is as likely: no tree gives more tokens than it has rows.
    """
    if budget < PUBLISHED_RATES[1][0]:
        return float((1 - CHAINED ** (budget + 1)) / (1 - CHAINED))
    for (low, at_low), (high, at_high) in pairwise(PUBLISHED_RATES):
        if budget <= high:
            part = math.log((budget + 1) / (low + 1)) / math.log((high + 1) / (low + 1))
            return at_low + part * (at_high - at_low)
    return PUBLISHED_RATES[-1][1]


def tree_yields(question: Question) -> list[TreeYield]:
    """What trees give: as the pair has shown, else as published, scaled to the figure that is known of the pair."""
    if question.trees:
        return list(question.trees)
    known = question.tokens_per_pass
    published = expected_tokens_per_pass(question.budget or AUTO_BUDGET)
    scale = max(0.0, known - 1.0) / (published - 1.0) if known else 1.0
    return [TreeYield(nodes, 1.0 + scale * (expected_tokens_per_pass(nodes) - 1.0)) for nodes in BUDGETS]


def needs_of(
    checkpoint: Checkpoint,
    sizes: ModelSizes,
    weights: str,
    device: torch.device,
    arithmetic: Arithmetic | None = None,
) -> ModelNeeds:
    """What a checkpoint with its weights held in this way needs, for the planner; `arithmetic`: see `choose_dtype`."""
    dtype = dtype_for(weights, checkpoint, device, arithmetic)
    codec = _codec(sizes, weights, dtype)
    stays = codec in {"cast", "plain"} and stays_stored(checkpoint, weights, device, arithmetic)
    codec = "cast" if stays else codec
    states = [layer.state for layer in sizes.layers if layer.state]
    return ModelNeeds(
        codec=codec,
        layers=tuple(
            _layer(layer, codec, dtype, of_linear=multiplies_with_linear(checkpoint.config)) for layer in sizes.layers
        ),
        rest_bytes=sizes.rest_elements * (own_dtype(checkpoint) if stays else dtype).itemsize,
        kv_bytes=sizes.kv_width * dtype.itemsize,
        shape=PassShape(
            vocabulary=sizes.vocabulary,
            hidden=sizes.hidden,
            heads=sizes.heads,
            query_width=sizes.query_width,
            widest=sizes.widest,
            value_bytes=dtype.itemsize,
            eager=sizes.eager,
            block_choosers=sizes.block_choosers,
            state_heads=max((state.heads for state in states), default=0),
            state_width=max((state.width for state in states), default=0),
            routed_width=2 * sizes.hidden * max(each.chosen for each in sizes.layers) if device.type == "cpu" else 0,
        ),
        carried_bytes=sizes.carried * dtype.itemsize,
        state=StateNeeds(
            sum(state.text_bytes(dtype.itemsize) for state in states),
            sum(state.node_bytes(dtype.itemsize) for state in states),
        ),
        stays_stored=stays,
        is_converted=stays and not lies_in_shards(sizes),
    )


def with_kv(needs: ModelNeeds, sizes: ModelSizes, form: KvForm | None) -> ModelNeeds:
    """The same needs, with keys and values kept in this way."""
    form = form or "computed"
    is_packed = form == "8 bits"
    by_layer = [layer.kv_bytes(needs.shape.value_bytes, is_packed) for layer in sizes.layers]
    numbers = sum(layer.kv_width - layer.index_width for layer in sizes.layers) if is_packed else 0
    return replace(needs, kv_bytes=sum(by_layer), kv_form=form, kv_packed=numbers)


def with_copies(needs: ModelNeeds, sizes: ModelSizes, checkpoint: Checkpoint) -> ModelNeeds:
    """The same needs, with the bytes of a 4-bit copy of each layer that streams."""
    dtype = own_dtype(checkpoint)
    copies = (_layer(layer, "nf4", dtype).stored_bytes for layer in sizes.layers)
    layers = (replace(layer, copy_bytes=copy) for layer, copy in zip(needs.layers, copies, strict=True))
    return replace(needs, layers=tuple(layers))


def lies_in_shards(sizes: ModelSizes) -> bool:
    """Whether layers that are not compressed can be read where they lie; else they are prepared first.

    Packed ones can, but for families whose weights take more than stacking and turning: there are none among those
    that hold a token tree.
    """
    return bool(sizes.formats) or not any(_is_converted(weight) for layer in sizes.layers for weight in layer.weights)


def _codec(sizes: ModelSizes, weights: str, dtype: torch.dtype) -> Codec:
    """How layers that stream are kept: compressed, as stored (`packed`, `cast`), or prepared in `dtype` (`plain`)."""
    if weights in COMPRESSED:
        return "nf4" if weights == "nf4" else "int8"
    if sizes.formats:
        return "packed"
    stored = [weight for layer in sizes.layers for weight in layer.weights]
    if not lies_in_shards(sizes) and weights != "auto":
        return "plain"  # read once, written anew in the number type that computes
    return "plain" if all(_own_type(weight) == dtype for weight in stored) else "cast"


def _layer(layer: LayerSizes, codec: Codec, dtype: torch.dtype, of_linear: bool = True) -> Layer:
    expert_bytes = _kept_bytes(_bound_alone(layer, codec), codec, dtype)
    is_by_matrix = of_linear and (expert_bytes > 0 or not any(map(is_expert, layer.weights)))
    return Layer(
        stored_bytes=round_up(_kept_bytes(layer.weights, codec, dtype)),
        run_bytes=layer.elements * dtype.itemsize,
        elements=layer.elements,
        active_elements=layer.active_elements,
        expert_bytes=expert_bytes,
        attends=layer.kv_width > 0 or not layer.state,
        experts=layer.experts,
        chosen=layer.chosen,
        matrix_bytes=largest_matrix(layer) * dtype.itemsize if is_by_matrix else 0,
    )


def _kept_bytes(weights: Sequence[StoredWeight], codec: Codec, dtype: torch.dtype) -> int:
    """Bytes of these weights as they are kept for streaming."""
    if codec == "packed":
        return sum(weight.nbytes for weight in weights)
    if codec == "plain":
        return sum(weight.elements for weight in weights) * dtype.itemsize
    if codec == "cast":
        return sum(weight.elements * _own_type(weight).itemsize for weight in weights)
    return sum(stored_bytes(shape, codec, name, dtype) for name, shape in _stacked(weights))


def _bound_alone(layer: LayerSizes, codec: Codec) -> list[StoredWeight]:
    """The experts' weights, if each expert can be brought alone: packed ones where they are stacks, or all alike."""
    experts = [weight for weight in layer.weights if is_expert(weight)] if layer.experts else []
    return experts if codec != "packed" or _are_alike(experts) else []


def _are_alike(experts: Sequence[StoredWeight]) -> bool:
    """Whether those that are stored one by one are stored in the same way, byte for byte."""
    ways: dict[str, set[object]] = defaultdict(set)
    counts = Counter(_as_stack(weight) for weight in experts if _is_converted_expert(weight))
    for weight in filter(_is_converted_expert, experts):
        way = weight.shape, weight.dtype, weight.nbytes, weight.format
        ways[_as_stack(weight)].add(way)
    return len(set(counts.values())) <= 1 and all(len(each) == 1 for each in ways.values())


def _stacked(weights: Iterable[StoredWeight]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Names and shapes as the network holds them: experts that are stored one by one make up a stack."""
    experts = Counter((_as_stack(weight), weight.shape) for weight in weights)
    for (name, shape), count in experts.items():
        yield name, (count, *shape) if count > 1 else shape


def _as_stack(weight: StoredWeight) -> str:
    """Its name, of a single expert that of the stack that it becomes a part of."""
    return SINGLE_EXPERT.sub(r"\1", weight.name)


def _is_converted(weight: StoredWeight) -> bool:
    """Whether the network holds it in another form: another kind of numbers, single experts stacked."""
    return weight.dtype not in COMPUTED.values() or _is_converted_expert(weight)


def _is_converted_expert(weight: StoredWeight) -> bool:
    return SINGLE_EXPERT.search(weight.name) is not None


def _own_type(weight: StoredWeight) -> torch.dtype:
    return torch_types()[weight.dtype] if weight.dtype in COMPUTED.values() else torch.bfloat16
