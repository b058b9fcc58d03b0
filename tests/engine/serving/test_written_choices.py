"""Choices as they are written of played answers: what no small model does when it is asked to."""

import json
import math
from array import array
from typing import Any

from engine.protocol.messages import Finished, FinishReason, Prefilled, Round, Seconds, Statistics, Tree
from engine.protocol.reasoning import COMMON
from engine.serving.answers import Alive, Ended, Progress, Step
from engine.serving.chat.completion import ChoiceWriter
from engine.serving.chat.request import ChatFields
from engine.serving.chat.turns import chat_of
from engine.serving.completions.completion import TextChoiceWriter
from engine.serving.completions.request import CompletionFields
from engine.text.pieces import CallBegun, Content, Piece, Thought

SPOKEN = [{"role": "user", "content": "?"}]
END_TOKEN = 9


def round_of(text: str, bonus: int = 5, *, log_prob: float = -1.0, top: tuple[tuple[str, float], ...] = ()) -> Round:
    """One that writes a single token."""
    tree = Tree(array("i", [1]).tobytes(), array("i", [-1]).tobytes(), array("f", [0]).tobytes(), ("a",))
    lengths, log_probs = array("I", [len(text)]).tobytes(), array("f", [log_prob]).tobytes()
    return Round(
        1,
        0,
        tree,
        (0,),
        bonus,
        text,
        1,
        text,
        Seconds(),
        lengths=lengths,
        log_probs=log_probs,
        top=(top,) if top else (),
    )


def test_the_tokens_of_the_reasoning_are_counted() -> None:
    writer = ChoiceWriter(0, asked(), {END_TOKEN})
    for step in (progress(Thought("hm")), progress(Thought("so")), progress(Content("Yes")), ended()):
        list(writer.take(step))
    assert int(writer.reasoning) == 2


def asked(**fields: Any) -> ChatFields:
    return ChatFields.model_validate({"messages": SPOKEN, **fields})


def written(asked: ChatFields, *steps: Step) -> tuple[list[Any], Any]:
    """The deltas, and the whole."""
    writer = ChoiceWriter(0, asked, {END_TOKEN})
    parts = [part for step in steps for part in writer.take(step)]
    json.dumps(parts, allow_nan=False)
    return [part["choices"][0]["delta"] for part in parts], writer.choice()


def progress(*pieces: Piece, **changes: Any) -> Progress:
    return Progress(round_of("x", **changes), pieces)


def ended(*pieces: Piece, reason: FinishReason = "stop") -> Ended:
    return Ended(Finished(1, reason, "", Statistics(new_tokens=3)), pieces)


def test_reasoning_stands_apart() -> None:
    steps = (
        Prefilled(1, 3, 0, 0.1),
        Alive(),
        progress(Thought("hm")),
        progress(),
        progress(Thought("!"), Content("Yes")),
    )
    deltas, whole = written(asked(), *steps, ended(Content(".")))
    assert deltas == [
        {"role": "assistant", "content": ""},
        {"reasoning_content": "hm"},
        {"reasoning_content": "!"},
        {"content": "Yes"},
        {"content": "."},
        {},
    ]
    assert whole["message"] == {"role": "assistant", "content": "Yes.", "reasoning_content": "hm!"}
    assert whole["finish_reason"] == "stop"


def test_an_answer_that_only_calls_has_no_content() -> None:
    _, whole = written(asked(), progress(CallBegun(0, "c", "fly")), ended())
    assert whole["message"]["content"] is None
    assert whole["finish_reason"] == "tool_calls"
    _, cut = written(asked(), progress(CallBegun(0, "c", "fly")), ended(reason="length"))
    assert cut["finish_reason"] == "length", "the call is not whole"
    assert written(asked(), ended(reason="cancelled"))[1]["finish_reason"] == "length"


def test_log_probs_are_numbers_that_json_knows() -> None:
    top = (("\ufffd", -0.1), ("b", -math.inf))
    steps = (progress(log_prob=-math.inf, top=top), progress(bonus=END_TOKEN))
    _, whole = written(asked(logprobs=True, top_logprobs=2), *steps, ended())
    (token,) = whole["logprobs"]["content"]
    assert (token["token"], token["logprob"], token["bytes"]) == ("x", -9999.0, [ord("x")])
    assert token["top_logprobs"][0]["bytes"] is None, "half of a character"
    assert token["top_logprobs"][1]["logprob"] == -9999.0
    fields = CompletionFields.model_validate({"prompt": "?", "logprobs": 2})
    writer = TextChoiceWriter(0, fields, {END_TOKEN})
    parts = [part for step in (*steps, ended()) for part in writer.take(step)]
    json.dumps(parts, allow_nan=False)
    told = writer.choice()["logprobs"]
    assert (told["tokens"], told["token_logprobs"], told["text_offset"]) == (["x"], [-9999.0], [0])
    assert told["top_logprobs"] == [{"\ufffd": -0.1, "b": -9999.0}]


def test_earlier_reasoning_stands_before_its_answer() -> None:
    said = {"role": "assistant", "content": "Yes.", "reasoning_content": "hm"}
    system = {"role": "developer", "content": [{"type": "text", "text": "Be "}, {"type": "text", "text": "kind."}]}
    fields = ChatFields.model_validate({"messages": [system, *SPOKEN, said]})
    turns = chat_of(fields.messages, COMMON)
    assert [turn.role for turn in turns] == ["system", "user", "assistant"]
    assert turns[0].content == "Be kind."
    assert turns[2].content == "<think>\nhm\n</think>\n\nYes."
