"""What requests for completions share, of conversations and of texts: the answers to both are streamed in chunks."""

from pydantic import Field

from engine.serving.bounds import Name
from engine.serving.endpoints.constraint_fields import ConstraintFields
from engine.serving.endpoints.sampling_fields import Asked, SamplingFields, StopField, TokensField

MOST_CHOICES = 16


class StreamOptionsField(Asked):
    """`include_usage`: a last chunk without choices has the tokens of the request."""

    include_usage: bool | None = None


class ChunkedFields(SamplingFields, ConstraintFields):
    """A request for completions. `n`: so many choices, each with the next seed, one after the other."""

    model: Name | None = None
    max_tokens: TokensField = None
    stop: StopField = None
    n: int | None = Field(default=None, ge=1, le=MOST_CHOICES)
    stream: bool | None = None
    stream_options: StreamOptionsField | None = None

    @property
    def choices(self) -> int:
        """How many are asked for, of every prompt."""
        return self.n or 1

    @property
    def includes_usage(self) -> bool:
        """Whether a stream has a chunk with the tokens at its end."""
        return bool(self.stream_options and self.stream_options.include_usage)

    @property
    def tells_rounds(self) -> bool:
        """Whether every round is told, which only a stream does."""
        return bool(self.stream) and super().tells_rounds
