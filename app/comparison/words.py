"""What a comparison says: what each column is, which was faster and by how much, and where the texts part."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from app.comparison.transcript import Parting, Transcript, parting
from app.i18n.number_text import Number
from app.i18n.translation import tr
from app.settings.generation import METHOD
from app.system.plain_text import unsteered
from app.telemetry.comparison_bar import about_texts
from engine.protocol.messages import Statistics

NAMES = ("A", "B")
_SHOWN_CHARACTERS = 24  # of a token that is named
_ABOUT_AS_FAST = 1.05  # two runs of the same answer differ by a few percent on a machine that does other things too


def how(statistics: Statistics | None) -> str:
    """The method and the budget of an answer; empty where it is not known."""
    if statistics is None or not statistics.method or _is_unknown(statistics):
        return ""
    name = tr(dict(METHOD.choices).get(statistics.method, statistics.method))
    if statistics.method == "none" or not statistics.budget:
        return name
    return tr("{method}, %n nodes", n=statistics.budget).format(method=name)


def _is_unknown(told: Statistics) -> bool:
    """Whether the method was not kept, as of answers that were interrupted in older versions."""
    return told.method == "none" and not told.is_plain


def speed_words(one: Transcript, other: Transcript) -> str:
    """Which was faster, and by how much; empty while that is not known."""
    if not (one.rate and other.rate):
        return ""
    ratio = one.rate / other.rate
    rates = {
        "first": f"{Number(one.rate):.1f}",
        "second": f"{Number(other.rate):.1f}",
        "ratio": f"{Number(max(ratio, 1 / ratio)):.2f}",
    }
    if max(ratio, 1 / ratio) < _ABOUT_AS_FAST:
        return tr("Both were about as fast: {first} and {second} tokens/s.").format(**rates)
    if ratio > 1:
        return tr("A was {ratio} times as fast as B: {first} against {second} tokens/s.").format(**rates)
    return tr("B was {ratio} times as fast as A: {second} against {first} tokens/s.").format(**rates)


def difference_words(one: Transcript, other: Transcript, temperature: float | None) -> str:
    """Whether the texts are the same, and where they part; `temperature` None: it is not known, or models differ."""
    found = parting(one, other)
    if found is None:
        return tr("The texts are the same.")
    words = _where(one, other, found)
    return words if temperature is None else f"{words} {about_texts(False, temperature)}"


def _where(one: Transcript, other: Transcript, found: Parting) -> str:
    if min(one.times.begin, other.times.begin):
        return _where_in_characters(one, other, found)
    count = min(found.tokens)
    first, second = token_words(one, found.tokens[0]), token_words(other, found.tokens[1])
    if not first or not second:
        there_a_ends = tr("The same for %n tokens; there A ends.", n=count)
        return tr("The same for %n tokens; there B ends.", n=count) if first else there_a_ends
    if not count:
        return tr("They part with the first token: {first} in A, {second} in B.").format(first=first, second=second)
    words = tr("The same for %n tokens; then {first} in A, {second} in B.", n=count)
    return words.format(first=first, second=second)


def _where_in_characters(one: Transcript, other: Transcript, found: Parting) -> str:
    """Where of neither text it is known how many tokens its beginning has."""
    count = found.character
    first, second = token_words(one, found.tokens[0]), token_words(other, found.tokens[1])
    if not first or not second:
        there_a_ends = tr("The same for %n characters; there A ends.", n=count)
        return tr("The same for %n characters; there B ends.", n=count) if first else there_a_ends
    words = tr("The same for %n characters; then {first} in A, {second} in B.", n=count)
    return words.format(first=first, second=second)


def token_words(transcript: Transcript, token: int) -> str:
    """A token between quotation marks, breaks of lines to be seen; empty behind the end."""
    begin, end = transcript.times.span(token)
    piece = transcript.text[begin:end]
    if not piece:
        return ""
    piece = unsteered(piece.replace("\n", "↵").replace("\t", "⇥"))
    cut = piece if len(piece) <= _SHOWN_CHARACTERS else piece[:_SHOWN_CHARACTERS] + "…"
    return tr("“{words}”").format(words=cut)


@dataclass(frozen=True, slots=True)
class FigureRow:
    """A figure of both answers, and how many times A's is B's; empty where that cannot be said."""

    name: str
    values: tuple[str, str]
    ratio: str


def figure_rows(one: Transcript | None, other: Transcript | None) -> tuple[FigureRow, ...]:
    """The figures below the texts; a dash stands where nobody told one."""
    told = tuple(each.statistics if each else None for each in (one, other))
    rows = [
        _row(tr("Tokens per second"), told, lambda each: each.tokens_per_second, ".1f"),
        _row(tr("Tokens per pass"), told, lambda each: each.tokens_per_pass, ".2f"),
        _row(tr("Tokens"), told, lambda each: each.new_tokens, ",.0f"),
        _row(tr("Passes"), told, lambda each: each.passes, ",.0f"),
        _row(tr("Guessed tokens"), told, lambda each: each.drafted_nodes, ",.0f"),
        _row(tr("Seconds of writing"), told, lambda each: each.seconds.decode, ".2f"),
        _row(tr("Seconds to the first token"), told, lambda each: each.first_token_seconds, ".2f"),
    ]
    if any(each and each.experts_used for each in told):  # else it is no mixture, or nobody counted
        rows.append(_row(tr("Experts per pass"), told, lambda each: each.experts_used / max(1, each.passes), ",.0f"))
        rows.append(_row(tr("Of these, computed as stored"), told, _experts_as_stored, ",.0f"))
    return tuple(rows)


def _experts_as_stored(told: Statistics) -> float:
    return told.experts_in_place / max(1, told.passes)


def _row(name: str, told: Sequence[Statistics | None], value: Callable[[Statistics], float], form: str) -> FigureRow:
    """Nothing of a kind was done where its figure is 0, or nobody counted it: no ratio is made of that."""
    numbers = [value(each) if each else 0.0 for each in told]
    shown = [format(Number(number), form) if number else "–" for number in numbers]
    ratio = f"{Number(numbers[0] / numbers[1]):.2f}" if all(numbers) else ""
    return FigureRow(name, (shown[0], shown[1]), ratio)


def as_text(titles: Sequence[str], transcripts: Sequence[Transcript], words: Sequence[str]) -> str:
    """A comparison as Markdown: what the columns are, what is said of them, their figures, and both texts."""
    named = list(zip(NAMES, titles, transcripts, strict=True))
    head = [f"{name}: {', '.join(filter(None, (title, each.answerer)))}" for name, title, each in named]
    rows = [f"| {each.name} | {' | '.join(each.values)} | {each.ratio} |" for each in figure_rows(*transcripts)]
    table = ["| | A | B | A / B |", "|---|---|---|---|", *rows]
    texts = [f"## {name}\n\n{each.text}" for name, _, each in named]
    said = [each for each in words if each]
    return "\n\n".join(["\n".join(head), *said, "\n".join(table), *texts]) + "\n"
