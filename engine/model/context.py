"""A model with what it has read: prefill a prompt, score a tree in one pass, keep the accepted path, rewind."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from itertools import pairwise, takewhile
from typing import Any

import torch
from torch import Tensor

from engine import accelerator
from engine.accelerator import begin_stream, on_own_stream
from engine.model.heads.hidden_states import HiddenStates
from engine.model.network import Network
from engine.model.one_pass.chunked_calls import LEAST_ROWS
from engine.model.one_pass.prompt_pass import PromptPass
from engine.model.passes import tree_attention
from engine.model.passes.graphed_passes import GraphBackend, GraphedPasses
from engine.model.passes.kept_text import KeptText
from engine.model.passes.layer_hooks import KnownHook
from engine.model.passes.sight import Blocks, Sight
from engine.model.passes.slot_forms import AS_COMPUTED, SlotForm
from engine.model.passes.tree_cache import PendingTree, TreeCache, TreeMasks
from engine.model.pictures.shown import ShownPictures
from engine.model.rope import BOUNDLESS, TurnedTokens
from engine.model.state.state_cache import SNAPSHOTS
from engine.model.state.tree_paths import TreePaths
from engine.own_thread import in_all_threads, in_own_thread

LIGHT_ROWS = 65  # of a pass whose sums and norms one thread computes no later than several would: a tree of 64
PREFILL_ROWS = 1024  # tokens of a prompt that a layer reads at once: bounds the mask and the attention scores


def same_tokens(one: Sequence[int], other: Sequence[int]) -> int:
    """How many tokens both begin with."""
    return sum(takewhile(bool, (a == b for a, b in zip(one, other, strict=False))))


class Context:
    """A transformers model and its tree cache. Target and draft are both a `Context`; only their layers differ.

    Committed tokens stand in slots [0, length), where slot == position. Behind them may stand pending nodes, a tree
    that `keep` prunes to one path or `score` adds to. A pass that raises leaves the context as it was before.

    A draft may lack token ids that its target has (their embeddings are padded to other sizes): for each of these it
    reads a known one. What it guesses behind them is worse; whatever it guesses, the target verifies it.
    """

    def __init__(
        self,
        network: Network,
        capacity: int,
        between_layers: Callable[[], None] = lambda: None,
        snapshots: int = SNAPSHOTS,
        stream: Any = None,
        graphs: GraphBackend | None = None,
        one_pass: bool = False,
        form: SlotForm = AS_COMPUTED,
    ) -> None:
        """`capacity`: slots for prompt, answer and tree; `between_layers` runs before every layer and may raise.

        `snapshots`: how many are kept of the states that some networks have, to go back to. `stream`: to compute on;
        `graphs`: to record small passes with; see `on_own_stream` and `engine.model.passes.graphed_passes`.
        `one_pass`: a prompt of any length is read in one pass over the layers, if the network can be read so, see
        `engine.model.one_pass`. `form`: how keys and values are kept.
        """
        self.network = network
        self.form = form
        self.stream = begin_stream(stream)
        self.tokens: list[int] = []
        self.prefill_rows = PREFILL_ROWS
        self.whole_rows = BOUNDLESS if one_pass and network.reads_in_one_pass else 0
        self._cache = TreeCache(network.spans, capacity, snapshots, form)
        self._masks = TreeMasks(network.spans, network.attention, network.dtype, network.device)
        self._pending = PendingTree()
        self._turned = TurnedTokens(network.rope) if network.rope else None
        self._graphs = GraphedPasses(network, self._cache, self._masks, graphs, self._compute) if graphs else None
        self._between_layers = between_layers
        self._pictures: ShownPictures | None = None
        for layer in network.layers:
            layer.register_forward_pre_hook(KnownHook(lambda _inputs: between_layers(), "once"))

    @property
    def pictures(self) -> ShownPictures | None:
        """Those in the text that is read; without them a network reads something that says nothing in their place."""
        return self._pictures

    def show(self, pictures: ShownPictures | None) -> None:
        """From now on the text has these pictures."""
        self._pictures = pictures

    @property
    def pass_rows(self) -> int:
        """The most tokens of a prompt in one pass; of more than `prefill_rows` every layer reads so many at once."""
        return max(self.prefill_rows, self.whole_rows) if self.prefill_rows >= LEAST_ROWS else self.prefill_rows

    def shorten_passes(self, tokens: int, times: int) -> None:
        """From now on read a prompt of so many tokens in chunks, and in passes, that are so many times smaller."""
        self.prefill_rows = max(1, min(self.prefill_rows, tokens) // times)
        self.whole_rows = min(self.whole_rows, tokens) // times  # 0 where prompts are not read layer by layer

    @property
    def length(self) -> int:
        """Committed tokens."""
        return len(self.tokens)

    @property
    def reach(self) -> int:
        """Levels that a tree may have behind the next root and still equal plain decoding at every node."""
        return self._turned.reach(self.length) if self._turned is not None else BOUNDLESS

    @property
    def records(self) -> tuple[int, ...] | None:
        """The layers whose outputs are kept of what it reads, as `HiddenStates` has them; None where nothing is."""
        return None if self._cache.hidden is None else self._cache.hidden.layers

    def record(self, hidden: HiddenStates) -> None:
        """Keep with every token, committed or pending, what `hidden` records of it, from the first token on."""
        assert not self.tokens, "what was read before cannot be recorded"
        self._cache.hidden = hidden

    @on_own_stream
    def prefill(self, tokens: Sequence[int]) -> int:
        """Make the committed tokens equal `tokens`; returns how many of them were in the cache already.

        They are a prompt but for its last token, which is the first to be scored. Only what follows the common prefix
        is computed, so a second turn of a chat pays for what is new.
        """
        common = self.common(tokens)
        self._forget(common)
        if self._turned is not None:
            self._turned.begin(common, anchor=len(tokens) + 1)
        if common < len(tokens):
            self._cache.states.remember()  # the end of a turn, as far as it stays
        for begin, end in pairwise([common, *self._ends(tokens, common, self.pass_rows)]):
            self._prefill_rows(list(tokens[begin:end]))
        self._cache.states.remember()
        return common

    def common(self, tokens: Sequence[int]) -> int:
        """How many tokens at the beginning of `tokens` are committed already, as `prefill` would compute them."""
        common = self._unparted(tokens, same_tokens(self.tokens, tokens))
        if self._turned is not None:
            common = min(common, self._turned.fitting(len(tokens) + 1))
        return self._cache.states.nearest(common)

    def common_with(self, kept: KeptText, tokens: Sequence[int]) -> int:
        """As `common`, if `kept` were what is committed."""
        common = self._unparted(tokens, same_tokens(kept.tokens, tokens))
        if self._turned is not None and kept.turned is not None:
            common = min(common, self._turned.fitting(len(tokens) + 1, kept.turned))
        return kept.states.nearest(common) if kept.states else common

    @property
    def text_bytes(self) -> int:
        """What a copy of all that is committed would take."""
        length = self._cache.whole(self.length)
        slots = sum(part.nbytes for layer in self._cache.slots(length) for part in layer.values())
        rows = self._cache.hidden.first(length) if self._cache.hidden else None
        return slots + self._cache.states.text_nbytes + (rows.nbytes if rows is not None else 0)

    @on_own_stream
    @torch.inference_mode()
    def copied_text(self) -> KeptText:
        """All that is committed, in host memory. Raises `MemoryError` or torch's own where there is none.

        Like a pass it can be stopped between two layers, and so can `restore`.
        """
        kept, slots = self.text_in_place(), []
        for layer in kept.slots:
            self._between_layers()
            slots.append({name: part.to("cpu", copy=True) for name, part in layer.items()})
        hidden = None if kept.hidden is None else kept.hidden.to("cpu", copy=True)
        return replace(kept, slots=tuple(slots), hidden=hidden)

    @on_own_stream
    @torch.inference_mode()
    def text_in_place(self) -> KeptText:
        """All that is committed, most of it where it lies: for whoever is done with it before the next pass.

        It may be read on any stream: what `keep` moved is in its place when this returns.
        """
        cache, length = self._cache, self._cache.whole(self.length)
        found = KeptText(
            tuple(self.tokens[:length]),
            cache.slots(length),
            cache.hidden.first(length) if cache.hidden else None,
            cache.states.copied(),
            None if self._turned is None else self._turned.copied(length),
        )
        accelerator.wait_for_current_stream(self.network.device)
        return found

    @on_own_stream
    @torch.inference_mode()
    def restore(self, kept: KeptText, length: int) -> None:
        """Have committed the first `length` tokens of `kept`, as they were; then `prefill` what begins with these.

        `length`: of `common_with`. What raises leaves the context empty.
        """
        self._forget(0)
        device = self.network.device
        try:
            for layer, slots in zip(self._cache.attention, kept.slots, strict=True):
                self._between_layers()
                layer.restore(slots, length, device)
            if self._cache.hidden is not None and kept.hidden is not None:
                self._cache.hidden.restore(kept.hidden[:length].to(device))
            if kept.states is not None:
                self._cache.states.restore(kept.states, length, device)
        except BaseException:
            self._forget(0)
            raise
        if self._turned is not None and kept.turned is not None:
            self._turned.restore(kept.turned, length)
        self.tokens[:] = kept.tokens[:length]

    @on_own_stream
    def score(self, tokens: Sequence[int], parents: Sequence[int], last: int = 0) -> Tensor:
        """Append nodes to the pending tree and run ONE pass over them; returns logits [n, vocabulary].

        `parents` are numbers of pending nodes, in the order of their appending, -1 for the last committed token; a
        parent stands before its children. Row i is the distribution after node i; `last` > 0 limits the rows. They
        are in the type that the network computes in: in float32 those of a large tree took most of a pass's memory.
        """
        before = len(self._pending)
        self.settle()
        self._cache.crop_to(self.length + before)  # drop nodes left by the self-draft, see `SharedContext`
        with self._undone_on_error(before):
            visible = self._pending.append(tokens, parents)
            self._begin_tree(before)
            sight = Sight(self.length, len(tokens), self._pending.positions(self.length), visible)
            return self._forward(tokens, sight, last)

    @on_own_stream
    def settle(self) -> None:
        """Recompute what is cached for a text of another length, with all pending nodes; few models need it.

        A phi3 needs it once the text grows beyond the length of its first training; one that keeps a state, where it
        went back to a snapshot farther behind than was asked for.
        """
        begin = self._begin_of_unread()
        if begin == self.length:
            return
        begin = self._go_back(begin)
        try:
            self._read(self.tokens, begin)
            self._read_pending()
        except BaseException:
            self._go_back(begin)  # the next pass begins here again
            raise
        if self._turned is not None:
            self._turned.commit(self.length)

    def _begin_of_unread(self) -> int:
        """The first committed token that has to be read again; `length` for none."""
        begin = min(self.length, self._cache.states.nearest(self.length))
        if self._turned is not None:
            self._turned.pass_behind(self.length)
            begin = min(begin, len(self._turned))
        return begin

    def _go_back(self, length: int) -> int:
        """Let the cache end at `length`, or before it where states were not kept; returns where it ends."""
        length = self._cache.states.rewind(length)
        self._cache.crop_to(length)
        return length

    @on_own_stream
    def keep(self, nodes: Sequence[int], rest: Sequence[int] = ()) -> None:
        """Commit the path of pending nodes, first to last; forget every other pending node but those of `rest`.

        `rest`, ascending, are descendants of the path's last node, each with its ancestors up to there. They stay
        pending and are numbered anew from 0, in their order.
        """
        assert self._pending.is_path(nodes), "only a path can be kept"
        kept = [*nodes, *rest]
        if kept == list(range(len(kept))):  # as after every pass without a tree: nothing has to move
            self._cache.crop_to(self.length + len(kept))
        else:
            slots = torch.tensor(kept, dtype=torch.int64) + self.length
            self._cache.keep(self.length, slots.to(self.network.device, non_blocking=True))
        self._cache.states.keep(nodes, rest)
        self.tokens.extend(self._pending.tokens[node] for node in nodes)
        if self._turned is not None:
            self._turned.commit(self.length)
        self._pending.retain(rest, above=len(nodes))

    @on_own_stream
    def rewind(self, length: int) -> None:
        """Forget all pending nodes and every committed token from `length` on."""
        self._forget(length)
        if self._turned is not None:
            self._turned.rewind(self.length)

    def _forget(self, length: int) -> None:
        del self.tokens[length:]
        self._pending.clear()
        self._cache.crop_to(self.length)
        self._cache.states.rewind(self.length)

    def _prefill_rows(self, tokens: list[int]) -> None:
        with self._undone_on_error(0):
            self._read([*self.tokens, *tokens], self.length)
        self.tokens.extend(tokens)
        if self._turned is not None:
            self._turned.commit(self.length)

    def _read(self, tokens: Sequence[int], begin: int) -> None:
        """Passes over `tokens` from `begin` on, which is where the cache ends; at most `pass_rows` in each."""
        for start, end in pairwise([begin, *self._ends(tokens, begin, self.pass_rows)]):
            rows = tokens[start:end]
            blocks = self.pictures.blocks(tokens, start, end) if self.pictures else None
            if len(self._ends(rows, 0, self.prefill_rows)) > 1:
                self._read_in_one_pass(rows, start, blocks)
                continue
            self._begin_chain(len(rows))
            self._forward(rows, Sight.of_text(start, end, blocks), last=1)
            self._cache.states.commit(len(rows))

    def _ends(self, tokens: Sequence[int], begin: int, size: int) -> list[int]:
        """Where passes of at most `size` rows over `tokens` from `begin` on end, or chunks of one."""
        if self.pictures is not None:
            return self.pictures.ends(tokens, begin, size)
        return [*range(begin + size, len(tokens), size), len(tokens)] if begin < len(tokens) else []

    def _unparted(self, tokens: Sequence[int], length: int) -> int:
        return length if self.pictures is None else self.pictures.unparted(tokens, length)

    def _read_in_one_pass(self, tokens: Sequence[int], begin: int, blocks: Blocks | None) -> None:
        """One pass over `tokens`, `prefill_rows` of them at a time in every layer."""
        network, ends = self.network, self._ends(tokens, 0, self.prefill_rows)
        whole = PromptPass(network, self._cache, self._masks, begin, ends, self._between_layers, blocks)
        with whole.running():
            self._pass(tokens, torch.arange(begin, begin + len(tokens)), whole.attention_mask, last=1)

    def _read_pending(self) -> None:
        """One pass over the nodes that are pending already."""
        if not len(self._pending):
            return
        self._begin_tree(0)
        positions, visible = self._pending.positions(self.length), self._pending.visible()
        self._forward(self._pending.tokens, Sight(self.length, len(self._pending), positions, visible), last=1)

    def _begin_chain(self, rows: int) -> None:
        """The next pass is over tokens of the text; one alone is read as a tree of one node, see `StateCache.begin`."""
        if self._cache.states.layers:
            single = TreePaths(torch.ones(1, 1, dtype=torch.bool)).to(self.network.device) if rows == 1 else None
            self._cache.states.begin(single, in_prompt=True)

    def _begin_tree(self, begin: int) -> None:
        """The next pass is over the pending nodes from `begin` on."""
        if self._cache.states.layers:
            visible = self._pending.visible()
            self._cache.states.begin(TreePaths(visible, begin).to(self.network.device))

    @torch.inference_mode()
    def _forward(self, tokens: Sequence[int], sight: Sight, last: int) -> Tensor:
        def plain() -> Tensor:
            mask = self._masks.build(sight, self._cache)
            # All threads: it may be drafting in the middle of a pass that is light.
            with in_own_thread() if self._is_light(len(tokens)) else in_all_threads():
                return self._pass(tokens, sight.query_positions, mask, last)

        if self._graphs is None or self._graphs.is_plain or self.pictures is not None:
            return plain()
        self._between_layers()
        return self._graphs.score(self._readable(tokens), sight, last, plain)

    def _is_light(self, rows: int) -> bool:
        """Whether nothing in a pass is worth torch's threads: matrices and attention ask for them, or have others."""
        network = self.network
        is_known = network.attention == tree_attention.NAME and not self._cache.states.layers
        is_known &= network.device.type == "cpu"
        return rows <= min(LIGHT_ROWS, network.light_rows) and is_known

    def _compute(self, tokens: Tensor, positions: Tensor, mask: Any) -> Tensor:
        """A pass of the network alone: logits [n, vocabulary]."""
        arguments = {**self.network.cached(self._cache), "attention_mask": mask}
        return self._run(tokens, positions, 0, position_ids=positions[None], **arguments)

    @torch.inference_mode()
    def _pass(self, tokens: Sequence[int], positions: Tensor, mask: Any, last: int) -> Tensor:
        device, pictures = self.network.device, self.pictures
        placed = positions[None] if pictures is None else pictures.placed(positions)
        with self._turning(positions), self._shown(tokens) as shown:
            logits = self._run(
                torch.tensor([self._readable(tokens)]).to(device, non_blocking=True),
                positions,
                last,
                position_ids=placed.to(device, non_blocking=True),
                attention_mask=mask,
                **self.network.cached(self._cache),
                **shown,
            )
        # The next step reads the logits anyway, and the stopwatch then measures the pass. Not the whole device, whose
        # other streams copy the next layers meanwhile.
        accelerator.wait_for_current_stream(device)
        return logits

    def _run(self, tokens: Tensor, positions: Tensor, last: int, **arguments: Any) -> Tensor:
        """The network itself: logits [last or n, vocabulary] of `tokens`, int64 [1, n], at `positions`, int64 [n]."""
        del positions
        logits: Tensor = self.network.model(input_ids=tokens, logits_to_keep=last, **arguments).logits[0]
        return logits

    def _readable(self, tokens: Sequence[int]) -> list[int]:
        """The ids that the network has; an embedding must never be asked for another one."""
        network, pictures = self.network, self.pictures
        other = network.substitute
        if pictures is not None and pictures.stand_in is not None and pictures.stand_in < network.vocabulary:
            other = pictures.stand_in
        return [token if token < network.vocabulary else other for token in tokens]

    def _shown(self, tokens: Sequence[int]) -> AbstractContextManager[dict[str, Any]]:
        """The pictures among the tokens of a pass; what else the network takes of them."""
        if self.pictures is None:
            return nullcontext({})
        return self.pictures.in_pass(self.network.model.get_input_embeddings(), tokens)

    def _turning(self, positions: Tensor) -> AbstractContextManager[None]:
        """Rotary embeddings by the length at each row, where they depend on it."""
        rope, turned = self.network.rope, self._turned
        if rope is None or turned is None:
            return nullcontext()
        return rope.by_length([turned.length_at(position) for position in positions.tolist()])

    @contextmanager
    def _undone_on_error(self, pending: int) -> Iterator[None]:
        try:
            yield
        except BaseException:
            # Layers before the failure have grown, those behind it have not.
            self._pending.truncate(pending)
            self._cache.crop_to(self.length + pending)
            raise


class SharedContext(Context):
    """The context of a self-draft: it shares the cache of the target's context (the host), and commits nothing itself.

    Its pending nodes stand behind the committed tokens while the host has none. The host overwrites them when it
    scores, so they must be forgotten before the next ones are scored: `keep` forgets them all.
    """

    def __init__(self, network: Network, host: Context, between_layers: Callable[[], None] = lambda: None) -> None:
        """`between_layers` runs before the layers that are not the host's, which have a hook of their own."""
        super().__init__(network, 0)
        self.tokens = host.tokens  # the host's own list, which only the host changes
        self._cache = host._cache
        self._host = host
        self._turned = host._turned
        shared = {id(layer) for layer in host.network.layers}
        for layer in network.layers:
            if id(layer) not in shared:
                layer.register_forward_pre_hook(KnownHook(lambda _inputs: between_layers(), "once"))

    @property
    def pictures(self) -> ShownPictures | None:
        """The host's."""
        return self._host.pictures

    def prefill(self, tokens: Sequence[int]) -> int:
        """Nothing to compute: the host has read `tokens`, and nothing else."""
        assert self.tokens == list(tokens), "the host reads a prompt before its guest does"
        self._pending.clear()
        return len(tokens)

    def settle(self) -> None:
        """The host recomputes its own tokens before the first pending node; pending nodes stay as they are."""
        if not len(self._pending):
            self._host.settle()

    def keep(self, nodes: Sequence[int], rest: Sequence[int] = ()) -> None:
        """Forget every pending node, also `rest`; the host commits what was accepted, with its own keys and values."""
        del nodes, rest
        self._pending.clear()
