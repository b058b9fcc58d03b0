"""What requests for completions share, of conversations and of texts: the answers to both are streamed in chunks."""

from pydantic import Field

from engine.serving.bounds import Name
from engine.serving.endpoints.constraint_fields import ConstraintFields
from engine.serving.endpoints.sampling_fields import Asked, SamplingFields, StopField, TokensField

MOST_CHOICES = 16


class StreamOptionsField(Asked):
    """`include_usage`: a last chunk without choices has the tokens of the request."""

    include_usage: bool | None = None


class StreamFields(Asked):
    """What llama-server tells in its streams, if it is asked to.

    `timings_per_token`: every chunk has the figures so far. `return_progress`: while the prompt is read, chunks tell
    how much of it was.
    """

    stream: bool | None = None
    timings_per_token: bool | None = None
    return_progress: bool | None = None

    @property
    def tells_progress(self) -> bool:
        """Whether the reading of a prompt is told of, which only a stream does."""
        return bool(self.stream and self.return_progress)

    @property
    def tells_timings(self) -> bool:
        """Whether every chunk has figures."""
        return bool(self.stream and self.timings_per_token)


class ChunkedFields(SamplingFields, ConstraintFields, StreamFields):
    """A request for completions. `n`: so many choices, each with the next seed, one after the other."""

    model: Name | None = None
    max_tokens: TokensField = None
    stop: StopField = None
    n: int | None = Field(default=None, ge=1, le=MOST_CHOICES)
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
