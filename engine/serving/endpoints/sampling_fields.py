"""What requests of every kind may say of how their answer is drawn, and the engine's options that come of it."""

import secrets
from dataclasses import replace
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints
from pydantic_core import PydanticCustomError

from engine.errors import InputError
from engine.protocol.options import (
    LONGEST_BREAKER,
    METHODS,
    MOST_BREAKERS,
    SEQUENCE_BREAKERS,
    Constraint,
    GenerateOptions,
    SamplingOptions,
    SpeculationOptions,
)
from engine.protocol.sentences import say
from engine.serving.bounds import MOST_TOKENS, at_most

MOST_STOPS = 32
LONGEST_STOP = 1024  # characters
MOST_BIASES = 2048
MOST_STOP_TOKENS = 256
SEEDS = 1 << 63
LEAST_TOP_P = 1e-9  # leaves the likeliest token alone, as 0 does for those who send that


def _some(tokens: int) -> int:
    if not tokens:
        raise PydanticCustomError("no_tokens", "Input should be greater than 0, or -1")
    return tokens


Stop = Annotated[str, StringConstraints(max_length=LONGEST_STOP)]
Breaker = Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_BREAKER)]
Breakers = Annotated[list[Breaker], Field(max_length=MOST_BREAKERS, fail_fast=True)]
Bias = Annotated[float, Field(ge=-100, le=100)]
TokenNumber = Annotated[int, Field(ge=0, lt=1 << 31)]
TokenId = Annotated[str, StringConstraints(pattern=r"^[0-9]{1,10}$")]
Biases = Annotated[dict[TokenId, Bias], at_most(MOST_BIASES)]
Method = Annotated[str, StringConstraints(pattern=f"^({'|'.join(METHODS)})$")]
StopField = Stop | Annotated[list[Stop], Field(max_length=MOST_STOPS)] | None
TokensField = Annotated[int, Field(ge=-1, le=MOST_TOKENS), AfterValidator(_some)] | None
"""As many new tokens at most; -1 for as many as the context holds."""


class Asked(BaseModel):
    """Anything that a client sends: nothing is guessed at, and what is not known is passed over."""

    model_config = ConfigDict(extra="ignore", strict=True, allow_inf_nan=False)


class CoppiceFields(Asked):
    """What only this server knows.

    `rounds`: tell of every round with its whole tree, and `verdicts` with what the target thinks of every node.
    `method`, `budget`: how the draft is to grow its trees; they change the speed of an answer, never its distribution.
    """

    rounds: bool = False
    verdicts: bool = False
    method: Method = "auto"
    budget: int = Field(default=0, ge=0, le=16384)


class RepetitionFields(Asked):
    """DRY and XTC under llama-server's names. A base below 1 is the usual one, as llama-server has it."""

    dry_multiplier: float | None = Field(default=None, ge=0, le=100)
    dry_base: float | None = Field(default=None, ge=0, le=100)
    dry_allowed_length: int | None = Field(default=None, ge=0, le=MOST_TOKENS)
    dry_penalty_last_n: int | None = Field(default=None, ge=-1, le=MOST_TOKENS)
    dry_sequence_breakers: Breakers | None = None
    xtc_probability: float | None = Field(default=None, ge=0, le=1)
    xtc_threshold: float | None = Field(default=None, ge=0, le=1)

    def against_repetition(self, sampled: SamplingOptions) -> SamplingOptions:
        """The same options with these."""
        base, breakers = self.dry_base, self.dry_sequence_breakers
        sent: dict[str, Any] = {
            "dry_allowed_length": self.dry_allowed_length,
            "dry_penalty_last_n": self.dry_penalty_last_n,
            "xtc_threshold": self.xtc_threshold,
        }
        return replace(
            sampled,
            dry_multiplier=self.dry_multiplier or 0.0,
            dry_base=base if base is not None and base >= 1 else sampled.dry_base,
            dry_sequence_breakers=SEQUENCE_BREAKERS if breakers is None else tuple(breakers),
            xtc_probability=self.xtc_probability or 0.0,
            **{name: value for name, value in sent.items() if value is not None},
        )


class SamplingFields(RepetitionFields):
    """How tokens are drawn, under the names of OpenAI, llama-server and vLLM. What is missing or null has no effect.

    `temperature`: 1 as OpenAI has it, 0 for the likeliest tokens. `seed`: a negative one is drawn at random, as a
    missing one is. `repeat_penalty` is llama-server's name of `repetition_penalty`. `stop_token_ids`: tokens that end
    the answer beside the model's own. `min_tokens`: neither these nor those are said before so many others.
    """

    temperature: float | None = Field(default=None, ge=0, le=100)
    top_p: float | None = Field(default=None, ge=0, le=1)
    top_k: int | None = Field(default=None, ge=-1, le=MOST_TOKENS)
    min_p: float | None = Field(default=None, ge=0, lt=1)
    repetition_penalty: float | None = Field(default=None, ge=0.1, le=10)
    repeat_penalty: float | None = Field(default=None, ge=0.1, le=10)
    presence_penalty: float | None = Field(default=None, ge=-10, le=10)
    frequency_penalty: float | None = Field(default=None, ge=-10, le=10)
    logit_bias: Biases | None = Field(default=None, max_length=MOST_BIASES)
    seed: int | None = Field(default=None, ge=-SEEDS, lt=SEEDS)
    ignore_eos: bool | None = None
    min_tokens: int | None = Field(default=None, ge=0, le=MOST_TOKENS)
    stop_token_ids: Annotated[list[TokenNumber], Field(max_length=MOST_STOP_TOKENS, fail_fast=True)] | None = None
    coppice: CoppiceFields | None = None

    @property
    def tells_rounds(self) -> bool:
        """Whether every round is asked for."""
        return self.coppice is not None and self.coppice.rounds

    def refuse_rounds(self) -> None:
        """Raise `InputError` if rounds are asked of an API whose streams have no place for them."""
        if self.tells_rounds:
            words = say("Rounds are told of chat completions and completions alone.")
            raise InputError(words, say("Leave out 'coppice.rounds', or ask at another address."))

    def sampling(self, choice: int = 0) -> SamplingOptions:
        """How the tokens of one choice are drawn; every further one of a request has the next seed."""
        seed = self.seed if self.seed is not None and self.seed >= 0 else secrets.randbelow(SEEDS - MOST_TOKENS)
        sampled = SamplingOptions(
            temperature=1.0 if self.temperature is None else self.temperature,
            top_p=1.0 if self.top_p is None else max(self.top_p, LEAST_TOP_P),
            top_k=max(0, self.top_k or 0),
            min_p=self.min_p or 0.0,
            repetition_penalty=self.repetition_penalty or self.repeat_penalty or 1.0,
            presence_penalty=self.presence_penalty or 0.0,
            frequency_penalty=self.frequency_penalty or 0.0,
            bias=tuple((int(token), added) for token, added in (self.logit_bias or {}).items()),
            seed=(seed + choice) % SEEDS,
        )
        return self.against_repetition(sampled)

    def options(
        self,
        max_new_tokens: int | None,
        stop: str | list[str] | None = None,
        *,
        choice: int = 0,
        top_log_probs: int = 0,
        constraint: Constraint | None = None,
    ) -> GenerateOptions:
        """All options of one choice. `max_new_tokens`: None and -1 for as many as the context holds."""
        stops = [stop] if isinstance(stop, str) else stop or []
        speculation = self.coppice or CoppiceFields()
        return GenerateOptions(
            sampling=self.sampling(choice),
            speculation=SpeculationOptions(method=speculation.method, budget=speculation.budget),
            max_new_tokens=MOST_TOKENS if max_new_tokens in (None, -1) else max_new_tokens,
            stop=tuple(filter(None, stops)),
            ignore_eos=bool(self.ignore_eos),
            constraint=constraint,
            top_log_probs=top_log_probs,
            verdicts=self.tells_rounds and speculation.verdicts,
            end_tokens=frozenset(self.stop_token_ids or ()),
            min_new_tokens=self.min_tokens or 0,
        )
