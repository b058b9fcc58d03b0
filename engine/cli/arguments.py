"""What the terminal accepts: commands, options, and how they become the engine's own option types."""

import argparse
from collections.abc import Sequence
from functools import partial
from typing import Any, NoReturn

from engine import __version__
from engine.cli import model_options, plan, prepare, serve, tree_shape, values
from engine.errors import InputError
from engine.protocol.options import METHODS, SEQUENCE_BREAKERS, GenerateOptions, SamplingOptions, SpeculationOptions

RAW_HELP = "prompts as they stand, without a chat template"
MESSAGES_HELP = 'a JSON list of {"role", "content"}, pictures as OpenAI has them, or as files; - for stdin'
IMAGE_HELP = "a picture before the prompt, for models that read pictures; may be repeated"
SAMPLES_HELP = "independent answers, with the seeds S, S+1, ... (default: %(default)s)"
DECAY_HELP = "SpecExec's frontier: factor of a level's probability (default: %(default)s)"
MIN_P_HELP = "only tokens at least P times as likely as the likeliest (default: off)"
DRY_HELP = "DRY: above 0 discourages tokens that go on with a repetition, such as 0.8 (default: off)"
BREAKER_HELP = "a text that nothing repeats across; may be repeated (default: line break, colon, quotation mark, *)"
XTC_HELP = "XTC: how often the likeliest of several likely tokens are left out, from 0 to 1 (default: off)"
MIN_TOKENS_HELP = "no end token before so many others (default: %(default)s)"
SEED_HELP = (
    "same seed, same text; in float32 also whether and however tokens are drafted, but for sequoia, specinfer and "
    "chain at temperatures above 0. In 16 bit the numbers of a pass depend on its rows: texts may part at near ties "
    "(default: %(default)s)"
)


class Parser(argparse.ArgumentParser):
    """An argument parser whose complaints are `InputError`s: one line, like every other."""

    def error(self, message: str) -> NoReturn:
        """Raise instead of printing the usage and leaving."""
        raise InputError(f"{message[:1].upper()}{message[1:]}.", f"See `{self.prog} --help`.")

    def parse_known_args(  # type: ignore[override]  # its overloads tell types of namespaces apart
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """Refuse what is unknown in the command's own name: argparse leaves that to the parser of all commands."""
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return found, unknown


def build_parser() -> Parser:
    """The parser of `coppice-engine`."""
    parser = Parser(
        prog="coppice-engine",
        description="Generate and measure with speculation trees, on a terminal.",
        epilog='Each command has its --help. To begin: coppice-engine generate --prompt "Hello!"',
    )
    parser.add_argument("--version", action="version", version=f"coppice {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, parser_class=Parser)
    _add_generate(commands.add_parser("generate", help="answer one prompt"))
    _add_bench(commands.add_parser("bench", help="compare methods on the same weights, prompts and machine"))
    _add_serve(commands.add_parser("serve", prog="coppice serve", help="a local server, as OpenAI's and Anthropic's"))
    plan.add_arguments(commands.add_parser("plan", help="where every layer would go, and what that would give"))
    tree_shape.add_arguments(commands.add_parser("tree-shape", help="Sequoia's best tree for an acceptance vector"))
    prepare.add_prepare_arguments(commands.add_parser("prepare", help="convert a model into layers that stream"))
    prepare.add_prepared_arguments(commands.add_parser("prepared", help="list, check or delete prepared models"))
    return parser


def _add_generate(parser: Parser) -> None:
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--prompt", metavar="TEXT", help="one user message; - reads it from stdin")
    source.add_argument("--messages", metavar="FILE", help=MESSAGES_HELP)
    source.add_argument("--token-ids", metavar="1,2,3", help="raw token ids, without a chat template")
    parser.add_argument("--image", action="append", default=[], metavar="FILE", help=IMAGE_HELP)
    parser.add_argument("--raw", action="store_true", help=RAW_HELP)
    parser.add_argument("--method", choices=METHODS, default="auto", help="how to speculate (default: %(default)s)")
    parser.add_argument("--samples", type=int, default=1, metavar="N", help=SAMPLES_HELP)
    parser.add_argument("--trace", metavar="FILE", help="write one JSON line per round")
    _add_constraint(parser)
    _add_model(parser)
    _add_sampling(parser)


def _add_constraint(parser: Parser) -> None:
    only_one = parser.add_mutually_exclusive_group()
    add = partial(only_one.add_argument, dest="constraint", default=None)
    add("--schema", type=values.schema, metavar="FILE", help="an answer in JSON that this schema describes")
    add("--grammar", type=values.grammar, metavar="FILE", help="an answer by this grammar, GBNF or Lark")
    add("--regex", type=values.regex, metavar="PATTERN", help="an answer that this pattern matches as a whole")


def _add_bench(parser: Parser) -> None:
    add = parser.add_argument
    methods = f"methods to measure, of {', '.join(METHODS)}; none is always there (default: none,specexec)"
    add("--methods", type=values.names, default=["none", "specexec"], metavar="all|A,B", help=methods)
    rivals = "rivals to measure, of transformers, assisted (with the draft) and accelerate (default: the first two)"
    add("--baselines", type=values.names, default=["transformers", "assisted"], metavar="A,B", help=rivals)
    budgets = "a row per budget (default: that of --budget)"
    add("--budgets", type=values.budgets, default=None, metavar="auto,8,64", help=budgets)
    temperatures = "all that, for each of them (default: that of --temperature)"
    add("--temperatures", type=values.numbers, default=None, metavar="0,0.6", help=temperatures)
    add("--calibrate", action="store_true", help="first measure how the pair accepts, for Sequoia")
    add("--save", metavar="FILE", help="write the JSON document to a file, too")
    prompts = 'JSON lines of {"prompt"} or {"messages"}; - for stdin (default: some of our own)'
    add("--prompts", metavar="FILE", help=prompts)
    add("--raw", action="store_true", help=RAW_HELP)
    add("--prompt-count", type=int, default=8, metavar="N", help="prompts to use (default: %(default)s)")
    _add_model(parser)
    _add_sampling(parser)


def _add_serve(parser: Parser) -> None:
    parser.description = "Answer programs on this computer over HTTP; /health says when the models are loaded."
    parser.epilog = (
        "`coppice serve` (not `coppice-engine serve`) also takes --data-dir DIR and --portable, as `coppice` does: "
        "it uses the engine that was installed there, and the caches that the window keeps there."
    )
    serve.add_arguments(parser)
    _add_model(parser)


def _add_model(parser: Parser) -> None:
    parser.add_argument("--no-overlap", action="store_true", help="let the draft rest while layers are awaited")
    model_options.add_pair(parser, force="load what the plan says does not fit, too")


def _add_sampling(parser: Parser) -> None:
    add = parser.add_argument
    add("--max-new-tokens", type=int, default=256, metavar="N", help="longest answer, in tokens (default: %(default)s)")
    add("--min-new-tokens", type=int, default=0, metavar="N", help=MIN_TOKENS_HELP)
    add("--temperature", type=float, default=0.0, metavar="T", help="0 is greedy (default: %(default)s)")
    add("--top-p", type=float, default=1.0, metavar="P", help="nucleus sampling (default: off)")
    add("--top-k", type=int, default=0, metavar="K", help="only the K likeliest tokens (default: off)")
    add("--min-p", type=float, default=0.0, metavar="P", help=MIN_P_HELP)
    add("--repetition-penalty", type=float, default=1.0, metavar="R", help="above 1 discourages repeats (default: off)")
    used = "above 0 discourages used tokens (default: off)"
    add("--presence-penalty", type=float, default=0.0, metavar="R", help=used)
    often = "above 0 discourages tokens the more, the more often they were used (default: off)"
    add("--frequency-penalty", type=float, default=0.0, metavar="R", help=often)
    _add_against_repetition(parser)
    add("--seed", type=int, default=0, metavar="S", help=SEED_HELP)
    add("--budget", type=values.budget, default=0, metavar="auto|N", help="drafted nodes per tree (default: auto)")
    add("--depth", type=int, default=32, metavar="D", help="levels and draft passes per tree (default: %(default)s)")
    add("--width", type=int, default=32, metavar="W", help="children looked at per node (default: %(default)s)")
    add("--draft-batch", type=int, default=128, metavar="B", help="nodes per draft pass (default: %(default)s)")
    add("--decay", type=float, default=0.95, metavar="D", help=DECAY_HELP)
    expansions = "SpecInfer's children by level (default: as many sequences as promise most)"
    add("--expansions", type=values.counts, default=[], metavar="4,2,1,1", help=expansions)
    add("--grow-map", type=values.grow_map, default=(), metavar="FILE", help="Sequoia's tree, from tree-shape --json")
    add("--no-calibration", action="store_true", help="rank drafted nodes by the draft's own probability alone")
    add("--no-lookup", action="store_true", help="no branches that repeat what the text said before")
    acceptance = "for Sequoia: the file that bench --calibrate names, or prior for a usual one (default: this pair's)"
    add("--acceptance", type=values.acceptance, default="", metavar="FILE|prior", help=acceptance)
    add("--stop", action="append", default=[], metavar="TEXT", help="end the answer at this text; may be repeated")
    add("--ignore-eos", action="store_true", help="write on past the model's end token")


def _add_against_repetition(parser: Parser) -> None:
    """As llama.cpp names them."""
    add, plain = parser.add_argument, SamplingOptions()
    add("--dry-multiplier", type=float, default=0.0, metavar="M", help=DRY_HELP)
    base = "how much more with every token that is repeated (default: %(default)s)"
    add("--dry-base", type=float, default=plain.dry_base, metavar="B", help=base)
    allowed = "tokens that may be repeated for nothing (default: %(default)s)"
    add("--dry-allowed-length", type=int, default=plain.dry_allowed_length, metavar="N", help=allowed)
    last = "tokens that are looked at, -1 for all (default: %(default)s)"
    add("--dry-penalty-last-n", type=int, default=plain.dry_penalty_last_n, metavar="N", help=last)
    add("--dry-sequence-breaker", action="append", default=[], metavar="TEXT", help=BREAKER_HELP)
    add("--xtc-probability", type=float, default=0.0, metavar="P", help=XTC_HELP)
    threshold = "how likely a token is at least to count among these (default: %(default)s)"
    add("--xtc-threshold", type=float, default=plain.xtc_threshold, metavar="P", help=threshold)


def _sampling(arguments: argparse.Namespace, seed: int) -> SamplingOptions:
    return SamplingOptions(
        temperature=arguments.temperature,
        top_p=arguments.top_p,
        top_k=arguments.top_k,
        min_p=arguments.min_p,
        repetition_penalty=arguments.repetition_penalty,
        presence_penalty=arguments.presence_penalty,
        frequency_penalty=arguments.frequency_penalty,
        seed=seed,
        dry_multiplier=arguments.dry_multiplier,
        dry_base=arguments.dry_base,
        dry_allowed_length=arguments.dry_allowed_length,
        dry_penalty_last_n=arguments.dry_penalty_last_n,
        dry_sequence_breakers=tuple(arguments.dry_sequence_breaker) or SEQUENCE_BREAKERS,
        xtc_probability=arguments.xtc_probability,
        xtc_threshold=arguments.xtc_threshold,
    )


def generate_options(arguments: argparse.Namespace, method: str, budget: int, seed: int) -> GenerateOptions:
    """The answer that the arguments ask for, by this method.

    In a benchmark of several methods each has its own options alone; else one that does not belong is refused.
    """
    is_strict = arguments.command != "bench"
    return GenerateOptions(
        sampling=_sampling(arguments, seed),
        speculation=SpeculationOptions(
            method=method,
            budget=budget,
            batch=arguments.draft_batch,
            depth=arguments.depth,
            width=arguments.width,
            decay=arguments.decay,
            acceptance=arguments.acceptance if method == "sequoia" or is_strict else "",
            expansions=tuple(arguments.expansions) if method == "specinfer" or is_strict else (),
            grow_map=arguments.grow_map if method == "sequoia" or is_strict else (),
            lookup=not arguments.no_lookup,
            calibrate=not arguments.no_calibration,
        ),
        max_new_tokens=arguments.max_new_tokens,
        stop=tuple(arguments.stop),
        ignore_eos=arguments.ignore_eos,
        constraint=getattr(arguments, "constraint", None),
        min_new_tokens=arguments.min_new_tokens,
    )
