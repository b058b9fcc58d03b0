"""Loads both models of a pair, and says what is loaded and where it is."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from engine.accelerator import FIRST, has_graphs, is_accelerator, make_stream
from engine.errors import Cancellation, ModelError
from engine.kept_files import kept_bytes, kept_folder
from engine.loading.compiling.needed import compile_missing
from engine.loading.kept.kept_texts import KeptTexts, texts_of
from engine.loading.kept.model_names import model_names
from engine.loading.kept.texts_on_disk import Place, TextsOnDisk
from engine.loading.learned import Learned, LearnedFiles, PairMeasurements
from engine.loading.loading import (
    COPY,
    MEASURING,
    LoadedDraft,
    LoadedTarget,
    draft_dtype,
    keep_draft_small,
    load_copies,
    load_draft,
    load_planned,
)
from engine.loading.measurements.arithmetic import find_arithmetic, is_arithmetic_missing
from engine.loading.memory_limits import MemoryLimits
from engine.loading.oom_retry import GuardedContext, load_with_retries
from engine.loading.out_of_memory import give_back_large_blocks
from engine.loading.pair import Pair, mixture_of
from engine.loading.picture_readers import PictureReaders, readers_of
from engine.loading.preparation import dtype_for
from engine.loading.probing import FirstPasses, require_not_refused, require_tree_held
from engine.loading.rates import Place as LearningPlace
from engine.loading.rates import remember_answer
from engine.loading.store import cache_root, compiled_folder
from engine.loading.ways import small_trees
from engine.model.checkpoint import Checkpoint
from engine.model.context import Context, SharedContext
from engine.model.device import choose_device
from engine.model.families.text_tensors import reads_more_than_text
from engine.model.heads.eagle import load_eagle, recorded_layers
from engine.model.heads.head_context import Head, HeadContext
from engine.model.heads.hidden_states import HiddenStates
from engine.model.heads.multi_token import load_head
from engine.model.network import Network
from engine.model.passes.graphed_passes import CudaGraphs
from engine.model.passes.slot_forms import AS_COMPUTED, EIGHT_BITS
from engine.model.products.compiling import keep_compiled_in
from engine.number_types import name_of
from engine.protocol.heads import is_eagle3
from engine.protocol.messages import Event, Loaded, Loading, ModelInfo, Statistics
from engine.protocol.options import UNMEASURED, GenerateOptions
from engine.protocol.residence import Holding, Residence
from engine.protocol.sentences import Amount, joined, say
from engine.speculation.experts.sampled_size import Mixture
from engine.speculation.interfaces import Scorer
from engine.speculation.limited_draft import LimitedDraft
from engine.speculation.merged_draft import MergedDraft
from engine.speculation.method_choice import Measured, MethodInputs
from engine.speculation.text_draft import TextDraft
from engine.speculation.translation import TranslatedDraft, Translation, translation_of
from engine.speculation.tuning.tree_limit import TreeLimit
from engine.text.prompt import Prompt
from engine.weights.planning.arrangement import streamed_layers
from engine.weights.planning.machine import gib, memory_now
from engine.weights.planning.needs import Workload
from engine.weights.planning.placement import Plan
from engine.weights.streaming.experts.routing import RoutingRecord
from engine.weights.streaming.layer_store import HostShare
from engine.weights.streaming.layer_stream import LayerStream
from engine.weights.streaming.stored_weight import NarrowWeight, held_bytes


@dataclass(frozen=True, slots=True)
class LoadedPair:
    """Target and draft, ready to run.

    `good`: what memory has shown to work; `learned`: by earlier answers; `limit`: the tree sizes that memory allows;
    `texts`: what was read before the present one; `pictures`: how those in texts are read; `translation`: of the
    target's tokens for a draft with another vocabulary; `merged`: heads that draft beside a draft model; `routing`: of
    the target's last pass, if it is a mixture, and what is known of it.
    """

    pair: Pair
    weights: LoadedTarget
    target: Context
    draft: Context | None
    context_tokens: int
    good: MemoryLimits
    learned: Learned
    limit: TreeLimit
    texts: KeptTexts
    pictures: PictureReaders
    translation: Translation | None = None
    merged: HeadContext | None = None
    routing: RoutingRecord | None = None
    mixture: Mixture | None = None
    first_passes: FirstPasses = field(default_factory=FirstPasses)

    @property
    def stream(self) -> LayerStream | None:
        """What brings the target's layers; None where all of them are resident."""
        return self.weights.stream

    def guarded(self, conversation: str, prompt: Prompt) -> tuple[Scorer, Scorer | None]:
        """Target and draft as the rounds of one answer use them, the draft as a scorer of the target's tokens.

        A pass that runs out of memory raises `OutOfMemory`, and frees it. No draft where nothing drafts.
        `conversation`: what the answer belongs to, see `GenerateOptions`. `prompt`: what is to be read, with its
        pictures.
        """
        self.texts.begin(conversation)
        is_seen_by_draft = self.pictures.show(self.target, self.draft, prompt.tokens, prompt.pictures)
        target = self._tried(GuardedContext(self.target, say("the target"), self.texts), self.pair.target)
        if self.draft is None:
            return target, None
        has_own = not isinstance(self.draft, SharedContext)
        own = GuardedContext(self.draft, say("the draft"), self.texts if has_own else None)
        limited = self._limited(self._tried(own, self.pair.draft or self.pair.target), self.draft)
        draft = TranslatedDraft(limited, self.translation) if self.translation else limited
        if not is_seen_by_draft:
            draft = TextDraft(draft)
        if self.merged is None:
            return target, draft
        heads = GuardedContext(self.merged, say("the draft"), self.texts)
        return target, MergedDraft(draft, heads, self.target.network.vocabulary)

    def _tried(self, scorer: Scorer, checkpoint: Checkpoint) -> Scorer:
        return self.first_passes.of(scorer, checkpoint.name, self.target.network.device)

    def _limited(self, scorer: Scorer, draft: Context) -> Scorer:
        """What scores as the draft, held to its positions where the text may become longer than these.

        With another vocabulary, a text may have more tokens than the target's context. What borrows from the target
        goes as far as that does.
        """
        network = draft.network
        if isinstance(draft, SharedContext | HeadContext):
            return scorer
        if self.translation is None and network.max_positions >= self.context_tokens:
            return scorer
        return LimitedDraft(scorer, network.max_positions, network.vocabulary, network.device)

    @property
    def draft_stream(self) -> Any:
        """Where the draft computes while the target does, too; None where it has no stream of its own."""
        return self.draft.stream if self.draft else None

    @property
    def draft_forgets(self) -> bool:
        """Whether the draft begins every tree anew, from what the target has computed."""
        return isinstance(self.draft, SharedContext | HeadContext) or self.merged is not None

    @property
    def measurements(self) -> PairMeasurements:
        """How this pair accepts, and how long its passes take; raises `InputError` where nothing drafts."""
        return PairMeasurements(self.pair, self.weights.tiers, str(self.target.network.device))

    def measured(self, options: GenerateOptions) -> Measured:
        """What Sequoia plans by: the measurement that the options name, or the pair's own with such sampling.

        Raises `InputError` for a named one that cannot be used.
        """
        measurements, named = self.measurements, options.speculation.acceptance
        if named == UNMEASURED:
            return Measured()
        found, why = (measurements.read(Path(named)), "") if named else measurements.recall(options.sampling)
        note = joined((why, say("Sequoia learns it while it writes."))) if why else ""
        return Measured(found, found is not None and found.placement == measurements.placement, note)

    def keep_on_disk(self, cache_dir: str, most_bytes: int) -> None:
        """Keep texts in files from now on, if they are kept at all, or no longer (0); see `KeepTexts`."""
        if self.texts.on_disk is not None:
            root = kept_folder(cache_dir or cache_root(self.pair.options))
            self.texts.on_disk.place = Place(root, most_bytes) if most_bytes else None

    @property
    def kept_complaint(self) -> str:
        """What went wrong with texts in files since this was asked last, in words."""
        return self.texts.on_disk.take_complaint() if self.texts.on_disk else ""

    def complaints(self) -> tuple[str, str]:
        """What went wrong with files since this was asked last: with what was learnt, and with texts."""
        return self.learned.complaint, self.kept_complaint

    @property
    def kept_bytes(self) -> int:
        """What texts in files take, those of other pairs too."""
        disk = self.texts.on_disk
        return kept_bytes(disk.place.root) if disk and disk.place else 0

    def remember_limit(self) -> None:
        """Keep the tree sizes that memory allows, for the next load."""
        limit = self.limit
        self.good.remember(replace(self.good.limits, tree_nodes=limit.nodes, tree_patience=limit.patience))

    def remember(
        self,
        options: GenerateOptions,
        statistics: Statistics,
        inputs: MethodInputs | None = None,
        answer: Sequence[int] = (),
    ) -> None:
        """Keep what an answer has taught, in files.

        `inputs`: of its method, None where the plan learns nothing from growing trees along it; `answer`: its tokens.
        """
        if inputs and answer:
            self.learned.replay(options, inputs, answer, statistics, self.context_tokens)
        self.remember_limit()
        learned = self.learned.state(options) if self.draft else None
        self.learned.keep()
        if self.texts.on_disk and statistics.passes:  # or the prompt may not have been read to its end
            seconds = max(0.0, statistics.seconds.prefill - self.pictures.seconds)  # features are kept apart from texts
            self.texts.on_disk.learn(statistics.prompt_tokens - statistics.cached_tokens, seconds)
        remember_answer(self.pair, options.speculation, statistics, learned, self.place)

    @property
    def place(self) -> LearningPlace:
        """Where it learns what rounds take."""
        return LearningPlace(self.target.network.device, self.weights.tiers, self.weights.plan.kv_form)

    def describe(self, request: int, seconds: float) -> Loaded:
        """What is loaded, as an event."""
        share = self.stream.host_share if self.stream else HostShare()
        plan = self.weights.plan
        kept_bytes = sum(plan.layer_bytes) + plan.bytes.rest if self.weights.stored_as else 0
        target = _described(self.pair.target, self.target.network, self.weights.stored_as, kept_bytes)
        reads_text_alone = self.pictures.reason and reads_more_than_text(self.pair.target.config)
        unread = say("Pictures and sound are not read.") if reads_text_alone else ""
        for note in filter(None, (unread, pageable_note(share), plan.note)):
            target = replace(target, note=joined((target.note, note)))
        draft: ModelInfo | None = None
        if self.pair.draft and self.draft:
            held = self.weights.draft or LoadedDraft(self.draft.network)
            draft = _described(self.pair.draft, self.draft.network, held.stored_as, held.nbytes)
        if draft and isinstance(self.draft, HeadContext):
            draft = replace(draft, bytes=self.draft.nbytes)
        if draft and self.merged:
            draft = replace(
                draft, name=f"{draft.name}, with the target's heads", bytes=draft.bytes + self.merged.nbytes
            )
        if copies := self.weights.copies:
            draft = replace(target, name=f"{target.name}, layers copied", bytes=copies.nbytes, weights=COPY)
        return Loaded(
            request,
            target=target,
            draft=draft,
            context_tokens=self.context_tokens,
            seconds=seconds,
            tiers=self.weights.tiers,
            residence=_residence(self.weights.plan, share),
            common_tokens=self.pair.common_tokens,
            small_trees=small_trees(self.pair.identity, self.target.network.device, plan) if self.draft else "",
            reads_pictures=not self.pictures.reason,
            no_pictures=self.pictures.reason,
        )


def load_pair(
    request: int, pair: Pair, cancellation: Cancellation, keeps_texts: bool = False
) -> Generator[Event, None, LoadedPair]:
    """Load the weights of both models, with less of them in memory if it runs out; yields `Loading`.

    `keeps_texts`: for several who ask in turn; see `engine.loading.kept.kept_texts`. Raises `InputError`, `ModelError`,
    `OutOfMemory` or `Cancelled`; nothing is left behind then.
    """
    give_back_large_blocks()
    device = choose_device(pair.options.device)
    cancellation.check()
    keep_compiled_in(compiled_folder(pair.options))  # before anything could be compiled
    yield from compile_missing(request, pair, device, cancellation)
    is_new_here = is_arithmetic_missing(pair.identity, device)
    if is_new_here:
        yield Loading(request, MEASURING, 0, 2)
    arithmetic = find_arithmetic(pair.identity, device, cancellation.check)
    if is_new_here:  # what is fastest may be another number type than what was likely
        yield from compile_missing(request, pair, device, cancellation)
    dtype = dtype_for(pair.options.weights, pair.target, device, arithmetic)
    require_not_refused(pair.target, dtype, device, pair.options)
    if pair.draft and not pair.drafts_with_heads_alone:
        require_not_refused(pair.draft, draft_dtype(pair.draft, pair.options, device), device, pair.options)
    good = MemoryLimits(pair, device, memory_now(device.type))

    def attempt(plan: Plan) -> Generator[Event, None, LoadedPair]:
        texts = texts_of(plan, device.type) if keeps_texts else None
        return _load(request, pair, plan, good, texts, device, cancellation)

    loaded = yield from load_with_retries(request, pair, device, good, cancellation, attempt)
    if not pair.is_current:  # each weight was read from whatever file there was then
        loaded.weights.close()
        raise ModelError(
            say("The files of '{name}' were changed while they were loaded.", name=pair.target.name),
            say("Load the model again."),
        )
    return loaded


def _load(
    request: int,
    pair: Pair,
    plan: Plan,
    good: MemoryLimits,
    texts: KeptTexts | None,
    device: torch.device,
    cancellation: Cancellation,
) -> Generator[Event, None, LoadedPair]:
    """Both models as planned; nothing is left behind by whatever is raised. `texts` None: none are kept."""
    weights = yield from load_planned(request, pair.target, plan, pair.options, device, cancellation)
    try:
        work = Workload(plan.context_tokens, room=plan.largest_tree)
        slots = work.draft_slots if pair.drafts_itself else work.slots
        streams = bool(streamed_layers(weights.tiers, device.type != "cpu"))
        form = EIGHT_BITS if plan.kv_form == "8 bits" else AS_COMPUTED
        target = Context(weights.network, slots, cancellation.check, plan.snapshots, one_pass=streams, form=form)
        yield from require_tree_held(request, target, pair.target, pair.options)
        draft: Context | None = None
        translation: Translation | None = None
        heads = yield from _load_heads(request, pair, target, work, cancellation)
        if pair.drafts_itself:
            copies = yield from load_copies(request, pair.target, weights, pair.options, cancellation)
            weights = replace(weights, copies=copies)
            draft = SharedContext(copies.network, target, cancellation.check)
        elif pair.drafts_with_heads_alone:
            draft, heads = heads, None
        elif pair.draft:
            loaded = yield from load_draft(request, pair.draft, plan, pair.options, device, cancellation)
            weights, network = replace(weights, draft=loaded), loaded.network
            keep_draft_small(network, weights.network)
            draft = _draft_context(network, work.draft_slots, weights, device, plan, cancellation)
            if pair.common_tokens:
                yield Loading(request, pair.common_tokens.words, 0, 1)
            translation = _translation(pair, weights.network, network)
            yield from require_tree_held(request, draft, pair.draft, pair.options)
        learned = Learned(LearnedFiles(pair, weights.tiers, str(target.network.device), plan.kv_form))
        limit = TreeLimit(good.limits.tree_nodes, good.limits.tree_patience)
        if texts is not None:
            texts.on_disk = _texts_on_disk(pair, weights, target, draft, heads)
        return LoadedPair(
            pair, weights, target, draft, plan.context_tokens, good, learned, limit,
            KeptTexts(0) if texts is None else texts,
            readers_of(pair, target, draft, cancellation.check, plan), translation, heads,
            weights.stream.routing if weights.stream else RoutingRecord.of(weights.network.layers),
            mixture_of(pair.target, pair.draft) if pair.draft else None,
        )  # fmt: skip
    except BaseException:
        weights.close()
        raise


def _texts_on_disk(
    pair: Pair, weights: LoadedTarget, target: Context, draft: Context | None, heads: Context | None
) -> TextsOnDisk:
    drafts = (draft, pair.draft), (heads, pair.heads)
    of_draft = weights.draft.held_as if weights.draft else ""
    reading = target, pair.target
    return TextsOnDisk(model_names(reading, drafts, weights.stored_as, weights.plan.is_rounded, of_draft))


def _draft_context(
    network: Network, slots: int, weights: LoadedTarget, device: torch.device, plan: Plan, cancellation: Cancellation
) -> Context:
    """Of a draft model; on a GPU with a stream of its own, and with graphs."""
    # Behind a resident target nothing is ever drafted while it computes.
    stream = make_stream(device, FIRST) if weights.stream and is_accelerator(device) else None
    graphs = CudaGraphs(device) if has_graphs(device) else None
    return Context(network, slots, cancellation.check, plan.snapshots, stream, graphs)


def _load_heads(
    request: int, pair: Pair, target: Context, work: Workload, cancellation: Cancellation
) -> Generator[Event, None, HeadContext | None]:
    """The head that drafts, if one does; from now on the target records for it what it computes."""
    if pair.heads is None:
        return None
    yield Loading(request, say("Loading {name}", name=pair.heads.name), 0, 1)
    head: Head
    if is_eagle3(pair.heads.config):
        head = load_eagle(pair.heads, target.network)
        hidden = HiddenStates(target.network, work.slots, recorded_layers(pair.heads, pair.target))
    else:
        head = load_head(pair.heads, pair.target, target.network)
        hidden = HiddenStates(target.network, work.slots)
    target.record(hidden)
    return HeadContext(head, target, hidden, work.draft_slots, between_layers=cancellation.check)


def _translation(pair: Pair, target: Network, draft: Network) -> Translation | None:
    """For a draft with another vocabulary."""
    intersection = pair.intersection
    if intersection is None:
        return None
    sizes = target.vocabulary, draft.vocabulary
    return translation_of(intersection.common, intersection.spell, intersection.opening, *sizes, draft.device)


def _described(checkpoint: Checkpoint, network: Network, stored_as: str = "", kept_bytes: int = 0) -> ModelInfo:
    """What a person wants to know of a model; `stored_as`, `kept_bytes`: of layers kept otherwise than they run."""
    narrow = [weight for weight in network.model.parameters() if isinstance(weight, NarrowWeight)]
    kept_in = name_of(narrow[0].kept.dtype) if narrow else ""
    return ModelInfo(
        source=checkpoint.source,
        name=checkpoint.name,
        family=str(checkpoint.config["model_type"]),
        parameters=checkpoint.parameters,
        layers=len(network.layers),
        bytes=kept_bytes or sum(map(held_bytes, network.model.parameters())),
        weights=stored_as or kept_in or name_of(network.dtype),
        device=str(network.device),
    )


def pageable_note(share: HostShare) -> str:
    """That less memory was pinned than a GPU would like to copy from, and what that costs; empty if it was not."""
    if not share.pageable:
        return ""
    pinned, wanted = gib(share.pinned), gib(share.pinned + share.pageable)
    told = say(
        "The system pinned {pinned} of the {wanted} of RAM that weights stream from.", pinned=pinned, wanted=wanted
    )
    cost = say("The others are copied once more on their way to the GPU, which is slower.")
    if share.staging_rate:
        rate = Amount(f"{share.staging_rate / 1e9:.1f} GB/s")
        cost = say("The others are copied once more on their way to the GPU, at up to {rate}.", rate=rate)
    return joined((told, cost))


def _residence(plan: Plan, share: HostShare) -> Residence:
    """Where the layers of a target that was loaded by this plan are."""
    taken, room = plan.bytes, plan.room
    return Residence(
        layer_bytes=plan.layer_bytes,
        device=Holding(taken.device, room.device),
        ram=Holding(room.ram_taken(taken.device, taken.ram), room.ram),
        shared=room.shared,
        stream_bytes_per_second=_stream_bytes_per_second(plan),
        pinned=Holding(share.pinned, share.pinned + share.pageable),
        only_experts=plan.arrangement.trunks,
    )


def _stream_bytes_per_second(plan: Plan) -> float:
    """The slowest part of the way sets the pace; both parts are at work at once. 0 where experts come one by one."""
    if plan.forecast.expert_way != "whole":
        return 0.0
    streamed = streamed_layers(plan.arrangement.tiers, has_gpu=not plan.room.shared)
    seconds = max(plan.forecast.link_seconds, plan.forecast.ssd_seconds)
    return sum(plan.layer_bytes[index] for index in streamed) / seconds if seconds else 0.0
