"""Calls of tools in the answers of one model: what finds them, and what holds an answer to them."""

from collections.abc import Sequence

from engine.errors import InputError
from engine.protocol.options import Constraint
from engine.protocol.sentences import say, shown
from engine.protocol.tools import Tool, ToolChoice
from engine.text.grammars.constrained_answer import check_constraint
from engine.text.pieces import AllContent, Divider
from engine.text.tokenizer import Tokenizer
from engine.text.tools.divider import CallDivider
from engine.text.tools.formats import HARMONY
from engine.text.tools.grammar import CallGrammar
from engine.text.tools.schemas import schemas_of


def divider_for(tokenizer: Tokenizer, tools: Sequence[Tool]) -> Divider:
    """What finds the calls in the content of an answer that may call these tools.

    A call that is malformed before its name is known is content; what comes behind is passed on as it was written. Call
    it on an event loop only behind `tool_constraint`, which has asked the template.
    """
    return call_divider(tokenizer, tools) if tools else AllContent()


def call_divider(tokenizer: Tokenizer, tools: Sequence[Tool]) -> CallDivider:
    """The same for an answer that has tools to call."""
    return tokenizer.tool_format.and_hermes().divider(tools)


def tool_constraint(
    tokenizer: Tokenizer, tools: Sequence[Tool], choice: ToolChoice, form: Constraint | None = None
) -> Constraint | None:
    """What holds an answer to this choice, and where it calls nothing to the `form`; None where it is free.

    The arguments of calls are valid by the schemas of their tools: of those that are required, which go before the
    form, and of those that the answer makes as it likes, as far as the schemas can be held to. Raises `InputError`
    where a tool is required and there is none, for a name that none of them has, and for parameters that are no JSON
    object. An answer that must not call anything is held to its form alone: ask it without tools. May take seconds, and
    the first time with tools the template is asked how it takes them, so keep this off event loops.
    """
    if choice.mode == "none" or (choice.mode == "auto" and not tools):
        return form
    if not tools:
        words = say("A tool has to be called, and there is none in the request.")
        raise InputError(words, say("Send the tools, or leave out their choice."))
    chosen = [tool for tool in tools if choice.name in ("", tool.name)]
    if not chosen:
        words = say("There is no tool {name} to call.", name=shown(choice.name))
        raise InputError(words, say("Name one of the tools of the request."))
    format, is_free = tokenizer.tool_format, choice.mode == "auto"
    schemas, grammar = schemas_of(chosen), CallGrammar(format.syntax, tokenizer.special_tokens, lenient=is_free)
    several = choice.parallel and not choice.name
    if not is_free:
        return Constraint("lark", grammar.text(schemas, several), whole=format is HARMONY)
    if format.syntax.tags and not form and not all("properties" in schema for schema in schemas.values()):
        return None  # arguments of any name have no grammar between tags
    try:
        held = Constraint("lark", grammar.text(schemas, several), marks=format.call_marks(schemas), other=form)
        held.check()
        check_constraint(tokenizer, held)
    except InputError:
        if form:
            raise
        return None  # as before there were constraints: the model makes of the schemas what it likes
    return held
