"""The arguments of calls as objects, for the APIs that have them so."""

import json
from typing import Any

# How Anthropic's own documents have arguments told that are no JSON, such as those that were cut off.
NO_JSON = "INVALID_JSON"


def arguments_of(text: str) -> dict[str, Any]:
    """The arguments of a call, which may have been cut off, or hold what JSON can say but nobody can send again."""
    try:
        arguments = json.loads(text)
        json.dumps(arguments, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError):
        return {NO_JSON: text}
    return arguments if isinstance(arguments, dict) else {NO_JSON: text}
