"""Why a file cannot be attached."""


class Refused(Exception):  # noqa: N818  # what happens to the file
    """Says in a sentence what is wrong with the file, and what could be done."""
