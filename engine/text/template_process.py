"""Renders chat templates in a process of its own, because a template is a program of the model's and may never end.

Started by `engine.text.template_renderer` as a file, with nothing imported but jinja2. It first writes `{}`; then it
answers each line of JSON with one: `{"text": ...}`, `{"refused": ...}` or `{"exceeds": ...}`.
The environment is that of transformers (`_compile_jinja_template` in its chat_template_utils.py), so that the text is.
A template that takes too long ends the process: no single step of it, however long, can prevent that.
"""

import faulthandler
import json
import os
import signal
import sys
from datetime import datetime
from functools import lru_cache
from typing import Any

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.parser
import jinja2.runtime
import jinja2.sandbox
import jinja2.utils

LONGEST_REFUSAL = 2000


class GenerationBlock(jinja2.ext.Extension):
    """`{% generation %}` marks what the model wrote, for training; here its content is just written."""

    tags = {"generation"}  # noqa: RUF012  # as jinja2 declares it

    def parse(self, parser: jinja2.parser.Parser) -> jinja2.nodes.Node:
        """The block as a call of `_write` with its content."""
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_write"), [], [], body).set_lineno(line)

    def _write(self, caller: jinja2.runtime.Macro) -> str:
        return str(caller())


class TemplateDict:
    """`dict` for templates, which give them no way to the type itself."""

    def __call__(self, *args: Any, **named: Any) -> dict[Any, Any]:
        """As `dict(...)`."""
        return dict(*args, **named)

    def fromkeys(self, *args: Any) -> dict[Any, Any]:
        """As `dict.fromkeys(...)`."""
        return dict.fromkeys(*args)


class TemplateNamespace(jinja2.utils.Namespace):
    """`namespace` for templates: no name in it begins with an underscore."""

    def __init__(*args: Any, **named: Any) -> None:  # `self` may be a name in a namespace
        self, *values = args
        attributes = dict(*values, **named)
        for name in attributes:
            _check_name(name)
        jinja2.utils.Namespace.__init__(self, attributes)

    def __setitem__(self, name: str, value: Any) -> None:
        _check_name(name)
        super().__setitem__(name, value)


def _check_name(name: Any) -> None:
    if isinstance(name, str) and name.startswith("_"):
        raise jinja2.exceptions.SecurityError(
            f"a namespace takes no name with an underscore before it, such as {name!r}"
        )


def _raise_exception(message: str) -> None:
    raise jinja2.exceptions.TemplateError(message)


def _tojson(
    value: Any, ensure_ascii: bool = False, indent: Any = None, separators: Any = None, sort_keys: bool = False
) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _strftime_now(format: str) -> str:  # templates may name it
    return datetime.now().strftime(format)  # noqa: DTZ005  # the time on the wall, as transformers has it


@lru_cache(maxsize=4)
def compile_template(source: str) -> jinja2.Template:
    """The template, as transformers would compile it."""
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[GenerationBlock, jinja2.ext.loopcontrols]
    )
    environment.filters["tojson"] = _tojson
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = _strftime_now
    environment.globals["dict"] = TemplateDict()
    environment.globals["namespace"] = TemplateNamespace
    return environment.from_string(source)


def answer(request: dict[str, Any]) -> dict[str, str]:
    """The reply to one request: what the template wrote, what it complained of, or which limit it exceeds."""
    try:
        pieces, room = [], int(request["characters"])
        for piece in compile_template(request["template"]).generate(**request["variables"]):
            room -= len(piece)
            if room < 0:
                return {"exceeds": "characters"}
            pieces.append(piece)
        return {"text": "".join(pieces)}
    except MemoryError:
        return {"exceeds": "memory"}
    except Exception as error:  # noqa: BLE001  # a template can fail in any way, and each is a refusal
        return {"refused": str(error)[:LONGEST_REFUSAL] or type(error).__name__}


def confine(memory_bytes: int) -> None:
    """Take no more memory than this and write no core, as far as the system knows such limits."""
    if sys.platform == "win32":
        return
    import resource  # noqa: PLC0415  # not on Windows

    for limit, most in ((resource.RLIMIT_AS, memory_bytes), (resource.RLIMIT_CORE, 0)):
        try:
            resource.setrlimit(limit, (most, most))
        except (ValueError, OSError):  # macOS has no such limit; the engine watches the memory as well
            continue


def main() -> None:
    """Serve until the input ends."""
    confine(int(sys.argv[1]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl+C is for the engine, which ends this process
    nowhere = open(os.devnull, "w")  # noqa: PTH123, SIM115  # stays open: a timeout writes a traceback there
    requests, replies = sys.stdin.buffer, sys.stdout.buffer
    _say(replies, {})
    for line in requests:
        request = json.loads(line)
        faulthandler.dump_traceback_later(request["seconds"], exit=True, file=nowhere)  # needs no turn of Python's
        reply = answer(request)
        faulthandler.cancel_dump_traceback_later()
        _say(replies, reply)


def _say(replies: Any, reply: dict[str, str]) -> None:
    replies.write(json.dumps(reply).encode() + b"\n")
    replies.flush()


if __name__ == "__main__":
    main()
