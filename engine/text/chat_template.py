"""A conversation written out as the one text that a model continues."""

from collections.abc import Callable, Sequence

from engine.errors import InputError
from engine.protocol.messages import ChatMessage
from engine.protocol.sentences import say
from engine.text.complaint import complaint_of
from engine.text.template_renderer import TemplateRefusal

Turns = list[dict[str, str]]
Render = Callable[[Turns], str]

PLAIN_STOP = "\nUser:"
PLAIN_GAP = " "  # between the name of who answers and the answer


def parted(messages: Sequence[ChatMessage]) -> tuple[list[ChatMessage], str]:
    """The conversation up to the question, and the answer to it that is begun, if there is one.

    Raises `InputError` unless there is something to answer.
    """
    if not messages:
        raise InputError(say("The conversation is empty."), say("Write a message first."))
    begun = messages[-1].content if messages[-1].role == "assistant" else ""
    asked = list(messages[:-1] if messages[-1].role == "assistant" else messages)
    if not asked or asked[-1].role != "user":
        raise InputError(say("The conversation does not end with a message to answer."), say("Write a message first."))
    if not asked[-1].content.strip():
        raise InputError(say("The message is empty."), say("Write something first."))
    return asked, begun


def write_chat(messages: Sequence[ChatMessage], render: Render) -> str:
    """The conversation in the words of the model's template.

    A template that refuses a system message, or leaves it out, gets it as the beginning of the first user message.
    Raises `InputError` with the template's own sentence when it refuses the conversation all the same, and whatever
    else `render` raises.
    """
    refusal = ""
    for turns in (list(messages), _without_system(messages)):
        try:
            text = render([{"role": turn.role, "content": turn.content} for turn in turns])
        except TemplateRefusal as error:
            refusal = refusal or complaint_of(error)
            continue
        if all(turn.content.strip() in text for turn in turns if turn.role == "system"):
            return text
    raise InputError(
        say("The model's chat template refuses this conversation: {reason}.", reason=refusal),
        say("Start a new chat, or choose another model."),
    )


def write_plain(messages: Sequence[ChatMessage]) -> str:
    """The conversation as a play in prose, for a model that has no template."""
    names = {"system": "", "user": "User: ", "assistant": "Assistant: "}
    return "\n".join([names[turn.role] + turn.content for turn in messages] + ["Assistant:"])


def _without_system(messages: Sequence[ChatMessage]) -> list[ChatMessage]:
    """The conversation with all system messages put before the text of the first user message."""
    system = [turn.content for turn in messages if turn.role == "system"]
    others = [turn for turn in messages if turn.role != "system"]
    first = next(index for index, turn in enumerate(others) if turn.role == "user")
    others[first] = ChatMessage("user", "\n\n".join([*system, others[first].content]))
    return others
