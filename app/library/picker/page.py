"""The pages of the Models dialog."""

from enum import IntEnum


class Page(IntEnum):
    """In the order of their tabs."""

    DISCOVER = 0
    MODELS = 1
    DOWNLOADS = 2
