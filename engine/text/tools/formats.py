"""The formats in which models write their calls of tools, and which of them a model has."""

from collections.abc import Sequence

from engine.protocol.tools import Tool
from engine.text.pieces import AllContent, Divider
from engine.text.tokenizer import Tokenizer


def divider_for(tokenizer: Tokenizer, tools: Sequence[Tool]) -> Divider:
    """What finds the calls in the content of an answer that may call these tools.

    A call that is malformed before its name is known is content; what comes behind is passed on as it was written.
    """
    return AllContent()
