"""A toolbox without servers: it keeps what is called, and a test says what comes of it."""

from PySide6.QtCore import QObject, Signal

from app.tools.toolbox import OfferedTool, ToolResult

LOOK = OfferedTool(
    "look", "eyes", "look", "Looks somewhere.",
    '{"type": "object", "properties": {"at": {"type": "string", "maxLength": 9}}, "required": ["at"]}',
)  # fmt: skip
COUNT = OfferedTool("count", "numbers", "count")


class FakeToolbox(QObject):
    """Implements `Toolbox`."""

    tools_changed = Signal()
    answered = Signal(int, object)
    progressed = Signal(int, float, float, str)

    def __init__(self, *tools: OfferedTool) -> None:
        super().__init__()
        self._tools = tools or (LOOK, COUNT)
        self.calls: list[tuple[str, str]] = []
        self.cancelled: list[int] = []
        self.at_once: ToolResult | None = None  # comes before the call's number is known

    @property
    def tools(self) -> tuple[OfferedTool, ...]:
        """Those that were given last."""
        return self._tools

    def offer(self, *tools: OfferedTool) -> None:
        """There are others from now on."""
        self._tools = tools
        self.tools_changed.emit()

    def call(self, function: str, arguments: str) -> int:
        """Noted."""
        self.calls.append((function, arguments))
        if self.at_once:
            self.answered.emit(len(self.calls), self.at_once)
        return len(self.calls)

    def cancel(self, number: int) -> None:
        """Noted."""
        self.cancelled.append(number)

    def answer(self, text: str, is_error: bool = False) -> None:
        """The newest call comes to this."""
        self.answered.emit(len(self.calls), ToolResult(text, is_error, 0.5))
