"""With `"coppice": {"rounds": true}` a stream tells every event of the answer, and OpenAI's client reads it as ever."""

from typing import Any

from openai import OpenAI

from engine.protocol.messages import Event, Finished, Prefilled, Round
from engine.protocol.round_json import finished_from_json, prefilled_from_json, round_from_json
from tests.engine.serving.conftest import STORY

READ = {"prefilled": prefilled_from_json, "round": round_from_json, "finished": finished_from_json}
FIELDS: dict[str, Any] = {
    "model": "",
    "max_tokens": 8,
    "stream": True,
    "temperature": 0.7,
    "seed": 3,
    "extra_body": {"coppice": {"rounds": True, "verdicts": True, "method": "specexec", "budget": 9}},
}


def events_of(chunks: list[Any]) -> list[Any]:
    """What a window on another machine makes of the stream."""
    return [
        READ[name](value)
        for chunk in chunks
        if (own := chunk.model_extra.get("coppice"))
        for name, value in own.items()
    ]


def assert_whole(told: list[Any], trace: list[Event]) -> None:
    assert told == trace
    assert isinstance(told[0], Prefilled)
    assert all(isinstance(each, Round) for each in told[1:-1])
    assert all(each.verdicts for each in told[1:-1])
    assert any(len(each.tree.pieces) > 1 for each in told[1:-1]), "there were trees"
    assert isinstance(told[-1], Finished)


def test_a_window_elsewhere_has_every_event_of_a_chat(client: OpenAI, trace: list[Event]) -> None:
    chunks = list(client.chat.completions.create(messages=[{"role": "user", "content": STORY}], **FIELDS))
    told = events_of(chunks)
    assert_whole(told, trace)
    text = "".join(each.text for each in told[1:])
    assert text == "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)
    assert all(len(chunk.choices) == 1 for chunk in chunks), "what every client reads is in every chunk"


def test_and_of_a_completion(client: OpenAI, trace: list[Event]) -> None:
    chunks = list(client.completions.create(prompt=STORY, **FIELDS))
    assert_whole(events_of(chunks), trace)


def test_a_whole_answer_tells_no_rounds(client: OpenAI, trace: list[Event]) -> None:
    whole = {**FIELDS, "stream": False, "max_tokens": 2}
    for answer in (
        client.chat.completions.create(messages=[{"role": "user", "content": STORY}], **whole),
        client.completions.create(prompt=STORY, **whole),
    ):
        assert "coppice" not in answer.to_dict()
    assert not any(each.verdicts for each in trace if isinstance(each, Round)), "nobody would read them"


def test_who_does_not_ask_is_told_of_none(client: OpenAI) -> None:
    plain = {**FIELDS, "extra_body": {}, "max_tokens": 2}
    chunks = list(client.chat.completions.create(messages=[{"role": "user", "content": STORY}], **plain))
    assert not events_of(chunks)
