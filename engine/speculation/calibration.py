"""How often a drafted token is really accepted, learnt online from the draft's probability for it."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from engine.speculation.figures import State, figure, figures, shortened
from engine.speculation.monotone import isotonic

LOWEST, HIGHEST, BUCKETS = -14.0, 12.0, 27  # log-odds of the draft's probability, a bucket per unit
PRIOR = 5.0  # observations that the draft's own word counts for, in every bucket
MEMORY = 1500.0  # observations after which an old one counts for a third of a new one
FIRST_PROOF, PROOF = 3.0, 0.01  # nats that must be gained before the map is used: at once, and per observation
SUMS = ("seen", "taken", "promised")
CENTRES = torch.linspace(LOWEST, HIGHEST, BUCKETS, dtype=torch.float64)


class Calibration:
    """A monotone map from the draft's conditional probability q to the rate at which such tokens are accepted.

    Two maps, one for the draft's first choice behind a node and one for all others: a greedy target takes the first
    choice more often than its q says, and the others less. A bucket of log-odds holds a Beta posterior whose prior is
    centred on q, so that what was never seen is as the draft says. The map is used only while it has foretold what the
    target took better than the draft's own word did, by a margin: a draft that judges itself well is left alone.

    What is observed is the draft's list of candidates behind an *accepted* node, and which of them the target took.
    Nothing is known behind a node that was not reached. The list is all that the draft proposed, not just what the
    budget let into the tree, so that tokens kept out for their low score can still earn a better one. Which lists are
    seen depends on what was accepted before, never on the outcome that is counted, so the rates are not biased.
    """

    def __init__(self) -> None:
        self.observations = 0
        self._seen = torch.zeros(2, BUCKETS, dtype=torch.float64)
        self._taken = torch.zeros(2, BUCKETS, dtype=torch.float64)
        self._promised = torch.zeros(2, BUCKETS, dtype=torch.float64)  # the sum of q over what was seen
        self._curve: Tensor | None = None
        self._gain = 0.0  # nats, by which the map foretold each outcome better than the draft, before it learnt of it

    @property
    def state(self) -> State:
        """What was learnt, to be kept."""
        sums = {name: shortened(getattr(self, f"_{name}")) for name in SUMS}
        return {"observations": self.observations, "gain": shortened(self._gain), **sums}

    @classmethod
    def restored(cls, state: State) -> "Calibration":
        """As it was kept; raises for what is no state."""
        found = cls()
        found.observations, found._gain = int(figure(state["observations"], 0)), figure(state["gain"])
        found._seen, found._taken, found._promised = (
            torch.from_numpy(figures(state[name], (2, BUCKETS), 0.0)) for name in SUMS
        )
        return found

    @property
    def is_proven(self) -> bool:
        """Whether the map is better than the draft's own word."""
        return self._gain > FIRST_PROOF + PROOF * min(self.observations, MEMORY)

    def log_acceptance(self, log_probs: Tensor) -> Tensor:
        """float64 [n, width]: the logarithm of each candidate's rate of acceptance, never above 0.

        log_probs: [n, width], conditional, the likeliest first in every row.
        """
        log_probs = log_probs.double()
        return torch.nn.functional.logsigmoid(self._mapped(_log_odds(log_probs))) if self.is_proven else log_probs

    def observe(self, log_probs: Tensor, taken: Sequence[int | None]) -> None:
        """What the target took of the candidates of some accepted nodes, all of one round.

        log_probs: [nodes, width], conditional, the likeliest first in every row; `taken`: of every row in turn its
        number, None if the token was not listed.
        """
        log_probs = log_probs.double()
        odds = _log_odds(log_probs)
        choice, (left, part) = _choices(log_probs.shape[-1]).expand_as(log_probs), _place(odds)
        hits = torch.zeros_like(log_probs)
        for row, number in enumerate(taken):
            if number is not None:
                hits[row, number] = 1.0
        self._prove(odds, hits)
        fading = torch.zeros(2, BUCKETS, dtype=torch.float64)
        for row in range(len(taken)):
            fading[choice[row], left[row]] += 1.0  # once for each bucket, however many of a row fall into it
        for sums in (self._seen, self._taken, self._promised):
            sums.mul_((-fading / MEMORY).exp())
        for bucket, share in ((left, 1.0 - part), (left + 1, part)):  # what lies between two centres counts for both
            for sums, values in ((self._seen, 1.0), (self._taken, hits), (self._promised, log_probs.exp())):
                sums.index_put_((choice, bucket), share * values, accumulate=True)
        self.observations += len(taken)
        self._curve = None

    def _mapped(self, odds: Tensor) -> Tensor:
        """The log-odds of acceptance, for the draft's log-odds, [..., width]."""
        left, part = _place(odds)
        curve, choice = self._shifts(), _choices(odds.shape[-1])
        return odds + torch.lerp(curve[choice, left], curve[choice, left + 1], part)

    def _prove(self, odds: Tensor, hits: Tensor) -> None:
        """Score both forecasts of an outcome that neither has seen."""
        loss = torch.nn.functional.binary_cross_entropy_with_logits
        gained = loss(odds, hits, reduction="sum") - loss(self._mapped(odds), hits, reduction="sum")
        self._gain = self._gain * math.exp(-len(hits) / MEMORY) + float(gained)

    def _shifts(self) -> Tensor:
        """[2, BUCKETS]: what is added to the log-odds at every bucket's centre; kept until more is observed."""
        if self._curve is None:
            promised = (PRIOR * CENTRES.sigmoid() + self._promised) / (PRIOR + self._seen)
            accepted = (PRIOR * CENTRES.sigmoid() + self._taken) / (PRIOR + self._seen)
            odds = CENTRES + (torch.logit(accepted, 1e-9) - torch.logit(promised, 1e-9))
            weights = PRIOR + self._seen
            rising = [isotonic(odds[row].tolist(), weights[row].tolist()) for row in range(2)]
            self._curve = torch.tensor(rising, dtype=torch.float64) - CENTRES
        return self._curve


def _log_odds(log_probs: Tensor) -> Tensor:
    """log(q / (1 - q)), as far as anything can be told apart."""
    return (log_probs - torch.log1p(-log_probs.exp())).clamp(2 * LOWEST, HIGHEST)


def _place(odds: Tensor) -> tuple[Tensor, Tensor]:
    """The bucket to the left of each, and how far it is on the way to the next one, from 0 to 1."""
    place = (odds - LOWEST).clamp(0.0, BUCKETS - 1.000001)
    left = place.long()
    return left, place - left


def _choices(width: int) -> Tensor:
    """int64 [width]: 0 for a list's first candidate, 1 for the others."""
    return (torch.arange(width) > 0).long()
