"""An answer that has to call a tool, as a grammar in the model's own format."""

from collections.abc import Sequence

from engine.protocol.options import Constraint
from engine.protocol.tools import Tool, ToolChoice
from engine.text.tokenizer import Tokenizer


def tool_constraint(tokenizer: Tokenizer, tools: Sequence[Tool], choice: ToolChoice) -> Constraint | None:
    """What holds an answer to this choice; None where it is free.

    The arguments of calls that are required are valid by the schemas of their tools. Raises `InputError` for a name
    that none of the tools has, and for parameters that are no JSON object. An answer that must not call anything is
    free too: ask it without tools.
    """
    return None
