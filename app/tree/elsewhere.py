"""What the tree panel shows of an engine elsewhere that tells no trees: its steps, or why there is nothing to see."""

from collections.abc import Set

from PySide6.QtWidgets import QStackedLayout, QWidget

from app.engine.steps import StepHistory, acceptance_of, plausible
from app.i18n.number_text import Number, share_text
from app.i18n.translation import tr
from app.i18n.wording import mark
from app.tree.header import Figure
from app.tree.picture.steps import StepsPicture, as_text
from app.tree.widgets import message_label
from app.ui.colors import TreeColors
from engine.protocol.messages import Event, Failed, Finished, Round, Statistics, Steps, Wrote
from engine.protocol.watching import Drafted

WRITING = mark("This engine does not tell of its rounds while it writes.")
UNTOLD = mark("This engine does not tell of its rounds.")
PLAIN = mark("This engine wrote this answer without speculation.")
_TOTALS = mark(
    "This engine speculates without a tree, and does not tell its steps: {tokens} tokens in {passes} passes of its "
    "target, {share} of the drafted tokens accepted."
)


class Elsewhere(QWidget):
    """Follows the conversation's requests to engines elsewhere. `is_newest`: the newest answer is such a one's."""

    def __init__(self, colors: TreeColors, requests: Set[int], parent: QWidget) -> None:
        """`requests` may change: those that belong to the conversation."""
        super().__init__(parent)
        self._requests = requests
        self._request = 0
        self._steps = StepHistory()
        self.is_newest = False
        self.picture = StepsPicture(colors, self)
        self.message = message_label("", self)
        self._pages = QStackedLayout(self)
        self._pages.addWidget(self.message)
        self._pages.addWidget(self.picture)

    def take(self, event: Event) -> bool:
        """Anything that an engine tells; whether something else is to be shown now."""
        if isinstance(event, Round | Drafted | Wrote | Steps | Finished | Failed) and event.id in self._requests:
            return self._take(event)
        return False

    def clear(self) -> None:
        """Another conversation is shown."""
        self.is_newest = False
        self._begin(0)

    def set_colors(self, colors: TreeColors) -> None:
        """Change the colours."""
        self.picture.set_colors(colors)

    @property
    def has_steps(self) -> bool:
        """Whether any were told."""
        return bool(self._steps.count)

    @property
    def figures(self) -> tuple[Figure, ...]:
        """What to say above the steps; nothing where there are none."""
        steps = self._steps
        if not steps.count:
            return ()
        counted = tr("1 step") if steps.count == 1 else tr("{count} steps")
        return (
            Figure(
                counted.format(count=f"{Number(steps.count):,}"),
                tr("Passes of the engine's target model over drafted tokens, in this answer"),
            ),
            Figure(
                tr("{rate:.2f} tokens per step").format(rate=Number(steps.tokens_per_step)),
                tr("The accepted tokens of a step, and one of the target's own. Without speculation this is 1."),
            ),
            Figure(
                tr("{share} accepted").format(share=share_text(steps.acceptance)),
                tr("Of all drafted tokens. This engine speculates without a tree: a step drafts a chain of tokens."),
            ),
        )

    @property
    def text(self) -> str:
        """The steps as text; empty where there are none."""
        return as_text(self._steps) if self._steps.count else ""

    def _take(self, event: Event) -> bool:
        match event:
            case Round() | Drafted():
                was_newest, self.is_newest = self.is_newest, False
                return was_newest
            case Wrote() if self.is_newest and event.id == self._request:
                return False
            case Wrote():
                self._begin(event.id)
                self._tell(WRITING)
            case Steps():
                if event.id != self._request:
                    self._begin(event.id)
                self._steps.add(event)
                self.picture.show_steps(self._steps)
                self._pages.setCurrentWidget(self.picture if self._steps.count else self.message)
            case Finished() | Failed() if self.is_newest and event.id == self._request and not self._steps.count:
                self.message.setText(_without_steps(event.statistics if isinstance(event, Finished) else None))
                return True
            case _:
                return False
        self.is_newest = True
        return True

    def _begin(self, request: int) -> None:
        self._request = request
        self._steps = StepHistory()
        self.picture.show_steps(self._steps)

    def _tell(self, words: str) -> None:
        self.message.setText(tr(words))
        self._pages.setCurrentWidget(self.message)


def _without_steps(told: Statistics | None) -> str:
    """What is known of the speculation of an answer whose steps were not told."""
    if told is None or not told.method:
        return tr(UNTOLD)
    told = plausible(told)
    share = acceptance_of(told)
    if share is None:
        return tr(PLAIN) if told.method == "none" else tr(UNTOLD)
    return tr(_TOTALS).format(
        tokens=f"{Number(told.new_tokens):,}",
        passes=f"{Number(told.passes):,}",
        share=share_text(share),
    )
