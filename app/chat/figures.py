"""The line of figures under an answer; every figure says on hover how it is measured."""

from dataclasses import dataclass

from PySide6.QtWidgets import QLabel, QWidget

from app.chat.conversation import Ending, Message
from app.chat.flow_layout import FlowLayout
from engine.messages import Statistics

_ENDINGS = {
    Ending.WAITING: "Waiting for the model",
    Ending.STOPPED: "Stopped",
    Ending.FAILED: "Not answered",
    Ending.INTERRUPTED: "Interrupted: the engine stopped",
}


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure and its definition."""

    text: str
    definition: str


def figures_of(message: Message) -> tuple[Figure, ...]:
    """What is worth saying of an answer, the most telling first; nothing that has not been measured yet."""
    figures = []
    if ending := _describe_ending(message):
        figures.append(ending)
    if message.statistics is not None and message.statistics.passes:
        figures += _measured(message.statistics)
    return tuple(figures)


def _describe_ending(message: Message) -> Figure | None:
    if message.ending is Ending.LENGTH:
        tokens = message.statistics.new_tokens if message.statistics else 0
        return Figure(
            f"Cut off at {tokens} tokens",
            "The answer reached the length limit or filled the context. The limit is in Generation settings.",
        )
    if message.ending is Ending.OPEN and not (message.statistics and message.statistics.passes):
        return Figure("Reading the question", "The models take in the conversation before the first token comes")
    words = _ENDINGS.get(message.ending)
    return Figure(words, "Why there is no more of this answer") if words else None


def _measured(statistics: Statistics) -> list[Figure]:
    figures = [
        Figure(
            f"{statistics.tokens_per_second:.1f} tokens/s",
            "Tokens of the answer per second of decoding; reading the question is not counted",
        ),
        Figure(
            f"{statistics.tokens_per_pass:.1f} tokens per pass",
            "Tokens of the answer per pass of the target model. Without speculation this is 1; "
            "the more the draft guesses right, the higher it is.",
        ),
        Figure(
            _counted(statistics.passes, "pass", "passes"),
            "How often the whole target model ran for this answer; reading the question is not counted",
        ),
        Figure(_counted(statistics.new_tokens, "token", "tokens"), "Length of the answer in tokens"),
    ]
    if statistics.first_token_seconds > 0:
        figures.append(
            Figure(
                f"first token {statistics.first_token_seconds:.2f} s",
                "Time from the request to the first token, with reading the question",
            )
        )
    if statistics.note:
        figures.append(Figure(statistics.note, "What the engine has to say about this answer"))
    return figures


def _counted(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


class FiguresRow(QWidget):
    """Figures side by side, in quiet letters."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._row = FlowLayout(self, gap=14, line_gap=2)
        self._labels: list[QLabel] = []

    @property
    def text(self) -> str:
        """Everything that is shown, for tests and screen readers."""
        return " · ".join(label.text() for label in self._labels if not label.isHidden())

    def show_message(self, message: Message) -> None:
        """Show the figures of an answer; labels are reused, since this happens with every update."""
        figures = figures_of(message)
        while len(self._labels) < len(figures):
            label = QLabel(self)
            label.setObjectName("figure")
            self._labels.append(label)
            self._row.addWidget(label)
        for index, label in enumerate(self._labels):
            label.setVisible(index < len(figures))
            if index < len(figures):
                label.setText(figures[index].text)
                label.setToolTip(figures[index].definition)
        self.setAccessibleName(self.text)
