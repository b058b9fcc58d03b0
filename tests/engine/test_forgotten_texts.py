"""Texts in files that are to be forgotten, or are not for everyone: none comes back, and none is told to others."""

from collections.abc import Sequence
from pathlib import Path
from unittest.mock import Mock

import pytest

from engine.errors import Cancelled
from engine.files import Replacement
from engine.kept_files import all_files, forget, kept_bytes, kept_folder, owner_of
from engine.loading.kept import texts_on_disk
from engine.loading.kept.kept_texts import KeptTexts
from engine.model.context import Context
from engine.model.network import Network
from engine.model.passes.kept_text import KeptText
from engine.protocol.keeping import SERVED
from tests.engine.test_kept_on_disk import CHAT, PLENTY, TEXT, brought, disk_of, keep, kept_text, never
from tests.engine.test_kept_texts import CAPACITY
from tests.engine.tiny_models import tiny_network


@pytest.fixture(autouse=True)
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is not there is worth a file."""
    monkeypatch.setattr(texts_on_disk, "LEAST_TOKENS", 1)
    monkeypatch.setattr(texts_on_disk, "LEAST_SECONDS", 0.0)


@pytest.fixture(scope="module")
def llama() -> Network:
    return tiny_network("llama")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return kept_folder(tmp_path)


def test_what_is_to_be_forgotten_is_nowhere_any_more(llama: Network, root: Path) -> None:
    context = Context(llama, CAPACITY)
    texts = KeptTexts(PLENTY, on_disk=disk_of(root, context))

    def read(conversation: str, tokens: Sequence[int]) -> None:
        texts.begin(conversation)
        texts.exchange(context, tokens)
        context.prefill(tokens)

    read("1", TEXT)
    assert texts.rest(never)
    read("2", [5] * 100)
    assert texts.rest(never)
    assert not texts.rest(never), "nothing is new"
    read("", [6] * 100)
    assert not texts.rest(never), "what belongs to no conversation is not kept"
    assert len(texts) == 2, "both make way in RAM"

    def order() -> None:
        texts.forget(("1",))

    read("3", [7] * 100)
    with pytest.raises(Cancelled):
        texts.rest(order)
    assert texts.rest(never)
    assert brought(root, llama)[0] == 0
    assert brought(root, llama, [5] * 100)[0] == 100
    assert len(texts) == 2, "of the first nothing is left in RAM"
    texts.forget(())
    assert not texts.rest(never), "what the context holds is not written anew"
    assert kept_bytes(root) == len(texts) == 0


def test_what_is_written_while_it_is_to_be_forgotten_goes_at_once(
    llama: Network, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = Context(llama, CAPACITY)
    texts = KeptTexts(PLENTY, on_disk=disk_of(root, context))
    commit = Replacement.commit

    def commit_late(replacement: Replacement) -> None:
        """The order comes, and whoever gives it removes the files, when nothing is checked any more."""
        texts.forget((CHAT,))
        forget(root, (CHAT,))
        commit(replacement)

    monkeypatch.setattr(Replacement, "commit", commit_late)
    texts.begin(CHAT)
    texts.exchange(context, TEXT)
    context.prefill(TEXT)
    texts.rest(never)
    assert all_files(root) == []


def test_what_waited_while_its_conversation_was_deleted_is_not_kept(llama: Network, root: Path) -> None:
    context = Context(llama, CAPACITY)
    texts = KeptTexts(PLENTY, on_disk=disk_of(root, context))
    texts.begin("2")
    texts.forget((CHAT,))
    texts.begin("3")
    for conversation, kept in ((CHAT, False), (CHAT, True)):
        texts.begin(conversation)
        texts.exchange(context, TEXT)
        context.prefill(TEXT)
        assert texts.rest(never) == kept == bool(all_files(root)), "what is asked later, as it was brought back, is"


def test_clients_never_find_what_was_read_for_a_window(llama: Network, root: Path) -> None:
    """Neither in the context nor in RAM nor in files; the window finds what was read for them."""
    for bound in (PLENTY, 0):
        context = Context(llama, CAPACITY)
        texts = KeptTexts(bound, on_disk=disk_of(root, context))

        def known(
            conversation: str, tokens: Sequence[int], texts: KeptTexts = texts, context: Context = context
        ) -> int:
            texts.begin(conversation)
            texts.exchange(context, tokens)
            found = context.prefill(tokens)
            texts.rest(never)
            return found

        assert known(CHAT, TEXT) == 0
        assert known(SERVED, TEXT) == 0, "in the context"
        assert known(CHAT, [5] * 100) == 0
        assert known(SERVED, TEXT) == 100, "its own"
        assert known(SERVED, [5] * 100) == 0, "in RAM, or in a file"
        assert known(CHAT, [6] * 100) == 0
        assert known("", [5] * 100) == 100
        forget(root)


@pytest.mark.parametrize("failure", [Cancelled, MemoryError])
def test_a_copy_that_fails_gives_nobody_what_is_not_theirs(
    failure: type[Exception], llama: Network, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = Context(llama, CAPACITY)
    texts = KeptTexts(PLENTY, on_disk=disk_of(root, context))
    texts.begin(CHAT)
    texts.exchange(context, TEXT)
    context.prefill(TEXT)
    monkeypatch.setattr(context, "copied_text", Mock(side_effect=failure))
    texts.begin(SERVED)
    with pytest.raises(failure):
        texts.exchange(context, [*TEXT, 5])
    if failure is MemoryError:
        assert context.common(TEXT) == 0, "it reads on without a copy"
    else:
        assert texts.rest(never)
        assert [file.owner for file in all_files(root)] == [owner_of(CHAT)]


def test_what_is_deleted_while_it_is_read_is_not_made_anew(
    llama: Network, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept_text(root, llama)
    other = Context(llama, CAPACITY)
    other.prefill([5] * 100)
    assert keep(disk_of(root, other), other, "chat 2")
    restore = Context.restore

    def restore_and_delete(context: Context, kept: KeptText, length: int) -> None:
        restore(context, kept, length)
        forget(root, [CHAT])

    monkeypatch.setattr(Context, "restore", restore_and_delete)
    assert brought(root, llama) == (100, "")
    assert [file.owner for file in all_files(root)] == [owner_of("chat 2")]
    assert brought(root, llama) == (0, "")


def test_files_of_a_conversation_are_found_by_its_name(llama: Network, root: Path) -> None:
    kept_text(root, llama)
    context = Context(llama, CAPACITY)
    context.prefill([5] * 100)
    assert keep(disk_of(root, context), context, "chat 2")
    size = kept_bytes(root)
    assert forget(root, ["chat 3"]) == 0
    assert 0 < forget(root, [CHAT]) < size
    assert brought(root, llama)[0] == 0
    (next(root.iterdir()) / "half written.x.part").write_text("by a process that was killed")
    forget(root)
    assert list(root.iterdir()) == []
