"""The generation settings of a chat, each declared once: its default, its range, its words, and where it is shown.

The form of a chat, presets, Preferences and what is read from files all follow these declarations. A new setting is a
field of `GenerationSettings`, a place in `FORM_ORDER`, and what `options` makes of it for the engine.
"""

import secrets
from dataclasses import dataclass, replace
from functools import partial

from app.i18n.wording import mark
from app.settings.constraints import ANY_JSON, GRAMMAR, JSON_SCHEMA, OFF, REGEX, TEXTS, check_text, constraint_text
from app.settings.kinds import Choice, Decimal, Effect, FormalText, LongText, Name, Seed, Switch, Whole, option
from app.settings.preferences import CHAT, SPECULATION
from engine.errors import InputError
from engine.protocol.options import (
    METHODS,
    Constraint,
    ConstraintKind,
    GenerateOptions,
    SamplingOptions,
    SpeculationOptions,
)
from engine.protocol.sentences import say

RANDOM_SEED = -1
STOP, DROP, SUMMARISE = "stop", "drop", "summarise"
_SEEDS = 2**31
_SAMPLING = SamplingOptions()

_METHOD_NAMES = {
    "auto": mark("Automatic"),
    "specexec": mark("SpecExec tree"),
    "sequoia": mark("Sequoia tree"),
    "specinfer": mark("SpecInfer sequences"),
    "chain": mark("Draft chain"),
    "lookup": mark("Repeats of the text"),
    "none": mark("No speculation"),
}

METHOD = Choice(
    page=SPECULATION,
    title=mark("Method"),
    help=mark("How the draft model guesses ahead. Automatic speculates whenever a draft is loaded."),
    effect=Effect.NEW_CHAT,
    choices=tuple((method, _METHOD_NAMES[method]) for method in METHODS),
)
BUDGET = Whole(
    page=SPECULATION,
    title=mark("Tree budget"),
    help=mark(
        "How many tokens the draft may guess for one pass of the target. "
        "More guesses, more tokens per pass, but a slower pass."
    ),
    effect=Effect.NEW_CHAT,
    smallest=0,
    largest=4096,
    step=16,
    smallest_means=mark("Automatic"),
)
WHEN_FULL = Choice(
    page=CHAT,
    title=mark("When the context is full"),
    help=mark("What happens when a conversation has become too long for the model. Nothing is dropped silently."),
    effect=Effect.NEW_CHAT,
    choices=(
        (STOP, mark("Stop, and say so")),
        (DROP, mark("Drop the oldest turns")),
        (SUMMARISE, mark("Summarise the oldest turns")),
    ),
)
DEFAULT_PRESET = Name(
    page=CHAT,
    title=mark("Preset of new chats"),
    help=mark("A preset holds every generation setting, so it comes before the options of this and the other pages."),
    effect=Effect.NEW_CHAT,
    names="presets",
    none=mark("None"),
)
CONSTRAINT = Choice(
    title=mark("Structured output"),
    help=mark(
        "Every answer of this chat is held to a form: the model can write nothing else. "
        "A model that reasons does so freely before it."
    ),
    choices=(
        (OFF, mark("Off")),
        (JSON_SCHEMA, mark("JSON schema")),
        (ANY_JSON, mark("Any JSON object")),
        (REGEX, mark("Regular expression")),
        (GRAMMAR, mark("Grammar (GBNF or Lark)")),
    ),
)
_KINDS: dict[str, ConstraintKind] = {ANY_JSON: "json", JSON_SCHEMA: "json_schema", REGEX: "regex", GRAMMAR: "gbnf"}
"""Those of the engine, which tells Lark from GBNF by itself."""
_WHEN_FULL_IN_CHAT = replace(
    WHEN_FULL,
    title=mark("With a full context"),
    help=mark(
        "What happens when the conversation fills the context. Turns that are dropped stay on the screen, "
        "above a line that says so."
    ),
)

FORM_ORDER = (
    "speculates", "method", "budget", "temperature", "top_p", "top_k", "min_p", "repetition_penalty",
    "presence_penalty", "dry_multiplier", "dry_base", "dry_allowed_length", "dry_penalty_last_n",
    "dry_sequence_breakers", "xtc_probability", "xtc_threshold", "seed", "max_new_tokens", "stop_strings",
    "constraint", "json_schema", "regex", "grammar", "when_full", "system_prompt",
)  # fmt: skip
"""The settings from top to bottom, as the form of a chat shows them. Files keep the order of the fields below."""


@dataclass(frozen=True, slots=True)
class GenerationSettings:
    """How answers are drawn and speculated on. `seed` -1 draws a new seed for every answer; `budget` 0 is automatic.

    `speculates` False switches speculation off and remembers `method`. `when_full` is what happens when the context is
    full: `stop` answering, `drop` the oldest turns, or `summarise` them. `stop_strings`: one a line.
    `constraint` is what answers are held to, `off` for nothing; the text of each kind stays while another one is used.
    `tools_off`: tools that answers may not call, each as `server/name`.
    """

    method: str = option("auto", METHOD, form=METHOD)
    budget: int = option(0, BUDGET, form=replace(BUDGET, step=1))
    temperature: float = Decimal(
        title=mark("Temperature"),
        help=mark("0 always takes the likeliest token; higher values dare more."),
        smallest=0.0,
        largest=5.0,
        step=0.05,
        decimals=2,
    ).in_form(0.6)
    top_p: float = Decimal(
        title=mark("Top-p"),
        help=mark("Only the likeliest tokens that together have this probability are drawn from; 1 is no limit."),
        smallest=0.01,
        largest=1.0,
        step=0.05,
        decimals=2,
    ).in_form(0.9)
    top_k: int = Whole(
        title=mark("Top-k"),
        help=mark("Only so many of the likeliest tokens are drawn from; 0 is no limit."),
        smallest=0,
        largest=1000,
        smallest_means=mark("No limit"),
    ).in_form(0)
    min_p: float = Decimal(
        title=mark("Min-p"),
        help=mark("Tokens less likely than this share of the likeliest one are left out; 0 is no limit."),
        smallest=0.0,
        largest=0.99,
        step=0.01,
        decimals=2,
    ).in_form(0.0)
    repetition_penalty: float = Decimal(
        title=mark("Repetition penalty"),
        help=mark("Above 1 makes words that were there already less likely; 1 changes nothing."),
        smallest=0.5,
        largest=2.0,
        step=0.05,
        decimals=2,
    ).in_form(1.0)
    seed: int = Seed(
        title=mark("Seed"),
        help=mark(
            "With 32-bit weights the same seed, question and settings give the same answer. With 16-bit weights "
            "rounding depends on the size of the trees, and answers may part where two tokens are almost equally "
            "likely. Empty draws a new seed for every answer."
        ),
        random=RANDOM_SEED,
        random_means=mark("Random"),
    ).in_form(RANDOM_SEED)
    max_new_tokens: int = Whole(
        title=mark("Longest answer"),
        help=mark("The answer is cut off at this many tokens."),
        smallest=1,
        largest=1_000_000,
    ).in_form(512)
    system_prompt: str = LongText(
        title=mark("System prompt"),
        help=mark("Told to the model before the conversation, such as 'Answer briefly.'"),
        empty_means=mark("None"),
    ).in_form("")
    presence_penalty: float = Decimal(
        title=mark("Presence penalty"),
        help=mark("Above 0 makes words that the answer has already less likely; 0 changes nothing."),
        smallest=-10.0,
        largest=10.0,
        step=0.1,
        decimals=2,
    ).in_form(0.0)
    speculates: bool = Switch(
        title=mark("Speculation"),
        help=mark(
            "Without speculation the target writes token by token, mostly slower. The answer has the same "
            "probabilities either way; with 32-bit weights it is the same text, with 16-bit weights texts may part "
            "where two tokens are almost equally likely."
        ),
        words=mark("On"),
    ).in_form(True)
    when_full: str = option(STOP, WHEN_FULL, form=_WHEN_FULL_IN_CHAT)
    stop_strings: str = LongText(
        title=mark("Stop at"),
        help=mark(
            "The answer ends before any of these texts, one in each line, and does not show it. "
            "\\n in it is a line break."
        ),
        empty_means=mark("Nothing: the model ends its answers itself"),
        lines=2,
    ).in_form("")
    constraint: str = CONSTRAINT.in_form(OFF)
    json_schema: str = FormalText(
        title=mark("JSON schema"),
        help=mark(
            "What the JSON of an answer must look like: the types of its values, their names, and which are required."
        ),
        empty_means=(
            '{\n  "type": "object",\n  "properties": {\n    "name": {"type": "string"},\n'
            '    "age": {"type": "integer"}\n  },\n  "required": ["name", "age"]\n}'
        ),
        lines=8,
        check=partial(check_text, JSON_SCHEMA),
        only_with="constraint",
        meant_by=JSON_SCHEMA,
        files=mark("JSON schemas (*.json *.schema);;All files (*)"),
    ).in_form("")
    regex: str = FormalText(
        title=mark("Regular expression"),
        help=mark("A pattern that the whole answer must match. It has no backreferences."),
        empty_means="(yes|no), because [a-z ,]+[.]",
        check=partial(check_text, REGEX),
        only_with="constraint",
        meant_by=REGEX,
        files=mark("Text files (*.txt *.regex);;All files (*)"),
    ).in_form("")
    grammar: str = FormalText(
        title=mark("Grammar"),
        help=mark("What the whole answer must look like, as a grammar: GBNF, as llama.cpp has it, or Lark."),
        empty_means='root ::= item+\nitem ::= "- " [^\\n]+ "\\n"',
        lines=6,
        check=partial(check_text, GRAMMAR),
        only_with="constraint",
        meant_by=GRAMMAR,
        files=mark("Grammars (*.gbnf *.lark *.txt);;All files (*)"),
    ).in_form("")

    tools_off: tuple[str, ...] = ()
    dry_multiplier: float = Decimal(
        title=mark("DRY: strength"),
        help=mark(
            "Above 0, a token that would go on with a repetition of earlier text becomes less likely, the more so the "
            "longer the repetition is already; single words may come again. 0.8 is usual, 0 is off."
        ),
        smallest=0.0,
        largest=10.0,
        step=0.1,
        decimals=2,
        smallest_means=mark("Off"),
    ).in_form(_SAMPLING.dry_multiplier)
    dry_base: float = Decimal(
        title=mark("DRY: growth"),
        help=mark("How much stronger it becomes with every further token that is repeated."),
        smallest=1.0,
        largest=10.0,
        step=0.05,
        decimals=2,
        refines="dry_multiplier",
    ).in_form(_SAMPLING.dry_base)
    dry_allowed_length: int = Whole(
        title=mark("DRY: allowed length"),
        help=mark("So many tokens may be repeated before it begins."),
        smallest=0,
        largest=1000,
        refines="dry_multiplier",
    ).in_form(_SAMPLING.dry_allowed_length)
    dry_penalty_last_n: int = Whole(
        title=mark("DRY: tokens looked at"),
        help=mark("Repetitions of the last so many tokens of the conversation count."),
        smallest=-1,
        largest=1_000_000,
        smallest_means=mark("All"),
        refines="dry_multiplier",
    ).in_form(_SAMPLING.dry_penalty_last_n)
    dry_sequence_breakers: str = LongText(
        title=mark("DRY: begins anew at"),
        help=mark(
            "No repetition goes across any of these texts, one in each line, so that what comes behind them may be as "
            "it was before: names in a dialogue, or the form of a list. \\n in it is a line break."
        ),
        empty_means=mark("Nothing"),
        lines=3,
        refines="dry_multiplier",
    ).in_form("\n".join(each.replace("\n", "\\n") for each in _SAMPLING.dry_sequence_breakers))
    xtc_probability: float = Decimal(
        title=mark("XTC: chance"),
        help=mark(
            "How often the likeliest tokens are left out where several are likely, so that answers take less usual "
            "ways. 0.5 is usual, 0 is off. It does nothing at temperature 0."
        ),
        smallest=0.0,
        largest=1.0,
        step=0.05,
        decimals=2,
        smallest_means=mark("Off"),
    ).in_form(_SAMPLING.xtc_probability)
    xtc_threshold: float = Decimal(
        title=mark("XTC: threshold"),
        help=mark("Tokens at least this likely count as likely; the least likely of them is kept."),
        smallest=0.0,
        largest=0.5,
        step=0.01,
        decimals=2,
        refines="xtc_probability",
    ).in_form(_SAMPLING.xtc_threshold)

    def options(self) -> GenerateOptions:
        """The options of the next answer; a random seed is drawn here."""
        return GenerateOptions(
            sampling=self._sampling(),
            speculation=SpeculationOptions(method=self.method if self.speculates else "none", budget=self.budget),
            max_new_tokens=self.max_new_tokens,
            stop=_lines(self.stop_strings),
            constraint=self._constraint(),
        )

    def _sampling(self) -> SamplingOptions:
        return SamplingOptions(
            temperature=self.temperature,
            top_p=self.top_p,
            top_k=self.top_k,
            min_p=self.min_p,
            repetition_penalty=self.repetition_penalty,
            presence_penalty=self.presence_penalty,
            seed=secrets.randbelow(_SEEDS) if self.seed == RANDOM_SEED else self.seed,
            dry_multiplier=self.dry_multiplier,
            dry_base=self.dry_base,
            dry_allowed_length=self.dry_allowed_length,
            dry_penalty_last_n=self.dry_penalty_last_n,
            dry_sequence_breakers=_lines(self.dry_sequence_breakers),
            xtc_probability=self.xtc_probability,
            xtc_threshold=self.xtc_threshold,
        )

    def _constraint(self) -> Constraint | None:
        if self.constraint not in _KINDS:
            return None
        text = getattr(self, self.constraint) if self.constraint in TEXTS else ""
        return Constraint(_KINDS[self.constraint], constraint_text(self.constraint, text))

    def check_constraint(self) -> None:
        """Raise `InputError` if answers cannot be held to what was written: it is kept, but not sent."""
        if self.constraint in TEXTS:
            check_text(self.constraint, getattr(self, self.constraint))

    def check(self) -> None:
        """Raise `InputError` if a field is outside its range."""
        if not WHEN_FULL.allows(self.when_full):
            legal = say("Give {first}, {second} or {third}.", first=STOP, second=DROP, third=SUMMARISE)
            raise InputError(say("What happens with a full context is '{name}'.", name=self.when_full), legal)
        if not CONSTRAINT.allows(self.constraint):
            legal = say("Give one of {names}.", names=", ".join(name for name, _ in CONSTRAINT.choices))
            option = say("Constraint '{name}'", name=self.constraint)
            raise InputError(say("{option} is out of range.", option=option), legal)
        self.options().check()


def _lines(text: str) -> tuple[str, ...]:
    """Texts that stand one in each line, in which `\\n` is a line break."""
    return tuple(line.replace("\\n", "\n") for line in text.splitlines() if line)
