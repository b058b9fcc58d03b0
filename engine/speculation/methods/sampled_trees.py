"""Trees that are sampled from the draft: its passes, its draws, and how they are verified."""

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, replace
from itertools import chain
from operator import attrgetter

import torch
from torch import Tensor

from engine.accelerator import reads_are_free, sent
from engine.protocol.options import SamplingOptions
from engine.speculation.interfaces import Drawing, NullObserver, Observer, Sampling, Scorer
from engine.speculation.methods.proposals import Proposals, kept
from engine.speculation.methods.rejection import Rule, verify
from engine.speculation.methods.rejection_on_device import Draws, accept_on_device
from engine.speculation.methods.rng import NOTHING, Rng, likeliest
from engine.speculation.methods.verification import accept, distribution, follow
from engine.speculation.trees.tree import Path, Tree

BATCH = 128  # nodes that the draft reads in one pass, as memory is planned for
ROWS = 8  # filtered at a time: sorting a vocabulary takes several times what its row does

Draw = Callable[[Tensor, Sequence[int]], Tensor]
"""(distributions [n, vocabulary], tokens wanted of each) -> int64 [n, most], `NOTHING` where there are fewer."""


@dataclass(frozen=True, slots=True)
class SampledTokens:
    """Of some nodes the tokens that were drawn behind each, in their order, with the draft's log-probabilities.

    A token may be there twice.
    """

    tokens: tuple[tuple[int, ...], ...]
    log_probs: tuple[tuple[float, ...], ...]


class TreeBuilder:
    """A tree that grows by what was drawn behind some of its nodes at a time; node 0 is the root."""

    def __init__(
        self, root_token: int, grown: Callable[[Callable[[], Tree]], None], end_tokens: Set[int] = frozenset()
    ) -> None:
        """`grown` is told of every growth; `end_tokens` end the answer, so that nothing is to be drawn behind them."""
        self._grown = grown
        self._end_tokens = end_tokens
        self.tokens = [root_token]
        self.parents = [-1]
        self._log_probs = [0.0]

    def branch(self, nodes: Sequence[int], sampled: SampledTokens) -> list[list[int]]:
        """A child for every different token that was drawn behind each of `nodes`; returns these, by first draw."""
        children: list[list[int]] = []
        for node, tokens, log_probs in zip(nodes, sampled.tokens, sampled.log_probs, strict=True):
            children.append([])
            for token, log_prob in dict(zip(tokens, log_probs, strict=True)).items():
                children[-1].append(len(self.tokens))
                self.tokens.append(token)
                self.parents.append(node)
                self._log_probs.append(self._log_probs[node] + log_prob)
        self._grown(self.tree)
        return children

    def goes_on(self, node: int) -> bool:
        """Whether anything may follow a node; something always follows the root."""
        return node == 0 or self.tokens[node] not in self._end_tokens

    def path(self, node: int) -> list[int]:
        """The tokens behind the root, down to `node`."""
        tokens: list[int] = []
        while node > 0:
            tokens.append(self.tokens[node])
            node = self.parents[node]
        return tokens[::-1]

    def tree(self) -> Tree:
        """As it is now."""
        return Tree(tuple(self.tokens), tuple(self.parents), tuple(self._log_probs))


class Drafting:
    """The draft's side of one answer: it keeps what was accepted, and reads the rest when it is next asked.

    Temperature, filters and penalties apply to the draft as they do to the target: what the target can never say is not
    drafted. When greedy, the draft's most probable tokens stand for what it would draw, and the target says its own.
    """

    def __init__(
        self,
        draft: Scorer,
        sampling: Sampling,
        options: SamplingOptions,
        prompt: Sequence[int],
        vocabulary: int,
        rng: Rng,
        observer: Observer | None = None,
        end_tokens: Set[int] = frozenset(),
    ) -> None:
        """`sampling` draws from the target by `options`; `vocabulary` is the target's, which the draft's may exceed.

        `observer` is told of every draft pass; `end_tokens` end the answer.
        """
        self.rng = rng
        self._end_tokens = end_tokens
        self._draft = draft
        self._sampling = sampling
        self._is_greedy = options.temperature == 0
        self._options = _unfiltered(options) if self._is_greedy else options
        its = self._options
        self._is_filtered = its.top_k > 0 or its.top_p < 1.0 or its.min_p > 0.0 or its.xtc_probability > 0.0
        self._prompt_tokens = len(prompt)
        self._vocabulary = vocabulary
        self._observer = observer or NullObserver()
        self._text: Sequence[int] = ()
        self._builder = TreeBuilder(-1, self._observer.grown, end_tokens)
        self._draws: list[Draws] = []  # of every pass for the tree
        self._pending: dict[int, int] = {}  # node of the tree -> the draft's pending node
        self._drawing: Drawing | None = None  # for this tree, once it is needed
        self._unread = 0  # pending nodes of the draft that are no nodes of the tree: text it had not read yet

    def prefill(self, tokens: Sequence[int]) -> None:
        """Have read exactly `tokens`."""
        self._draft.prefill(tokens)

    def new_tree(self, tokens: Sequence[int]) -> TreeBuilder:
        """Begin a tree: only its root, the last of `tokens`."""
        self._text, self._builder = tokens, TreeBuilder(tokens[-1], self._observer.grown, self._end_tokens)
        self._pending, self._unread, self._draws, self._drawing = {}, 0, [], None
        return self._builder

    def distinct(self, nodes: Sequence[int], counts: Sequence[int]) -> SampledTokens:
        """Behind each node up to `counts` different tokens: drawn without replacement, or the likeliest when greedy."""
        return self._sample(nodes, counts, likeliest if self._is_greedy else self.rng.distinct)

    def independent(self, nodes: Sequence[int], counts: Sequence[int]) -> SampledTokens:
        """Behind each node `counts` tokens, which may repeat; when greedy, different ones."""
        return self._sample(nodes, counts, likeliest if self._is_greedy else self.rng.independent)

    def accept(self, tree: Tree, logits: Tensor, answer: Sequence[int], rule: Rule) -> Path:
        """Go down the tree by `rule`, and by what the target draws where nothing was drafted.

        The host waits for the device once, whatever the tree.
        """
        if self._is_greedy:
            return accept(tree, logits, self._sampling, answer)
        ahead = self._sampling.ahead(answer, 0, logits.device)
        if not reads_are_free(logits.device) and not ahead.reads_tokens:
            return accept_on_device(tree, logits, ahead, self._draws, rule, self.rng)
        found = {node: (draws, place) for draws in self._draws for place, node in enumerate(draws.nodes)}
        said: list[Tensor] = []

        def choose(node: int) -> int:
            target = ahead.distribution(logits[node], said)
            if node in found:
                draws, place = found[node]
                token = verify(target, draws.proposals.row(place), draws.tokens[place], self.rng, rule)
            else:
                token = self.rng.pick(target)
            said.append(sent([token], logits.device))
            return token

        return follow(tree, choose)

    def keep(self, path: Path) -> None:
        """Commit the accepted nodes that the draft has read; an unread last one is caught up in the next round."""
        read = [self._pending[node] for node in path.nodes if node in self._pending]
        self._draft.keep([*range(self._unread), *read] if read else [])

    def _sample(self, nodes: Sequence[int], counts: Sequence[int], draw: Draw) -> SampledTokens:
        """What is drawn behind the nodes of a level; a pass of the draft for every `BATCH` of them."""
        passes = [
            self._sample_in_one_pass(nodes[begin : begin + BATCH], counts[begin : begin + BATCH], draw)
            for begin in range(0, len(nodes), BATCH)
        ]
        tokens, log_probs = (chain.from_iterable(map(attrgetter(name), passes)) for name in ("tokens", "log_probs"))
        return SampledTokens(tuple(tokens), tuple(log_probs))

    def _sample_in_one_pass(self, nodes: Sequence[int], counts: Sequence[int], draw: Draw) -> SampledTokens:
        """One draft pass, of whose outcome the host reads once."""
        distributions = self._read(nodes)
        sampled = draw(distributions, counts)
        log_probs = distributions.gather(1, sampled.clamp(min=0)).log()
        supports = (distributions > 0).sum(-1, keepdim=True) if self._is_filtered else sampled[:, :0]
        # Double precision holds tokens, too, so that all of it is one tensor.
        rows = torch.cat([part.double() for part in (sampled, log_probs, supports)], 1).tolist()
        most = sampled.shape[1]
        tokens = tuple(
            tuple(int(token) for token in row[:most][:count] if token != NOTHING)
            for row, count in zip(rows, counts, strict=True)
        )
        if not self._is_greedy:
            whole = Proposals(self._vocabulary, distributions)
            proposals = kept(distributions, [int(row[-1]) for row in rows]) if self._is_filtered else whole
            self._draws.append(Draws(tuple(nodes), tokens, proposals))
        said = tuple(tuple(row[most : most + len(its)]) for row, its in zip(rows, tokens, strict=True))
        assert all(log_prob > -torch.inf for its in said for log_prob in its), "a token that cannot have been drawn"
        return SampledTokens(tokens, said)

    def _read(self, nodes: Sequence[int]) -> Tensor:
        """One draft pass over nodes of a level: what follows each of them, float32 [len(nodes), vocabulary]."""
        builder = self._builder
        if not self._pending:  # the first level is the root; with it goes what the draft has not read yet
            unread = list(self._text[self._draft.length :])
            self._unread = len(unread) - 1
            logits = self._draft.score(unread, range(-1, self._unread), last=1)
        else:
            parents = [self._pending[builder.parents[node]] for node in nodes]
            logits = self._draft.score([builder.tokens[node] for node in nodes], parents)
        begin = self._unread + len(self._pending)
        self._pending.update(zip(nodes, range(begin, begin + len(nodes)), strict=True))
        found = torch.empty(len(nodes), self._vocabulary, device=logits.device)
        for rows, at in zip(torch.split(found, ROWS), range(0, len(nodes), ROWS), strict=True):
            self._write_distributions(logits[at : at + ROWS], nodes[at : at + ROWS], rows)
        return found

    def _write_distributions(self, logits: Tensor, nodes: Sequence[int], out: Tensor) -> None:
        logits = logits[:, : self._vocabulary].float()
        if missing := self._vocabulary - logits.shape[-1]:  # tokens that this draft does not know
            logits = torch.nn.functional.pad(logits, (0, missing), value=-torch.inf)
        paths = [self._builder.path(node) for node in nodes]
        ahead = self._ahead(logits.device)
        if not ahead.is_plain:
            rows = [
                ahead.penalised(row, torch.split(sent(path, logits.device), 1) if path else (), path)
                for row, path in zip(logits, paths, strict=True)
            ]
            logits = torch.stack(rows)
        excludes = ahead.excludes(len(paths[0]))  # the nodes are of one level
        # A row without numbers, as where logits overflow, proposes nothing.
        distribution(logits, self._options, out, excludes=excludes).nan_to_num_(nan=0.0)

    def _ahead(self, device: torch.device) -> Drawing:
        """What applies to the target behind the text, and so to the draft."""
        if self._drawing is None:
            self._drawing = self._sampling.ahead(self._text[self._prompt_tokens :], 0, device)
        return self._drawing


def _unfiltered(options: SamplingOptions) -> SamplingOptions:
    return replace(options, temperature=1.0, top_k=0, top_p=1.0, min_p=0.0, xtc_probability=0.0)


class SampledTreeMethod:
    """The part of a `Method` that is the same whatever the shape of the tree."""

    def __init__(self, drafting: Drafting) -> None:
        """`drafting`: the draft's side of the answer."""
        self._drafting = drafting

    def prefill(self, tokens: Sequence[int]) -> None:
        """Have read exactly `tokens`."""
        self._drafting.prefill(tokens)

    def keep_drafting(self) -> bool:
        """Nothing: further draws would change the distribution of the answer."""
        return False

    def keep(self, path: Path) -> None:
        """The draft keeps what it has read of the path."""
        self._drafting.keep(path)
