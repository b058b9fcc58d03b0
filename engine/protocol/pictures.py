"""Pictures that a conversation shows to a model which reads them."""

from dataclasses import dataclass, field

MOST_PICTURE_BYTES = 32 << 20  # of one picture, encoded
MOST_PICTURES = 64  # of one conversation
PICTURE_KINDS = ("png", "jpeg", "webp", "gif", "bmp")  # of an animation the first picture is read


@dataclass(frozen=True, slots=True)
class Picture:
    """One picture, encoded as one of `PICTURE_KINDS`, in the text of a turn behind its first `at` characters."""

    data: bytes = field(repr=False)
    at: int = 0
