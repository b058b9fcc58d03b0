"""Calls of tools in the answers of one model: what finds them, and what holds an answer to them."""

from collections.abc import Sequence

from engine.errors import InputError
from engine.protocol.options import Constraint
from engine.protocol.sentences import say, shown
from engine.protocol.tools import Tool, ToolChoice
from engine.text.pieces import AllContent, Divider
from engine.text.tokenizer import Tokenizer
from engine.text.tools.formats import HARMONY, HERMES
from engine.text.tools.grammar import CallGrammar
from engine.text.tools.schemas import schemas_of


def divider_for(tokenizer: Tokenizer, tools: Sequence[Tool]) -> Divider:
    """What finds the calls in the content of an answer that may call these tools.

    A call that is malformed before its name is known is content; what comes behind is passed on as it was written. Call
    it on an event loop only behind `tool_constraint`, which has asked the template.
    """
    return tokenizer.tool_format.and_hermes().divider(tools) if tools else AllContent()


def tool_constraint(tokenizer: Tokenizer, tools: Sequence[Tool], choice: ToolChoice) -> Constraint | None:
    """What holds an answer to this choice; None where it is free.

    The arguments of calls that are required are valid by the schemas of their tools. Raises `InputError` where there
    are no tools, for a name that none of them has, and for parameters that are no JSON object. An answer that must not
    call anything is free too: ask it without tools. The first time with tools the template is asked how it takes them,
    whatever the choice, so keep this off event loops.
    """
    format = tokenizer.tool_format if tools else HERMES
    if choice.mode != "required":
        return None
    if not tools:
        raise InputError(
            say("A tool has to be called, and there is none in the request."),
            say("Send the tools, or leave out their choice."),
        )
    chosen = [tool for tool in tools if choice.name in ("", tool.name)]
    if not chosen:
        raise InputError(
            say("There is no tool {name} to call.", name=shown(choice.name)),
            say("Name one of the tools of the request."),
        )
    grammar = CallGrammar(format.syntax, tokenizer.special_tokens)
    text = grammar.text(schemas_of(chosen), several=choice.parallel and not choice.name)
    return Constraint("lark", text, whole=format is HARMONY)
