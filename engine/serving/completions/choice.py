"""One choice of a completion, written step by step: the parts of its chunks, and the whole that they add up to."""

from collections.abc import Iterator, Sequence, Set
from typing import Any

from engine.protocol.messages import Finished, Prefilled, Round, Statistics
from engine.protocol.round_json import finished_to_json, prefilled_to_json, round_to_json
from engine.serving.answers import Ended, Progress, Step
from engine.serving.completions.request import CompletionFields
from engine.serving.figures import timings_of
from engine.serving.token_log_probs import SaidToken, said_tokens
from engine.text.backend import REPLACEMENT

Part = dict[str, Any]


class TextChoiceWriter:
    """Writes the choice of this index. Reasoning is text like all other here."""

    def __init__(self, index: int, asked: CompletionFields, end_tokens: Set[int]) -> None:
        """`end_tokens`: which say nothing."""
        self.statistics = Statistics()
        self.accepted_nodes = 0
        self._index, self._asked, self._end_tokens = index, asked, end_tokens
        self._texts, self._log_probs = list[str](), list[Part]()
        self._characters = 0  # that came with the tokens so far
        self._reason = "length"

    def take(self, step: Step) -> Iterator[Part]:
        """The step as parts of chunks; none where there is nothing to tell."""
        if isinstance(step, Prefilled) and self._asked.tells_rounds:
            yield self._part("", {"prefilled": prefilled_to_json(step)})
        elif isinstance(step, Progress):
            of = step.round
            self.accepted_nodes += len(of.accepted) - 1
            log_probs, own = self._likelihoods(of), {"round": round_to_json(of)} if self._asked.tells_rounds else {}
            if of.text or log_probs or own:
                yield self._part(of.text, own, log_probs)
        elif isinstance(step, Ended):
            yield self._end(step.finished)

    def choice(self) -> Part:
        """All of it."""
        log_probs: Part | None = None
        if self._asked.logprobs is not None:
            log_probs = self._told({name: _joined([each[name] for each in self._log_probs]) for name in _NAMES})
        text = "".join(self._texts)
        return {"index": self._index, "text": text, "logprobs": log_probs, "finish_reason": self._reason}

    def _end(self, finished: Finished) -> Part:
        self.statistics = finished.statistics or Statistics()
        self._reason = "stop" if finished.reason == "stop" else "length"
        part = self._part(finished.text, {"finished": finished_to_json(finished)}, reason=self._reason)
        return {**part, "timings": timings_of(self.statistics, self.accepted_nodes).model_dump()}

    def _part(self, text: str, own: Part, log_probs: Part | None = None, reason: str | None = None) -> Part:
        self._texts.append(text)
        choice = {"index": self._index, "text": text, "logprobs": log_probs, "finish_reason": reason}
        return {"choices": [choice], **({"coppice": own} if self._asked.tells_rounds else {})}

    def _likelihoods(self, of: Round) -> Part | None:
        if self._asked.logprobs is None:
            return None
        told: Part = {name: [] for name in _NAMES}
        for token in said_tokens(of, self._end_tokens):
            told["tokens"].append(token.said[0])
            told["token_logprobs"].append(token.said[1])
            told["top_logprobs"].append(dict(reversed(token.top)))  # of two that look the same, the likelier one
            told["text_offset"].append(self._characters)
            self._characters += _characters_of(token)
        self._log_probs.append(told)
        return self._told(told)

    def _told(self, log_probs: Part) -> Part:
        return log_probs if self._asked.logprobs else {**log_probs, "top_logprobs": None}


def _characters_of(token: SaidToken) -> int:
    """How many of the text are the token's own. What a stop string held back comes with a later token."""
    piece = token.said[0]
    return min(token.length, len(piece)) if REPLACEMENT in piece else len(piece)


_NAMES = ("tokens", "token_logprobs", "top_logprobs", "text_offset")


def _joined(parts: Sequence[list[Any]]) -> list[Any]:
    return [each for part in parts for each in part]
