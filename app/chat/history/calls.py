"""The calls of tools that an answer made, as plain data: where they stand in its text, and what came of them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from app.system.plain_text import unsteered
from engine.protocol.messages import ChatMessage
from engine.protocol.tools import ToolCall, WrittenCall

LONGEST_RESULT = 64_000
"""Characters of a result that are kept, and that the model reads."""

_LONGEST_WORDS = 512  # of an id and of names
_LONGEST_TITLE = 40
# Words to the model, not to a person: they are the same in every language of the window.
_DENIED = "The user declined this call. Go on without it, or ask what the user would prefer."
_STOPPED = "The call was stopped before its result came. It is not known whether it had an effect."
_NOT_MADE = "The call was not made."
_CUT = "\n\n[The result is cut off here: {more} more characters are not shown.]"


class CallState(Enum):
    """How a call stands."""

    WRITING = "writing"  # by the model
    WAITING = "waiting"  # until a person allows it
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    DENIED = "denied"
    STOPPED = "stopped"  # while it was running

    @property
    def is_final(self) -> bool:
        """Whether the model can be told what came of it."""
        return self in (CallState.DONE, CallState.FAILED, CallState.DENIED, CallState.STOPPED)


class Decision(Enum):
    """What a person says to a call that waits."""

    ONCE = "once"
    ALWAYS = "always"  # and to all further calls of the tool
    DENY = "deny"


@dataclass(frozen=True, slots=True)
class Call:
    """One of them: characters `begin` to `end` of the answer's text.

    `step`: where in the text the model was told the results, that of all calls that it made together; it went on
    behind that. `function`: the tool as models know it; `server` and `tool`: as people do, empty where there is none.
    `arguments`: JSON, as the model wrote it. `result`: text of a server, which is not to be trusted; `seconds`: how
    long it took. Of now alone, and not kept: `description` and `changes_nothing`, what the server says of the tool, for
    who is asked; `progress`: how far a call is that is running, in words.
    """

    begin: int
    end: int
    step: int
    id: str
    function: str
    arguments: str
    server: str = ""
    tool: str = ""
    state: CallState = CallState.WAITING
    result: str = ""
    seconds: float = 0.0
    description: str = ""
    changes_nothing: bool = False
    progress: str = ""

    @property
    def title(self) -> str:
        """The tool in few letters, which turn or cover nothing around them."""
        name = unsteered(" ".join((self.tool or self.function).split()))
        return name if len(name) <= _LONGEST_TITLE else f"{name[:_LONGEST_TITLE]}…"

    @property
    def told(self) -> str:
        """What the model reads as its result."""
        if self.state in (CallState.DONE, CallState.FAILED):
            return self.result
        return {CallState.DENIED: _DENIED, CallState.STOPPED: _STOPPED}.get(self.state, _NOT_MADE)


def cut_result(text: str) -> str:
    """A result as it is kept: a long one says how much of it is missing."""
    more = len(text) - LONGEST_RESULT
    return text[:LONGEST_RESULT] + _CUT.format(more=f"{more:,}") if more > 0 else text


def placed(calls: Iterable[WrittenCall], base: int, step: int) -> tuple[Call, ...]:
    """Calls as the engine tells of them; `base`: where in the text the answer begins that they are places of.

    One elsewhere may tell of places that there are not.
    """
    return tuple(
        Call(base + each.begin, base + each.end, step, each.call.id, each.call.name, each.call.arguments)
        for each in calls
        if base + each.end <= step
    )


def last_step(calls: Sequence[Call]) -> int:
    """Where in an answer's text the model has gone on last; 0 where it has called nothing yet."""
    return calls[-1].step if calls else 0


def steps(text: str, calls: Sequence[Call]) -> list[tuple[int, int, tuple[Call, ...]]]:
    """The steps of an answer: where each begins and ends in the text, and its calls; the last one has none yet."""
    found, begin = [], 0
    for end in dict.fromkeys(each.step for each in calls):
        found.append((begin, end, tuple(each for each in calls if each.step == end)))
        begin = end
    return [*found, (begin, len(text), ())]


def turns_of(text: str, calls: Sequence[Call]) -> tuple[ChatMessage, ...]:
    """An answer as the engine reads it: what was said and called, what came of that, and what was said then.

    What was said last is given as it is written, so that the model can go on with it.
    """
    turns: list[ChatMessage] = []
    for begin, end, made in steps(text, calls):
        if not made:
            turns += [ChatMessage("assistant", text[begin:end])] if begin < end else []
            continue
        asked = tuple(ToolCall(each.id, each.function, each.arguments) for each in made)
        turns.append(ChatMessage("assistant", _without(made, text, begin, end), asked))
        turns += [ChatMessage("tool", each.told, tool_call_id=each.id, name=each.function) for each in made]
    return tuple(turns)


def kept_with(calls: Sequence[Call], before: str, now: str) -> tuple[Call, ...]:
    """Those of an answer that was `before`, up to the first word of it that is another one `now`."""
    same = next((place for place, pair in enumerate(zip(before, now, strict=False)) if pair[0] != pair[1]), None)
    length = min(len(before), len(now)) if same is None else same
    return tuple(each for each in calls if each.step <= length)


def call_details(calls: Iterable[Call]) -> list[dict[str, Any]]:
    """Calls as JSON can hold them."""
    return [
        {
            "begin": each.begin, "end": each.end, "step": each.step, "id": each.id, "function": each.function,
            "arguments": each.arguments, "server": each.server, "tool": each.tool, "state": each.state.value,
            "result": each.result, "seconds": float(round(each.seconds, 3)),
        }
        for each in calls
    ]  # fmt: skip


def calls_of(kept: object, text: str) -> tuple[Call, ...]:
    """Calls as they were kept with an answer of this text; none where one of them cannot be understood.

    Nobody knows what came of one that was running.
    """
    found, here, step = [], 0, 0
    for each in kept if isinstance(kept, list) else ():
        call = _call(each)
        if call is None or not (here <= call.begin < call.end <= call.step <= len(text)):
            return ()
        if call.step < step or (call.step > step and call.begin < step):
            return ()
        here, step = call.end, call.step
        found.append(replace(call, state=CallState.STOPPED) if call.state is CallState.RUNNING else call)
    return tuple(found)


_STATES = {each.value: each for each in CallState if each is not CallState.WRITING}
_PLACES = ("begin", "end", "step")
_TEXTS = ("id", "function", "arguments", "server", "tool", "result")
_LONG = ("arguments", "result")
_MOST_SECONDS = 1e9
_MOST_DIGITS = 20  # of what is missing of a result


def _call(kept: Any) -> Call | None:
    if not isinstance(kept, dict) or not all(type(kept.get(name)) is int for name in _PLACES):
        return None
    state, seconds = _STATES.get(str(kept.get("state"))), kept.get("seconds")
    if state is None or type(seconds) is not float or not 0 <= seconds < _MOST_SECONDS:
        return None
    if not all(isinstance(kept.get(name), str) for name in _TEXTS):
        return None
    texts = {name: kept[name] if name in _LONG else kept[name][:_LONGEST_WORDS] for name in _TEXTS}
    if len(texts["result"]) > LONGEST_RESULT + len(_CUT) + _MOST_DIGITS:
        texts["result"] = cut_result(texts["result"])
    return Call(**{name: kept[name] for name in _PLACES}, **texts, state=state, seconds=seconds)


def _without(calls: Sequence[Call], text: str, begin: int, end: int) -> str:
    """What is said in a step beside its calls."""
    said = []
    for each in calls:
        said.append(text[begin : each.begin])
        begin = each.end
    return "".join([*said, text[begin:end]]).strip()
