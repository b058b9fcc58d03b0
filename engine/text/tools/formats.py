"""The formats in which models write their calls of tools, and which of them a model has."""

import re
import secrets
import string
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from engine.protocol.options import CallMark
from engine.protocol.tools import Tool
from engine.text.tools.call_syntax import HARMONY_CALL, HARMONY_END, HARMONY_MARK, CallSyntax
from engine.text.tools.divider import IGNORED_MARK, CallDivider, Reader
from engine.text.tools.headed import EitherWay, Headed
from engine.text.tools.objects import Objects
from engine.text.tools.schemas import schemas_of
from engine.text.tools.tagged import Tagged
from engine.text.tools.unquoted import Unquoted

CALL_ENDS = ("<|call|>", "<|eom_id|>")  # end an answer that calls, though not every model's files say so
ALPHABET = string.ascii_letters + string.digits


@dataclass(frozen=True, slots=True)
class Format:
    """One of them: how calls are read, and how they are written.

    `readers`: by the marks before calls. `closers`: what belongs to a call and stands behind it. `inner`: other control
    tokens in calls. `first`: reads calls that the content begins with and that no mark tells of. `id_length`: of ids,
    where the templates insist on one.
    """

    name: str
    readers: Mapping[str, Reader]
    syntax: CallSyntax
    closers: tuple[str, ...] = ()
    inner: tuple[str, ...] = ()
    first: Reader | None = None
    id_length: int = 0

    @property
    def marks(self) -> tuple[str, ...]:
        """All strings that tell calls from content."""
        return (*self.readers, *self.closers, *self.inner)

    def call_marks(self, names: Iterable[str]) -> tuple[CallMark, ...]:
        """What begins calls of the tools of these names where they are written as `syntax` has it."""
        if self.syntax.alone:
            return tuple(CallMark(name, HARMONY_CALL.format(name=name), "recipient") for name in names)
        opening = self.syntax.begin + self.syntax.before
        read = [mark for mark in self.and_hermes().readers if mark in opening]
        marks = [CallMark(mark, opening[: opening.index(mark) + len(mark)]) for mark in read]
        if self.first:
            marks += [CallMark(mark, "") for mark in self.readers]
            marks += [CallMark(f'{opening}{name}"', f'{opening}{name}"', "first") for name in names]
        return tuple(marks)

    def new_id(self) -> str:
        """An id for a call, as the templates of this format want them."""
        random = "".join(secrets.choice(ALPHABET) for _ in range(self.id_length or 24))
        return random if self.id_length else f"call_{random}"

    def divider(self, tools: Sequence[Tool]) -> CallDivider:
        """What finds the calls in the text of one answer."""
        return CallDivider(self.readers, self.closers, self.first, schemas_of(tools), self.new_id)

    def and_hermes(self) -> "Format":
        """The same, and calls as a model writes them that was asked in plain words for Hermes' format."""
        return replace(self, readers={**HERMES.readers, **self.readers}, closers=(*self.closers, *HERMES.closers))


OBJECTS = Objects()
ENTRY, ENTRY_OF_LLAMA = ('{"name": "', '", "arguments": '), ('{"name": "', '", "parameters": ')

HERMES = Format(
    "Hermes",
    {"<tool_call>": OBJECTS},
    CallSyntax("", f"<tool_call>\n{ENTRY[0]}", ENTRY[1], "}\n</tool_call>", "\n"),
    closers=("</tool_call>",),
)
LLAMA = Format(
    "Llama",
    {"<|python_tag|>": OBJECTS},
    CallSyntax("", ENTRY_OF_LLAMA[0], ENTRY_OF_LLAMA[1], "}", "; "),
    first=Objects(known=True),
)
MISTRAL_LIST = Format(
    "Mistral, a list",
    {
        "[TOOL_CALLS]": EitherWay(
            Objects(id_key="id"),
            Headed(re.compile(r"\s*(?P<name>[^\s\[\]{}<>]+?)(?:\[CALL_ID\](?P<id>\w+))?(?:\[ARGS\])?\s*")),
        )
    },
    CallSyntax("[TOOL_CALLS] [", ENTRY[0], ENTRY[1], "}", ", ", "]"),
    inner=("[CALL_ID]", "[ARGS]"),
    id_length=9,
)
MISTRAL = Format(
    "Mistral",
    MISTRAL_LIST.readers,
    CallSyntax("", "[TOOL_CALLS]", "[ARGS]", ""),
    inner=MISTRAL_LIST.inner,
    id_length=9,
)
HARMONY = Format(
    "Harmony",
    {HARMONY_MARK: Headed(re.compile(r"(?:functions\.)?(?P<name>[^\s<>{}]+)[^{}]*<\|message\|>\s*"))},
    CallSyntax("", f"{HARMONY_MARK}functions.", HARMONY_END, "", alone=True),
    inner=("<|channel|>", "<|constrain|>", "<|message|>"),
)
DEEPSEEK = Format(
    "DeepSeek",
    {
        "<｜tool▁calls▁begin｜>": IGNORED_MARK,
        "<｜tool▁call▁begin｜>": Headed(
            re.compile(r"\s*(?:function<｜tool▁sep｜>(?P<name>[^\s{}]+)\s*(?:```json\s*)?)"), ("<｜tool▁call▁end｜>",)
        ),
        "<｜tool▁calls▁end｜>": IGNORED_MARK,
    },
    CallSyntax(
        "<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>function<｜tool▁sep｜>", "\n```json\n",
        "\n```<｜tool▁call▁end｜>", "\n", "<｜tool▁calls▁end｜>",
    ),
    closers=("```", "<｜tool▁call▁end｜>"),
    inner=("<｜tool▁sep｜>",),
)  # fmt: skip
DEEPSEEK_3_1 = Format(
    "DeepSeek 3.1",
    {
        **DEEPSEEK.readers,
        "<｜tool▁call▁begin｜>": Headed(
            re.compile(r"\s*(?P<name>[^\s{}]+?)\s*<｜tool▁sep｜>\s*"), ("<｜tool▁call▁end｜>",)
        ),
    },
    CallSyntax(
        "<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>", "",
        "<｜tool▁calls▁end｜>",
    ),
    closers=("<｜tool▁call▁end｜>",),
    inner=("<｜tool▁sep｜>",),
)  # fmt: skip
KIMI = Format(
    "Kimi",
    {
        "<|tool_calls_section_begin|>": IGNORED_MARK,
        "<|tool_call_begin|>": Headed(
            re.compile(r"\s*(?P<id>(?:functions\.)?(?P<name>[^\s<>{}]+?)(?::\d+)?)\s*<\|tool_call_argument_begin\|>\s*"),
            ("<|tool_call_end|>",),
        ),
        "<|tool_calls_section_end|>": IGNORED_MARK,
    },
    CallSyntax(
        "<|tool_calls_section_begin|>", "<|tool_call_begin|>functions.", ":{place}<|tool_call_argument_begin|>",
        "<|tool_call_end|>", "", "<|tool_calls_section_end|>",
    ),
    closers=("<|tool_call_end|>",),
    inner=("<|tool_call_argument_begin|>",),
)  # fmt: skip
COMMAND = Format(
    "Command",
    {"<|START_ACTION|>": OBJECTS},
    CallSyntax(
        "<|START_ACTION|>[\n    ", '{"tool_call_id": "{place}", "tool_name": "', '", "parameters": ', "}", ",\n    ",
        "\n]<|END_ACTION|>",
    ),
    closers=("<|END_ACTION|>",),
)  # fmt: skip
GRANITE = Format(
    "Granite and Phi",
    {"<|tool_call|>": OBJECTS},
    CallSyntax("<|tool_call|>[", ENTRY[0], ENTRY[1], "}", ", ", "]"),
    closers=("<|/tool_call|>",),
)
NEMOTRON = Format(
    "Nemotron",
    {"<TOOLCALL>": OBJECTS},
    CallSyntax("<TOOLCALL>[", ENTRY[0], ENTRY[1], "}", ", ", "]</TOOLCALL>"),
    closers=("</TOOLCALL>",),
)
FUNCTIONARY = Format(
    "Functionary",
    {"<function=": Headed(re.compile(r"(?P<name>[^\s<>{}]+)>\s*"), ("</function>",))},
    CallSyntax("", "<function=", ">", "</function>"),
    closers=("</function>",),
)
# A call that is required is written as Hermes', which is understood from every model.
GEMMA = Format(
    "Gemma",
    {"<|tool_call>": Unquoted('<|"|>')},
    HERMES.syntax,
    closers=("<tool_call|>",),
    inner=('<|"|>',),
)
FUNCTION_GEMMA = Format(
    "Function Gemma",
    {"<start_function_call>": Unquoted("<escape>")},
    HERMES.syntax,
    closers=("<end_function_call>",),
    inner=("<escape>",),
)

QWEN_TAGS = Tagged("<function=", (">",), "<parameter=", ">", "", "</parameter>", "</function>", on_lines=True)
QWEN_CODER = Format(
    "Qwen Coder",
    {"<tool_call>": QWEN_TAGS, "<function=": QWEN_TAGS.without_call()},
    CallSyntax("", "<tool_call>\n<function=", ">\n", "</function>\n</tool_call>", "\n", tags=QWEN_TAGS),
    closers=("</tool_call>",),
)
SEED = Format(
    "Seed",
    {"<seed:tool_call>": QWEN_TAGS},
    CallSyntax("", "<seed:tool_call>\n<function=", ">\n", "</function>\n</seed:tool_call>", "\n", tags=QWEN_TAGS),
    closers=("</seed:tool_call>",),
)
GLM_TAGS = Tagged(
    "", ("\n", "<arg_key>", "</tool_call>"), "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>", "</tool_call>"
)
GLM = Format(
    "GLM",
    {"<tool_call>": GLM_TAGS},
    CallSyntax("", "<tool_call>", "\n", "</tool_call>", "\n", tags=GLM_TAGS),
    inner=("<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>", "</tool_call>"),
)
MINIMAX_TAGS = Tagged('<invoke name="', ('">',), '<parameter name="', '">', "", "</parameter>", "</invoke>")
MINIMAX = Format(
    "MiniMax",
    {"<minimax:tool_call>": MINIMAX_TAGS, '<invoke name="': MINIMAX_TAGS.without_call()},
    CallSyntax(
        "<minimax:tool_call>\n", '<invoke name="', '">\n', "</invoke>\n", "", "</minimax:tool_call>", tags=MINIMAX_TAGS
    ),
    closers=("</minimax:tool_call>",),
)

# What a template says that has calls in this format; the first that fits.
FORMATS: tuple[tuple[Format, tuple[str, ...]], ...] = (
    (HARMONY, ("<|channel|>", "functions.")),
    (KIMI, ("<|tool_call_argument_begin|>",)),
    (GEMMA, ("<|tool_call>call:",)),
    (FUNCTION_GEMMA, ("<start_function_call>call:",)),
    (DEEPSEEK, ("<｜tool▁call▁begin｜>", "```json")),
    (DEEPSEEK_3_1, ("<｜tool▁call▁begin｜>",)),
    (MINIMAX, ("minimax:tool_call", "<invoke name=")),
    (SEED, ("seed:tool_call", "<function=")),
    (GLM, ("<arg_key>", "<tool_call>")),
    (QWEN_CODER, ("<function=", "<parameter=")),
    (FUNCTIONARY, ("<function=",)),
    (MISTRAL, ("[TOOL_CALLS]", "[ARGS]")),
    (MISTRAL_LIST, ("[TOOL_CALLS]",)),
    (COMMAND, ("<|START_ACTION|>",)),
    (HERMES, ("<tool_call>",)),
    (GRANITE, ("<|tool_call|>",)),
    (NEMOTRON, ("<TOOLCALL>",)),
    (LLAMA, ("<|python_tag|>",)),
    (LLAMA, ('"parameters"', "tools")),
)
# What only the vocabulary tells of.
BY_TOKENS: tuple[tuple[Format, str], ...] = ((GRANITE, "<|tool_call|>"), (LLAMA, "<|python_tag|>"))


def choose_format(template: str, vocabulary: Collection[str]) -> Format:
    """The format of a model with this chat template and these tokens; Hermes' where neither tells of one."""
    told = (each for each, marks in FORMATS if all(mark in template for mark in marks))
    named = (each for each, token in BY_TOKENS if token in vocabulary and "tools" in template)
    return next(told, None) or next(named, None) or HERMES
