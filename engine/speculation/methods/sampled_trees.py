"""Trees that are sampled from the draft: the builder, the draft's passes, and what their methods share."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from engine.protocol.options import SamplingOptions
from engine.speculation.interfaces import NullObserver, Observer, Sampling, Scorer
from engine.speculation.methods.rng import Rng, likeliest
from engine.speculation.methods.verification import Decisions, accept, distribution, follow, penalise
from engine.speculation.trees.tree import Path, Tree


@dataclass(frozen=True, slots=True)
class Draws:
    """What the draft drew behind a node: from float32 [vocabulary], and in this order; a token may be there twice."""

    distribution: Tensor
    tokens: tuple[int, ...]


class TreeBuilder:
    """Grows by the draws behind some of its nodes at a time. Node 0 is the root, the last committed token."""

    def __init__(self, root_token: int, observer: Observer | None = None) -> None:
        """`observer` is told of every growth."""
        self._observer = observer or NullObserver()
        self.tokens = [root_token]
        self.parents = [-1]
        self.draws: dict[int, Draws] = {}
        self._log_probs = [0.0]

    def branch(
        self, nodes: Sequence[int], distributions: Tensor, tokens_by_node: Sequence[Sequence[int]]
    ) -> list[list[int]]:
        """A child for every different token that was drawn behind each of `nodes`; returns these, by first draw.

        distributions: float32 [len(nodes), vocabulary].
        """
        different = [list(dict.fromkeys(tokens)) for tokens in tokens_by_node]
        rows = [row for row, tokens in enumerate(different) for _ in tokens]
        added = [token for tokens in different for token in tokens]
        device = distributions.device
        log_probs = distributions[torch.tensor(rows, device=device), torch.tensor(added, device=device)].log().tolist()
        children: list[list[int]] = [[] for _ in nodes]
        for row, token, log_prob in zip(rows, added, log_probs, strict=True):
            children[row].append(len(self.tokens))
            self.tokens.append(token)
            self.parents.append(nodes[row])
            self._log_probs.append(self._log_probs[nodes[row]] + log_prob)
        for node, row_distribution, tokens in zip(nodes, distributions, tokens_by_node, strict=True):
            self.draws[node] = Draws(row_distribution, tuple(tokens))
        self._observer.grown(self.tree)
        return children

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


Rule = Callable[[Tensor, Tensor, Sequence[int], Decisions], int]
"""(target, draft, draft tokens, rng) -> the next token; one of `engine.speculation.methods.verification`."""


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
    ) -> None:
        """`sampling` draws from the target by `options`; `vocabulary` is the target's, which the draft's may exceed.

        `observer` is told of every draft pass.
        """
        self.rng = rng
        self._draft = draft
        self._sampling = sampling
        self._is_greedy = options.temperature == 0
        self._options = replace(options, temperature=1.0, top_k=0, top_p=1.0, min_p=0.0) if self._is_greedy else options
        self._prompt = sorted(set(prompt))
        self._prompt_tokens = len(prompt)
        self._vocabulary = vocabulary
        self._observer = observer or NullObserver()
        self._text: Sequence[int] = ()
        self._builder = TreeBuilder(-1)
        self._pending: dict[int, int] = {}  # node of the tree -> the draft's pending node
        self._unread = 0  # pending nodes of the draft that are no nodes of the tree: text it had not read yet

    def prefill(self, tokens: Sequence[int]) -> None:
        """Have read exactly `tokens`."""
        self._draft.prefill(tokens)

    def new_tree(self, tokens: Sequence[int]) -> TreeBuilder:
        """Begin a tree: only its root, the last of `tokens`."""
        self._text, self._builder = tokens, TreeBuilder(tokens[-1], self._observer)
        self._pending, self._unread = {}, 0
        return self._builder

    def read(self, nodes: Sequence[int]) -> Tensor:
        """One draft pass over a level: what follows each of the nodes, float32 [len(nodes), vocabulary]."""
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
        return self._distributions(logits, nodes)

    def distinct(self, distributions: Tensor, counts: Sequence[int]) -> list[list[int]]:
        """Up to `counts` different tokens per row: drawn without replacement, or the likeliest when greedy."""
        return (likeliest if self._is_greedy else self.rng.distinct)(distributions, counts)

    def independent(self, distributions: Tensor, counts: Sequence[int]) -> list[list[int]]:
        """`counts` tokens per row, which may repeat; when greedy, different ones."""
        return (likeliest if self._is_greedy else self.rng.independent)(distributions, counts)

    def accept(self, tree: Tree, logits: Tensor, answer: Sequence[int], rule: Rule) -> Path:
        """Go down the tree by `rule`, and by what the target draws where nothing was drafted."""
        if self._is_greedy:
            return accept(tree, logits, self._sampling.draw, answer)

        def choose(node: int, said: Sequence[int]) -> int:
            target = self._sampling.distribution(logits[node], said)
            draws = self._builder.draws.get(node)
            return rule(target, draws.distribution, draws.tokens, self.rng) if draws else self.rng.pick(target)

        return follow(tree, choose, answer)

    def keep(self, path: Path) -> None:
        """Commit the accepted nodes that the draft has read; an unread last one is caught up in the next round."""
        read = [self._pending[node] for node in path.nodes if node in self._pending]
        self._draft.keep([*range(self._unread), *read] if read else [])

    def _distributions(self, logits: Tensor, nodes: Sequence[int]) -> Tensor:
        logits = logits[:, : self._vocabulary]
        if missing := self._vocabulary - logits.shape[-1]:  # tokens that this draft does not know
            logits = torch.nn.functional.pad(logits, (0, missing), value=-torch.inf)
        if self._options.repetition_penalty != 1.0 or self._options.presence_penalty != 0.0:
            answer = self._text[self._prompt_tokens :]
            paths = ([*answer, *self._builder.path(node)] for node in nodes)
            rows = [penalise(row, self._options, self._prompt, path) for row, path in zip(logits, paths, strict=True)]
            logits = torch.stack(rows)
        return distribution(logits, self._options)


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
