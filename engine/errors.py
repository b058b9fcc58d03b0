"""What can go wrong, in words a person can act on."""


class CoppiceError(Exception):
    """A failure that is reported as one sentence, never as a traceback.

    `message` says what happened and to what; `hint` says what to do about it and may be empty.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".rstrip()


class InputError(CoppiceError):
    """An option, a prompt or a file that the person gave cannot be used as it is."""


class ModelError(InputError):
    """A model folder is missing, incomplete, damaged, or of a kind that cannot be used here."""


class OutOfMemory(CoppiceError):  # noqa: N818  # what people call it
    """Memory ran out; the message says during what, what was asked for, and what was free.

    `of_gpu`: it was the GPU's memory; `asked_bytes`: 0 if that is not known.
    """

    def __init__(self, message: str, hint: str = "", *, of_gpu: bool = False, asked_bytes: int = 0) -> None:
        super().__init__(message, hint)
        self.of_gpu = of_gpu
        self.asked_bytes = asked_bytes


class Cancelled(Exception):  # noqa: N818  # a request, not an error
    """Raised between two layers when the running request was cancelled; not shown to people."""
