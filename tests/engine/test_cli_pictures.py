"""Pictures on a terminal: files and data: URLs, in their places, and one clear line for everything that is none."""

import base64
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from engine.__main__ import main
from engine.cli import messages
from engine.cli.messages import read_messages, read_pictures
from engine.engine import Engine
from engine.errors import InputError
from engine.protocol.messages import ChatMessage
from engine.protocol.pictures import MOST_PICTURES, Picture
from engine.text.prompt import Prompt
from tests.links import make_pipe

RED, BLUE = b"\x89PNG red", b"\x89PNG blue!"
URL = f"data:image/png;base64,{base64.b64encode(BLUE).decode()}"
NOWHERE = ["--target", "some/where/deep"]


def shown(url: Any) -> dict[str, Any]:
    return {"type": "image_url", "image_url": url}


def said(*parts: Any, role: str = "user") -> list[dict[str, Any]]:
    return [{"role": role, "content": [*parts]}]


@pytest.fixture
def red(tmp_path: Path) -> Path:
    (tmp_path / "red.png").write_bytes(RED)
    return tmp_path / "red.png"


def test_parts_of_messages_keep_their_order(red: Path) -> None:
    text = {"type": "text", "text": "Which is "}
    parts = said(text, shown({"url": "red.png", "detail": "low"}), {"type": "text", "text": "red?"}, shown(URL))
    plain = {"role": "assistant", "content": "The first."}
    assert read_messages([*parts, plain, *said(shown(str(red)))], "chat.json", red.parent) == [
        ChatMessage("user", "Which is red?", pictures=(Picture(RED, 9), Picture(BLUE, 13))),
        ChatMessage("assistant", "The first."),
        ChatMessage("user", "", pictures=(Picture(RED, 0),)),
    ]


@pytest.mark.parametrize(
    ("part", "words"),
    [
        ("Hi", "not a part of a message"),
        ({"type": "text"}, "not a part of a message"),
        ({"type": "text", "text": 7}, "not a part of a message"),
        ({"type": "input_audio"}, "not a part of a message"),
        (shown(None), "not a part of a message"),
        (shown({"url": 7}), "not a part of a message"),
        (shown("https://example.org/a.png"), "by an address"),
        (shown("file:///etc/passwd"), "by an address"),
        (shown("data:image/png,abc"), "by an address"),
        (shown("data:image/png;base64,AA=A"), "without base64"),
        (shown("data:image/png;base64,"), "without base64"),
        (shown("blue.png"), "blue.png cannot be read: No such file"),
        (shown("."), "cannot be read"),
        (shown("a\0b"), "that is no path"),
    ],
)  # fmt: skip
def test_what_is_no_part_is_refused(part: Any, words: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=words) as refused:
        read_messages(said(part), "chat.json", tmp_path)
    assert refused.value.hint


def test_only_the_user_shows_pictures_and_not_too_many(red: Path) -> None:
    for role in ("system", "assistant"):
        with pytest.raises(InputError, match=f"of the {role}"):
            read_messages(said(shown("red.png"), role=role), "chat.json", red.parent)
    with pytest.raises(InputError, match=f"{MOST_PICTURES + 1} pictures"):
        read_messages(said(*[shown(URL)] * (MOST_PICTURES + 1)), "chat.json", red.parent)
    with pytest.raises(InputError, match=f"{MOST_PICTURES + 1} pictures"):
        read_pictures(["nowhere.png"] * (MOST_PICTURES + 1))


def test_a_picture_is_not_too_long(red: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "MOST_PICTURE_BYTES", len(RED))
    assert read_pictures([str(red)]) == (Picture(RED),)
    red.write_bytes(RED + b"!")
    for url in ("red.png", URL):
        with pytest.raises(InputError, match="more than"):
            read_messages(said(shown(url)), "chat.json", red.parent)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    make_pipe(tmp_path / "pipe.png")
    with pytest.raises(InputError, match="Not an ordinary file"):
        read_pictures([str(tmp_path / "pipe.png")])


def assert_refused(capsys: pytest.CaptureFixture[str], arguments: Sequence[str], words: str) -> None:
    assert main([*arguments, "--json"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: ")
    assert captured.err.count("\n") == 1
    assert words in captured.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--prompt", "Hi", "--image", "nowhere.png"], "nowhere.png cannot be read"),
        (["--messages", "chat.json", "--image", "red.png"], "goes with a --prompt"),
        (["--token-ids", "1,2", "--image", "red.png"], "goes with a --prompt"),
        (["--messages", "chat.json"], "by an address"),
    ],
)
def test_bad_pictures_are_refused_before_anything_is_loaded(
    arguments: list[str], words: str, red: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(red.parent)
    Path("chat.json").write_text(json.dumps(said(shown("http://localhost/a.png"))), encoding="utf-8")
    assert_refused(capsys, ["generate", *arguments, *NOWHERE], words)


def test_a_model_that_reads_none_says_so(red: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["generate", "--prompt", "What is this?", "--image", str(red)]
    assert_refused(capsys, asked, "Leave them out, or choose a target that reads pictures.")
    assert_refused(capsys, [*asked, "--raw"], "Leave out --raw.")


def test_a_model_is_shown_them(red: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    asked, prompt = list[Any](), Engine.prompt

    def see(engine: Engine, chat: Sequence[ChatMessage]) -> Prompt:
        asked.append([*chat])
        return prompt(engine, [ChatMessage("user", "Hi")])

    monkeypatch.setattr(Engine, "reads_pictures", True)
    monkeypatch.setattr(Engine, "prompt", see)
    few = ["--max-new-tokens", "2", "--json"]
    assert main(["generate", "--prompt", "What?", "--image", str(red), "--image", str(red), *few]) == 0
    assert asked == [[ChatMessage("user", "What?", pictures=(Picture(RED), Picture(RED)))]]
    monkeypatch.chdir(red.parent)
    monkeypatch.setattr(
        "sys.stdin", io.TextIOWrapper(io.BytesIO(json.dumps(said(shown("red.png"))).encode()), encoding="utf-8")
    )
    assert main(["generate", "--messages", "-", *few]) == 0
    assert asked[1] == [ChatMessage("user", "", pictures=(Picture(RED),))]
    Path("chat.json").write_text(json.dumps(said(shown("red.png"))), encoding="utf-8")
    monkeypatch.chdir("/")
    assert main(["generate", "--messages", str(red.with_name("chat.json")), *few]) == 0
    assert asked[2] == asked[1], "beside the file, wherever one is"
    capsys.readouterr()
