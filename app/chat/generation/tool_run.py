"""Has the calls of an answer made, in their order, and asks a person before each tool that was not allowed before."""

from collections.abc import Iterable
from dataclasses import replace

from PySide6.QtCore import QObject, Signal

from app.chat.history.calls import Call, CallState, Decision, cut_result
from app.i18n.number_text import share_text
from app.settings.generation import GenerationSettings
from app.settings.store import SettingsFile
from app.system.plain_text import unsteered, well_formed
from app.tools.toolbox import OfferedTool, Toolbox, ToolResult
from engine.protocol.tools import Tool

_LONGEST_PROGRESS = 60  # characters of a server's words
# Words to the model, not to a person: they are the same in every language of the window.
_UNKNOWN = "There is no tool named {name}."


def full_name(tool: OfferedTool | Call) -> str:
    """What a tool is known by in settings."""
    return f"{tool.server}/{tool.tool if isinstance(tool, Call) else tool.name}"


def tools_on(offered: Iterable[OfferedTool], generation: GenerationSettings) -> tuple[OfferedTool, ...]:
    """Those of the tools that a chat with these settings may call."""
    return tuple(each for each in offered if full_name(each) not in generation.tools_off)


def as_asked(tools: Iterable[OfferedTool]) -> tuple[Tool, ...]:
    """Tools as the engine is told of them."""
    return tuple(Tool(each.function, each.description, each.parameters) for each in tools)


class ToolRun(QObject):
    """One answer's calls at a time. They are made one after the other, as the model may rely on their order.

    `changed` carries all calls of the answer, `asked` comes when a person has to decide, `ended` once each call has a
    result that the model can be told.
    """

    offered_changed = Signal()
    changed = Signal(tuple)
    asked = Signal()
    ended = Signal()

    def __init__(self, settings: SettingsFile, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._settings = settings
        self._toolbox: Toolbox | None = None
        self._calls: list[Call] = []
        self._allowed: set[int] = set()  # places of calls that a person has allowed this time
        self._on: dict[str, OfferedTool] = {}  # by their names for models
        self._number: int | None = None  # of the call that is under way
        self._is_beginning = False  # the toolbox is told of a call, whose number is not known yet
        self._early: dict[int, ToolResult] = {}

    def follow(self, toolbox: Toolbox) -> None:
        """Call the tools of this toolbox."""
        self._toolbox = toolbox
        toolbox.tools_changed.connect(self.offered_changed)
        toolbox.answered.connect(self._on_answered)
        toolbox.progressed.connect(self._on_progressed)
        self.offered_changed.emit()

    @property
    def offered(self) -> tuple[OfferedTool, ...]:
        """All tools that there are now."""
        return self._toolbox.tools if self._toolbox is not None else ()

    @property
    def is_at_work(self) -> bool:
        """Whether calls are made, or wait for a person."""
        return bool(self._calls)

    def begin(self, calls: Iterable[Call], tools: Iterable[OfferedTool]) -> None:
        """Make those of an answer's calls that have no result; `tools` are the ones that it may call."""
        self._on = {each.function: each for each in tools}
        self._allowed.clear()
        self._calls = [each if each.state.is_final else self._named(each) for each in calls]
        self.changed.emit(tuple(self._calls))
        self._go_on()

    def decide(self, begin: int, decision: Decision) -> None:
        """A person decides on the call that begins here in the answer; ids are the model's, and may be the same."""
        place = next((place for place, each in enumerate(self._calls) if each.begin == begin), None)
        if place is None or self._calls[place].state is not CallState.WAITING:
            return
        call, allowed = self._calls[place], self._settings.current.allowed_tools
        if decision is Decision.DENY:
            self._change(place, replace(call, state=CallState.DENIED))
        elif decision is Decision.ALWAYS and full_name(call) not in allowed:
            self._settings.change(allowed_tools=(*allowed, full_name(call)))
        if decision is not Decision.DENY:
            self._allowed.add(begin)
        self._go_on()

    def stop(self) -> None:
        """Make no more calls. Nobody knows what comes of the one under way, which is left; others can be made later."""
        running, self._number = self._number, None
        if running is not None and self._toolbox is not None:
            self._toolbox.cancel(running)
        place = self._place_of(CallState.RUNNING)
        if place is not None:
            self._change(place, replace(self._calls[place], state=CallState.STOPPED))
        self._calls = []

    # ---- inside -----------------------------------------------------------------------------------------------------

    def _named(self, call: Call) -> Call:
        """The call with its tool, as people know that; one of a tool that there is not has failed."""
        tool = self._on.get(call.function)
        if tool is None:
            return replace(call, state=CallState.FAILED, result=_UNKNOWN.format(name=call.function))
        return replace(
            call,
            server=tool.server,
            tool=tool.name,
            description=tool.description,
            changes_nothing=tool.changes_nothing,
        )

    def _go_on(self) -> None:
        """Make the next call, if nothing and nobody is waited for."""
        while self._calls and self._number is None:
            place = next((place for place, each in enumerate(self._calls) if not each.state.is_final), None)
            if place is None:
                self._calls = []
                self.ended.emit()
                return
            call = self._calls[place]
            if call.begin not in self._allowed and full_name(call) not in self._settings.current.allowed_tools:
                self.asked.emit()
                return
            self._make(place)

    def _make(self, place: int) -> None:
        assert self._toolbox is not None, "nothing is offered without one"
        call = self._calls[place]
        now = next((each for each in self._toolbox.tools if each.function == call.function), None)
        if now is None or full_name(now) != full_name(call):  # it has gone since, or another one has its name
            unknown = _UNKNOWN.format(name=call.function)
            self._change(place, replace(call, state=CallState.FAILED, result=unknown))
            return
        self._change(place, replace(call, state=CallState.RUNNING))
        self._is_beginning = True
        number = self._toolbox.call(call.function, call.arguments)
        self._is_beginning = False
        self._number = number
        if (early := self._early.pop(number, None)) is not None:
            self._take(early)
        self._early.clear()

    def _on_answered(self, number: int, result: ToolResult) -> None:
        """Windows share the toolbox, so most numbers may be those of others."""
        if self._is_beginning:
            self._early[number] = result
        elif number == self._number:
            self._take(result)
            self._go_on()

    def _on_progressed(self, number: int, done: float, total: float, words: str) -> None:
        place = self._place_of(CallState.RUNNING) if number == self._number else None
        if place is not None:
            share = share_text(max(0.0, min(1.0, done / total))) if total > 0 else ""
            said = unsteered(" ".join(well_formed(words).split()))[:_LONGEST_PROGRESS]
            self._change(place, replace(self._calls[place], progress=" · ".join(filter(None, (share, said)))))

    def _take(self, result: ToolResult) -> None:
        self._number = None
        place = self._place_of(CallState.RUNNING)
        if place is not None:
            call, state = self._calls[place], CallState.FAILED if result.is_error else CallState.DONE
            text, seconds = cut_result(well_formed(result.text)), max(0.0, result.seconds)
            self._change(place, replace(call, state=state, result=text, seconds=seconds, progress=""))

    def _place_of(self, state: CallState) -> int | None:
        return next((place for place, each in enumerate(self._calls) if each.state is state), None)

    def _change(self, place: int, call: Call) -> None:
        self._calls[place] = call
        self.changed.emit(tuple(self._calls))
