"""The options of what new chats begin with."""

from app.i18n.wording import mark
from app.settings.kinds import Choice, Effect, Name, Whole
from app.settings.preferences import CHAT, SPECULATION
from engine.protocol.options import METHODS

_NAMES = {
    "auto": mark("Automatic"),
    "specexec": mark("SpecExec tree"),
    "sequoia": mark("Sequoia tree"),
    "specinfer": mark("SpecInfer sequences"),
    "chain": mark("Draft chain"),
    "lookup": mark("Repeats of the text"),
    "none": mark("No speculation"),
}

METHOD = Choice(
    page=SPECULATION,
    title=mark("Method"),
    help=mark("How the draft model guesses ahead. Automatic speculates whenever a draft is loaded."),
    effect=Effect.NEW_CHAT,
    choices=tuple((method, _NAMES[method]) for method in METHODS),
)
BUDGET = Whole(
    page=SPECULATION,
    title=mark("Tree budget"),
    help=mark(
        "How many tokens the draft may guess for one pass of the target. "
        "More guesses, more tokens per pass, but a slower pass."
    ),
    effect=Effect.NEW_CHAT,
    smallest=0,
    largest=4096,
    step=16,
    smallest_means=mark("Automatic"),
)
WHEN_FULL = Choice(
    page=CHAT,
    title=mark("When the context is full"),
    help=mark("What happens when a conversation has become too long for the model. Nothing is dropped silently."),
    effect=Effect.NEW_CHAT,
    choices=(
        ("stop", mark("Stop, and say so")),
        ("drop", mark("Drop the oldest turns")),
        ("summarise", mark("Summarise the oldest turns")),
    ),
)
DEFAULT_PRESET = Name(
    page=CHAT,
    title=mark("Preset of new chats"),
    help=mark("A preset holds every generation setting, so it comes before the options of this and the other pages."),
    effect=Effect.NEW_CHAT,
    names="presets",
    none=mark("None"),
)
