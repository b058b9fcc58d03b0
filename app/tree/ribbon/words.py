"""What the ribbon says of a round, or of rounds that share a column."""

from typing import Any

import numpy as np

from app.i18n.number_text import Number
from app.i18n.translation import tr
from app.settings.generation import METHOD
from app.tree.ribbon.columns import answer_begins
from app.tree.rounds.figures import KNOWN, LOST, Figures, Rows


def round_words(figures: Figures, place: int) -> str:
    """Which one it is, and below that what it gave, its budget, its time and its method."""
    row = figures.rows[place]
    lines = [_which(figures.rows, place)]
    if row["state"] == KNOWN:
        lines += [_gave(row), _cost(row)]
        if name := figures.methods[row["method"]]:
            lines.append(tr("Method: {name}").format(name=_method(name)))
    else:
        lost, unread = tr("This round is not kept any more."), tr("This round has not been read yet.")
        lines.append(lost if row["state"] == LOST else unread)
    return "\n".join(lines)


def rounds_words(figures: Figures, first: int, end: int) -> str:
    """The same of rounds `first` to `end - 1`, as means."""
    rows = figures.rows[first:end]
    known = rows[rows["state"] == KNOWN]
    words = tr("Rounds {first} to {last}, here in one column")
    lines = [words.format(first=f"{Number(first + 1):,}", last=f"{Number(end):,}")]
    if len(known):
        words = tr("On average {tokens} tokens, {accepted} of them accepted; at most {most}")
        lines.append(
            words.format(
                tokens=f"{Number(known['tokens'].mean()):.1f}",
                accepted=f"{Number(known['accepted'].mean()):.1f}",
                most=f"{Number(int(known['tokens'].max())):,}",
            )
        )
        words = tr("Budget {budget}, {seconds} per round, on average")
        seconds = _seconds(float(known["seconds"].mean(dtype=np.float64)))
        lines.append(words.format(budget=f"{Number(round(known['budget'].mean())):,}", seconds=seconds))
    else:
        lines.append(tr("These rounds have not been read yet."))
    return "\n".join(lines)


def value_words(figures: Figures, place: int) -> str:
    """What a screen reader says of the place: one line."""
    words = tr("Round {number} of {count}").format(number=f"{Number(place + 1):,}", count=f"{Number(len(figures)):,}")
    row = figures.rows[place]
    return f"{words}: {_gave(row)}; {_cost(row)}" if row["state"] == KNOWN else words


def _which(rows: Rows, place: int) -> str:
    number = f"{Number(int(rows[place]['index']) + 1):,}"
    begins = answer_begins(rows)
    if np.count_nonzero(begins) < 2:
        return tr("Round {number}").format(number=number)
    answer = f"{Number(int(np.count_nonzero(begins[: place + 1]))):,}"
    return tr("Round {number} of answer {answer}").format(number=number, answer=answer)


def _gave(row: Any) -> str:
    tokens, accepted = int(row["tokens"]), int(row["accepted"])
    words = tr("1 token") if tokens == 1 else tr("{count} tokens").format(count=f"{Number(tokens):,}")
    parts = tr("{accepted} accepted + {bonus} bonus")
    return f"{words}: {parts.format(accepted=f'{Number(accepted):,}', bonus=max(0, tokens - accepted))}"


def _cost(row: Any) -> str:
    words = tr("Budget {budget}, {count} guessed, {seconds}")
    numbers = {"budget": f"{Number(int(row['budget'])):,}", "count": f"{Number(int(row['nodes'])):,}"}
    return words.format(**numbers, seconds=_seconds(float(row["seconds"])))


def _seconds(seconds: float) -> str:
    if seconds < 1:
        return tr("{count} ms").format(count=f"{Number(seconds * 1000):.0f}")
    return tr("{count} s").format(count=f"{Number(seconds):.2f}" if seconds < 10 else f"{Number(seconds):.0f}")


def _method(name: str) -> str:
    names = dict(METHOD.choices)
    return tr(names[name]) if name in names else name
