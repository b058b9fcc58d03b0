"""Fingerprints agree exactly where the engine finds two tokenizers to be the same, and shares where it does not."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from app.hub.client import HubClient
from app.hub.facts import fetch_facts
from app.hub.failures import HubError
from app.library.pairing import vocabulary
from app.library.pairing.vocabulary import Vocabulary, VocabularyCache, read_vocabulary
from app.system.background import Stop
from app.system.paths import resource
from tests.app.hub.conftest import client, connect, hub
from tests.app.hub.repositories import tiny
from tests.campaigns.extent import choose
from tests.engine.model.gguf.raw_files import RawFile
from tests.hub import Hub

__all__ = ["client", "connect", "hub"]
EMBEDDED = resource("models", "demo-target")
EMBEDDED_DRAFT = resource("models", "demo-draft")

Edit = Callable[[dict[str, Any]], object]


def swap_two(tokenizer: dict[str, Any]) -> None:
    vocabulary = tokenizer["model"]["vocab"]
    one, other = list(vocabulary)[300:302]
    vocabulary[one], vocabulary[other] = vocabulary[other], vocabulary[one]


EXTRA = {"id": 99_999, "content": "<extra>", "special": True} | dict.fromkeys(
    ("single_word", "lstrip", "rstrip", "normalized"), False
)
EDITS: dict[str, Edit] = {
    "nothing": lambda _tokenizer: None,
    "another order": lambda tokenizer: tokenizer["model"].update(
        vocab=dict(reversed(tokenizer["model"]["vocab"].items()))
    ),
    "merges as pairs": lambda tokenizer: tokenizer["model"].update(
        merges=[m.split(" ") if isinstance(m, str) else m for m in tokenizer["model"]["merges"]]
    ),
    "no post-processor": lambda tokenizer: tokenizer.update(post_processor=None),
    "two ids swapped": swap_two,
    "one token more": lambda tokenizer: tokenizer["added_tokens"].append(EXTRA),
}


def edited(folder: Path, edit: Edit) -> Path:
    """The embedded target's tokenizer, changed."""
    folder.mkdir()
    for path in EMBEDDED.iterdir():
        if path.name.startswith(("tokenizer", "special", "config")):
            shutil.copy(path, folder)
    tokenizer = json.loads((folder / "tokenizer.json").read_bytes())
    edit(tokenizer)
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer, indent=1))
    return folder


@pytest.mark.parametrize("edit", choose(["merges as pairs", "no post-processor", "two ids swapped"], list(EDITS)))
def test_what_the_engine_takes_for_the_same_has_the_same_fingerprint(edit: str, tmp_path: Path) -> None:
    from engine.text.tokenizer import Tokenizer

    book = VocabularyCache(tmp_path / "book.json")
    other = edited(tmp_path / "other", EDITS[edit])
    same = Tokenizer.open(EMBEDDED).same_as(Tokenizer.open(other))
    found = [book.of_folder(EMBEDDED), book.of_folder(other)]
    assert len({each.fingerprint for each in found if each}) == (1 if same else 2)
    assert same == (edit not in ("two ids swapped", "one token more"))


def test_the_embedded_pair_has_one_vocabulary(tmp_path: Path) -> None:
    book = VocabularyCache(tmp_path / "book.json")
    assert book.of_folder(EMBEDDED) == book.of_folder(EMBEDDED_DRAFT) is not None


def test_a_unigram_model_lists_its_pieces_in_the_order_of_ids() -> None:
    listed = {"model": {"type": "Unigram", "vocab": [["a", -1.0], ["b", -2.0]]}, "added_tokens": []}
    table = {"model": {"type": "BPE", "vocab": {"b": 1, "a": 0}}}
    assert read_vocabulary(json.dumps(listed).encode()) == read_vocabulary(json.dumps(table).encode())


def test_tokens_that_only_the_configuration_adds_count() -> None:
    plain = json.dumps({"model": {"vocab": {"a": 0}}}).encode()
    adding = json.dumps({"added_tokens_decoder": {"1": {"content": "<s>"}}}).encode()
    with_it = json.dumps({"model": {"vocab": {"a": 0}}, "added_tokens": [{"id": 1, "content": "<s>"}]}).encode()
    assert read_vocabulary(plain, adding) == read_vocabulary(with_it) != read_vocabulary(plain)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"{}",
        b"{" * 100_000,
        b'{"model": 7}',
        b'{"model": {"vocab": {}}}',
        b'{"model": {"vocab": [7]}}',
        b'{"model": {"vocab": [[]]}}',
    ],
)
def test_what_is_no_tokenizer_is_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"^it"):
        read_vocabulary(content)


@pytest.mark.parametrize("mark", [",", ":"])
def test_a_tokenizer_that_would_swell_is_not_parsed(mark: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """128 MB of names of three letters take gigabytes, in the process of the window."""
    monkeypatch.setattr(vocabulary, "parse_object", Mock(side_effect=AssertionError("parsed")))
    with pytest.raises(ValueError, match="too many tokens"):
        read_vocabulary(mark.encode() * (1 + (1 << 23)))


def test_a_vocabulary_of_a_gguf_file_has_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = RawFile().write(tmp_path / "a.gguf")
    assert VocabularyCache(tmp_path / "book").of_folder(path)
    monkeypatch.setattr(vocabulary, "_MOST_TOKENS", 2)
    with pytest.raises(ValueError, match="too many tokens"):
        VocabularyCache(tmp_path / "another book").of_folder(path)


def test_a_tokenizer_of_the_hub_is_read_once_for_all_models_that_share_it(
    hub: Hub, client: HubClient, tmp_path: Path
) -> None:
    for repo in ("org/one", "org/two"):
        hub.add(repo, tiny())
    hub.add("org/other", tiny() | {"tokenizer.json": b'{"model": {"vocab": {"x": 0}}}'})
    facts = {repo: fetch_facts(client, repo, tmp_path, Stop()) for repo in ("org/one", "org/two", "org/other")}
    book = VocabularyCache(tmp_path / "book.json")
    made = {repo: book.of_remote(client, each, Stop()) for repo, each in facts.items()}
    assert made["org/one"] == made["org/two"] != made["org/other"]
    assert len(hub.asked("tokenizer.json")) == 2
    assert VocabularyCache(tmp_path / "book.json").of_remote(client, facts["org/two"], Stop()) == made["org/one"]
    assert len(hub.asked("tokenizer.json")) == 2


def test_a_damaged_tokenizer_of_the_hub_is_one_sentence(hub: Hub, client: HubClient, tmp_path: Path) -> None:
    hub.add("org/bad", tiny() | {"tokenizer.json": b"[[["})
    facts = fetch_facts(client, "org/bad", tmp_path, Stop())
    with pytest.raises(HubError, match="its tokenizer cannot be read"):
        VocabularyCache(tmp_path / "book.json").of_remote(client, facts, Stop())


def test_a_model_without_tokenizer_json_has_no_fingerprint(hub: Hub, client: HubClient, tmp_path: Path) -> None:
    files = tiny()
    del files["tokenizer.json"]
    hub.add("org/old", files)
    facts = fetch_facts(client, "org/old", tmp_path, Stop())
    assert VocabularyCache(tmp_path / "book.json").of_remote(client, facts, Stop()) is None
    (tmp_path / "book.json").write_text("damaged")
    assert VocabularyCache(tmp_path / "book.json").of_folder(tmp_path / "nothing") is None


def without_late_merges(tokenizer: dict[str, Any]) -> None:
    model = tokenizer["model"]
    merges = model["merges"]
    gone = {"".join(pair) for pair in merges[2000:]} - {"".join(pair) for pair in merges[:2000]}
    model["merges"] = merges[:2000]
    model["vocab"] = {name: 4095 - token for name, token in model["vocab"].items() if name not in gone}
    for added in tokenizer["added_tokens"]:
        added["id"] = 4095 - added["id"]


def test_the_share_of_common_tokens_is_the_engine_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from engine.text.backend import BYTE_OF_LETTER
    from engine.text.intersection import TokenIntersection
    from engine.text.tokenizer import Tokenizer

    assert vocabulary._BYTE_OF_LETTER == BYTE_OF_LETTER
    folder = edited(tmp_path / "other", without_late_merges)
    exact = TokenIntersection(Tokenizer.open(EMBEDDED), Tokenizer.open(folder)).of_vocabulary
    files = (EMBEDDED / "tokenizer.json").read_bytes(), (folder / "tokenizer.json").read_bytes()
    one, other = map(read_vocabulary, files)
    assert one.share_in(other) == pytest.approx(exact, abs=0.15)
    assert other.share_in(one) == one.share_in(one) == 1
    monkeypatch.setattr(vocabulary, "_SAMPLED", 1)
    one, other = map(read_vocabulary, files)
    assert one.share_in(other) == pytest.approx(exact, abs=1e-9)


def test_what_writes_the_same_is_common_whatever_it_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vocabulary, "_SAMPLED", 1)
    end = {"content": "</s>", "special": True}
    letters = {"model": {"vocab": {"Ġthe": 0, "Ċ": 1, "Ã©": 2, "</s>": 9}}, "decoder": {"type": "ByteLevel"}}
    pieces: dict[str, Any] = {"model": {"vocab": {"▁the": 4, "<0x0A>": 5, "é": 6, "<x>": 7}}, "decoder": {}}
    pieces["added_tokens"] = [end | {"id": 8}]
    one, other = (read_vocabulary(json.dumps(each).encode()) for each in (letters, pieces))
    assert one.share_in(other) == 3 / 4, "the end of a text is no text"
    marked = read_vocabulary(json.dumps(letters | {"added_tokens": [end | {"id": 9}]}).encode())
    assert marked.share_in(other) == 1
    assert Vocabulary("").share_in(one) == 0


def test_a_damaged_book_holds_nothing(tmp_path: Path) -> None:
    book = tmp_path / "book.json"
    found = VocabularyCache(book).of_folder(EMBEDDED)
    assert found
    (entry,) = json.loads(book.read_text()).values()
    assert Vocabulary.from_json(entry) == found
    for kept in (
        "ab12",
        {"fingerprint": "x"},
        {"fingerprint": "x", "sample": "?"},
        {"fingerprint": 1, "sample": ""},
        7,
    ):
        assert Vocabulary.from_json(kept) is None
