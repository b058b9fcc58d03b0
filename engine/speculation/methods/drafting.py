"""What the methods that sample their trees share: a draft that reads level by level, its settings, and chance."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from engine.protocol.options import SamplingOptions
from engine.speculation.method import Ends, Sampling, Scorer
from engine.speculation.methods.acceptance import accept, follow
from engine.speculation.methods.chance import Chance, likeliest
from engine.speculation.methods.rejection import Decisions
from engine.speculation.methods.sampling import distribution, penalise
from engine.speculation.methods.sprout import Sprout
from engine.speculation.trees.tree import Path, Tree
from engine.speculation.witness import Nobody, Witness

Rule = Callable[[Tensor, Tensor, Sequence[int], Decisions], int]
"""(target, draft, drawn, chance) -> the next token; one of `engine.speculation.methods.rejection`."""


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
        chance: Chance,
        witness: Witness | None = None,
    ) -> None:
        """`sampling` draws from the target by `options`; `vocabulary` is the target's, which the draft's may exceed.

        `witness` sees the trees grow.
        """
        self.chance = chance
        self._draft = draft
        self._sampling = sampling
        self._is_greedy = options.temperature == 0
        self._options = replace(options, temperature=1.0, top_k=0, top_p=1.0, min_p=0.0) if self._is_greedy else options
        self._prompt = sorted(set(prompt))
        self._prompt_tokens = len(prompt)
        self._vocabulary = vocabulary
        self._witness = witness or Nobody()
        self._text: Sequence[int] = ()
        self._sprout = Sprout(-1)
        self._pending: dict[int, int] = {}  # node of the tree -> the draft's pending node
        self._unread = 0  # pending nodes of the draft that are no nodes of the tree: text it had not read yet

    def prefill(self, tokens: Sequence[int]) -> None:
        """Have read exactly `tokens`."""
        self._draft.prefill(tokens)

    def plant(self, tokens: Sequence[int]) -> Sprout:
        """A tree that is only its root yet, the last of `tokens`."""
        self._text, self._sprout = tokens, Sprout(tokens[-1], self._witness)
        self._pending, self._unread = {}, 0
        return self._sprout

    def read(self, nodes: Sequence[int]) -> Tensor:
        """One draft pass over a level: what follows each of the nodes, float32 [len(nodes), vocabulary]."""
        sprout = self._sprout
        if not self._pending:  # the first level is the root; with it goes what the draft has not read yet
            unread = list(self._text[self._draft.length :])
            self._unread = len(unread) - 1
            logits = self._draft.score(unread, range(-1, self._unread), last=1)
        else:
            parents = [self._pending[sprout.parents[node]] for node in nodes]
            logits = self._draft.score([sprout.tokens[node] for node in nodes], parents)
        begin = self._unread + len(self._pending)
        self._pending.update(zip(nodes, range(begin, begin + len(nodes)), strict=True))
        return self._distributions(logits, nodes)

    def distinct(self, distributions: Tensor, counts: Sequence[int]) -> list[list[int]]:
        """Up to so many different tokens per row: drawn without replacement, or the likeliest when greedy."""
        return (likeliest if self._is_greedy else self.chance.distinct)(distributions, counts)

    def independent(self, distributions: Tensor, counts: Sequence[int]) -> list[list[int]]:
        """So many tokens per row, which may repeat; when greedy that would be no choice: different ones."""
        return (likeliest if self._is_greedy else self.chance.independent)(distributions, counts)

    def accept(self, tree: Tree, logits: Tensor, ends: Ends, answer: Sequence[int], rule: Rule) -> Path:
        """Go down the tree by `rule`, and by what the target draws where nothing was drafted."""
        if self._is_greedy:
            return accept(tree, logits, self._sampling.draw, ends, answer)

        def choose(node: int, said: Sequence[int]) -> int:
            target = self._sampling.distribution(logits[node], said)
            drawn = self._sprout.drawn.get(node)
            return rule(target, drawn.distribution, drawn.tokens, self.chance) if drawn else self.chance.pick(target)

        return follow(tree, choose, ends, answer)

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
            paths = ([*answer, *self._sprout.path(node)] for node in nodes)
            rows = [penalise(row, self._options, self._prompt, path) for row, path in zip(logits, paths, strict=True)]
            logits = torch.stack(rows)
        return distribution(logits, self._options)
