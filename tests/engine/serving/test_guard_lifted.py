"""Bodies with long base64: what they say does not depend on how they are read."""

import asyncio
import base64
import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engine.serving.guard import lifted
from engine.serving.guard.bodies import read_json
from engine.serving.guard.errors import ApiError
from engine.serving.guard.lifted import lift
from engine.serving.guard.limits import Limits
from tests.engine.serving.stub import PATH, running

LONG = 8
PARTS = [*'"":,[]{}', "\\", " ", "1", "null", "A" * 9, "A" * 20, "data:;base64,"]
texts = st.text('Aa0+/=-_"\\:, {}[]\n\u00e9', max_size=24) | st.text("AZaz09+/=", min_size=LONG, max_size=40)
urls = texts.map("data:image/png;base64,".__add__)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | texts | urls,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts | st.just("data"), inner, max_size=4),
    max_leaves=12,
)


@given(value=values, indent=st.sampled_from([None, 0, 9]), is_ascii=st.booleans())
@example({"A" * 20: "B" * 20}, None, True)
@example(['"' + "A" * 20, "A" * 20 + '"', "\\" + "A" * 20], None, True)
@example([10**30, "A" * 20, 10**30], None, True)
def test_what_was_lifted_out_is_put_back(value: Any, indent: int | None, is_ascii: bool) -> None:
    body = bytearray(json.dumps(value, indent=indent, ensure_ascii=is_ascii).encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lifted, "LONGEST_LEFT", LONG)
        patch.setattr(lifted, "STEP", 16)
        found = lift(bytearray(body))
    read = json.loads(found.rest)
    others = found.put_back(read)
    if isinstance(value, str):
        assert read == value or found.strings[read] == value, "which is no request"
    else:
        assert read == value
    assert others <= sum(map(len, found.strings.values()))
    assert (found.rest == body) == (not found.strings)


@given(
    parts=st.lists(
        st.sampled_from([*'"":,[]{}', "\\", " ", "1", "null", "A" * 9, "A" * 20, "data:;base64,"]), max_size=12
    )
)
@example(['"', "A" * 20, '"', "A" * 20, '"'])
def test_what_is_no_json_is_none_without_it_either(parts: list[str]) -> None:
    body = bytearray("".join(parts).encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lifted, "LONGEST_LEFT", LONG)
        found = lift(bytearray(body))
    assert is_json(found.rest) == is_json(body)


def is_json(body: bytearray) -> bool:
    try:
        json.loads(body.decode())
    except ValueError:
        return False
    return True


def read(value: Any, **limits: int) -> Any:
    return asyncio.run(read_json(bytearray(json.dumps(value).encode()), Limits(**limits)))


PICTURE = base64.b64encode(bytes(300_000)).decode()
SHOWN = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PICTURE}"}}
ASKED = {"messages": [{"role": "user", "content": [SHOWN, {"type": "text", "text": "What?"}]}]}


def test_the_parser_never_sees_a_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would hold all other threads meanwhile."""
    seen, loads = list[int](), json.loads

    def watched(text: str, **others: Any) -> Any:
        seen.append(len(text))
        return loads(text, **others)

    monkeypatch.setattr(json, "loads", watched)
    assert read(ASKED) == ASKED
    assert 0 < max(seen) < 1000


@pytest.mark.parametrize(
    "asked",
    [
        ASKED,
        {"messages": [{"role": "user", "content": [{"type": "image", "source": {"type": "base64", "data": PICTURE}}]}]},
        {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": PICTURE}]}]},
        {"messages": [{"role": "user", "images": [PICTURE, PICTURE]}]},
        {"prompt": "What?", "images": [PICTURE]},
    ],
)
def test_pictures_do_not_count_as_text(asked: Any) -> None:
    assert read(asked, json_bytes=1000) == asked


@pytest.mark.parametrize(
    "asked",
    [
        {"content": PICTURE},
        {"prompt": [PICTURE]},
        {"messages": [{"role": "user", "content": PICTURE}]},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": f"data:image/png;base64,{PICTURE}"}]}]},
        {"tools": [{"input_schema": {"data": PICTURE}}]},
        {"metadata": {"data": PICTURE}},
        {"messages": [{"role": "user", "images": ["no base64? " * 10_000]}]},
        {"messages": [{"role": "user", "images": [PICTURE.replace("A", "_")]}]},
    ],
)
def test_everything_else_does(asked: Any) -> None:
    with pytest.raises(ApiError, match="beside its pictures") as refused:
        read(asked, json_bytes=1000)
    assert (refused.value.status, refused.value.code) == (413, "request_too_large")
    assert read(asked) == asked


def test_large_pictures_are_taken_and_large_texts_are_not() -> None:
    limits = Limits(body_bytes=1 << 20, json_bytes=1 << 18)
    with running(limits=limits) as server:
        for field, status in (("images", 200), ("more", 413)):
            told = server.http.post(PATH, json={"text": "a", field: [PICTURE]})
            assert told.status_code == status
        assert server.http.post(PATH, json={"text": "a", "images": [PICTURE] * 3}).status_code == 413, "both together"
        assert not server.body_bytes_taken()


def test_nobody_can_name_what_is_put_back() -> None:
    """The names are new for every body."""
    body = bytearray(json.dumps(ASKED).encode())
    assert not lift(bytearray(body)).strings.keys() & lift(body).strings.keys()
