"""Sentences: English text for every program, template and values for the window, on both sides of a connection."""

import errno
import json
import os
import pickle
from copy import deepcopy
from multiprocessing import Pipe
from pathlib import Path

import pytest

from engine.errors import ModelError
from engine.protocol.messages import Failed
from engine.protocol.sentences import Amount, Sentence, from_json, joined, lowered, opening, reason_of, say, to_json


def parts_of(sentence: str) -> tuple[str, str, dict[str, object], bool]:
    """Everything a sentence is made of."""
    assert isinstance(sentence, Sentence)
    return str(sentence), sentence.template, dict(sentence.values), sentence.is_opening


def test_a_sentence_is_its_english_text() -> None:
    sentence = say("{file} holds {count} bytes.", file=Path("a") / "b", count=7)
    assert sentence == f"{Path('a') / 'b'} holds 7 bytes."
    assert json.dumps({"message": sentence}) == json.dumps({"message": str(sentence)})
    assert hash(sentence) == hash(str(sentence))
    assert type(str(sentence)) is str
    assert sentence.values == {"file": str(Path("a") / "b"), "count": 7}


@pytest.mark.parametrize(
    "sentence",
    [
        say("Loading {name}", name="{odd} %1 <b>"),
        say("Trying again: {reason}", reason=say("{gib} for {purpose}", gib=Amount("1.5 GiB"), purpose=say("layers"))),
        joined((say("One."), "", "two {x}", say("{count} nodes", count=3)), ", "),
        opening(say("{count} nodes", count=3)),
        lowered(say("Permission denied")),
    ],
)
def test_it_crosses_a_connection_whole(sentence: str) -> None:
    ours, theirs = Pipe()
    ours.send(Failed(1, sentence))
    assert parts_of(theirs.recv().message) == parts_of(sentence)
    assert parts_of(deepcopy(sentence)) == parts_of(sentence)
    assert parts_of(pickle.loads(pickle.dumps(sentence))) == parts_of(sentence)
    assert isinstance(sentence, Sentence)
    kept = next(iter(sentence.values.values()), "")
    assert type(pickle.loads(pickle.dumps(kept))) is type(kept)


@pytest.mark.parametrize(
    "sentence",
    [
        say("Speculation is switched off."),
        joined((say("{size} promise {cost}.", size=opening(say("{count} nodes", count=3)), cost=Amount("1.5")), "{x}")),
    ],
)
def test_it_can_be_kept_in_a_file(sentence: str) -> None:
    assert isinstance(sentence, Sentence)
    restored = from_json(json.loads(json.dumps(to_json(sentence))))
    assert isinstance(restored, Sentence)
    assert parts_of(restored) == parts_of(sentence)


@pytest.mark.parametrize(
    "kept",
    [
        None,
        [],
        ["{x}", {}, False],
        ["{x.__class__}", {"x": "y"}, False],
        ["{x.__class__}", {"x.__class__": "y"}, False],
        ["{x:99999999}", {"x": 1}, False],
        ["{x!r}", {"x": "y"}, False],
        ["{", {}, False],
        ["{x}", {"x": {}}, False],
    ],
)
def test_what_no_sentence_was_kept_as_is_refused(kept: object) -> None:
    with pytest.raises(ValueError, match=r"sentence|place|'[{}]'"):
        from_json(kept)


def test_joined_parts_leave_out_what_is_empty() -> None:
    assert joined((say("One."), "", say("Two."))) == "One. Two."
    assert joined(()) == ""


def test_an_error_in_a_place_is_the_sentence_that_it_was_raised_with() -> None:
    inner = say("it is damaged")
    assert say("{file} cannot be read: {reason}.", file="a", reason=ValueError(inner)).values["reason"] is inner
    assert say("{reason}.", reason=ValueError("no number")).values["reason"] == "no number"


def test_an_error_says_its_sentence() -> None:
    error = ModelError(say("'{name}' does not fit here.", name="big"), say("Choose another model."))
    assert str(error) == "'big' does not fit here. Choose another model."
    assert isinstance(error.message, Sentence)


@pytest.mark.parametrize(
    "name",
    ["EACCES", "ENOSPC", "EDQUOT", "ENAMETOOLONG", "EFBIG", "EPERM", "EBUSY", "ENOEXEC", "EADDRINUSE", "ECONNREFUSED"],
)
def test_what_a_system_says_of_a_file_can_be_translated(name: str) -> None:
    code = getattr(errno, name)
    assert isinstance(reason_of(OSError(code, os.strerror(code))), Sentence)


def test_what_a_system_says_rarely_is_told_as_it_is() -> None:
    assert reason_of(OSError(99, "Something rare")) == "Something rare"
    assert reason_of(OSError()) == "OSError"
