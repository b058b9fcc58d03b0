"""Texts in files: every bit as if they had stayed, and whatever happens to a file costs reading, never an answer."""

import errno
import math
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.engine import Engine
from engine.errors import Cancelled
from engine.kept_files import (
    AUTOMATIC_MOST,
    RESERVE_BYTES,
    all_files,
    forget,
    kept_bytes,
    kept_folder,
    make_room,
    part_path,
    planned_bytes,
)
from engine.loading.kept import part_file, texts_on_disk
from engine.loading.kept.model_names import model_names
from engine.loading.kept.texts_on_disk import Place, TextsOnDisk
from engine.model.checkpoint import open_checkpoint
from engine.model.context import Context
from engine.model.heads.hidden_states import HiddenStates
from engine.model.network import Network
from engine.model.passes.slot_forms import EIGHT_BITS
from engine.protocol.messages import ChatMessage, Finished, Prefilled, Round
from engine.protocol.options import GenerateOptions, LoadOptions
from engine.weights.store.layout import PAGE
from tests.bench.taking_turns import loaded
from tests.engine.model.heads.test_head_context import Case
from tests.engine.model.heads.test_head_context import made as made_with_head
from tests.engine.model.state.test_hybrid_context import random_tree
from tests.engine.test_kept_texts import CAPACITY, KINDS, NETWORKS, answered
from tests.engine.tiny_models import tiny_network
from tests.links import make_link

MODEL, CHAT = "a" * 32, "chat 1"
TEXT = list(range(3, 103))
PLENTY = 1 << 30


@pytest.fixture(autouse=True)
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is not there is worth a file; and the disk has room."""
    monkeypatch.setattr(texts_on_disk, "LEAST_TOKENS", 1)
    monkeypatch.setattr(texts_on_disk, "LEAST_SECONDS", 0.0)


@pytest.fixture(scope="module")
def llama() -> Network:
    return tiny_network("llama")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return kept_folder(tmp_path)


def disk_of(root: Path, *contexts: Context, most: int = PLENTY, model: str = MODEL) -> TextsOnDisk:
    """As after a start: nothing is known but what is in the folder."""
    disk = TextsOnDisk({context: model[:-1] + str(number) for number, context in enumerate(contexts)})
    disk.place = Place(root, most)
    disk.learn(1000, 1000.0)
    return disk


def never() -> None:
    """Nobody waits."""


def keep(disk: TextsOnDisk, context: Context, conversation: str = CHAT) -> bool:
    return disk.keep(context, context.text_in_place(), conversation, never)


def kept_text(root: Path, network: Network, tokens: Sequence[int] = TEXT) -> list[Path]:
    """The files of a text that was read and kept."""
    context = Context(network, CAPACITY)
    context.prefill(tokens)
    assert keep(disk_of(root, context), context)
    return sorted(file.path for file in all_files(root))


def brought(root: Path, network: Network, tokens: Sequence[int] = TEXT) -> tuple[int, str]:
    """How many tokens another start needs not read, and what it complains of; the logits are right in any case."""
    context, plain = Context(network, CAPACITY), Context(network, CAPACITY)
    disk = disk_of(root, context)
    disk.bring(context, tokens)
    known = context.prefill(tokens)
    plain.prefill(tokens)
    torch.testing.assert_close(context.score([7], [-1]), plain.score([7], [-1]))  # read in other passes, perhaps
    return known, disk.take_complaint()


@pytest.mark.parametrize("kind", KINDS)
def test_a_conversation_that_comes_back_is_as_if_it_had_stayed(kind: str, root: Path) -> None:
    context = Context(NETWORKS[kind](), CAPACITY)
    disk, said = disk_of(root, context), [20]
    for turn in range(3):
        said = [*said[:-2], *range(30 + turn, 75 + turn)]  # a template may leave out the last tokens of an answer
        answered(context, said, turn)
        assert keep(disk, context)
        said = list(context.tokens)
    assert len(all_files(root)) > 1, "a turn is written behind what is there"
    said = [*said[:-1], 8, 9]
    other = Context(context.network, CAPACITY)
    disk_of(root, other).bring(other, said)
    assert other.common(said) == context.common(said)
    assert context.common(said) > len(said) // 2 or kind == "turned by length", "there any length has its own numbers"
    found, expected = answered(other, said, 5), answered(context, said, 5)
    assert found[0] == expected[0]
    assert torch.equal(found[1], expected[1])


def test_a_conversation_in_8_bits_comes_back_code_by_code(root: Path) -> None:
    context, other = (Context(tiny_network("gemma3"), CAPACITY, form=EIGHT_BITS) for _ in range(2))
    answered(context, TEXT, 1)
    assert keep(disk_of(root, context), context)
    said = [*context.tokens, 8]
    disk_of(root, other).bring(other, said)
    found, expected = answered(other, said, 5), answered(context, said, 5)
    assert found[0] == expected[0] > len(TEXT)
    assert torch.equal(found[1], expected[1])


@pytest.fixture(scope="module")
def heads(tmp_path_factory: pytest.TempPathFactory) -> list[Case]:
    return [made_with_head("qwen3_5_text", tmp_path_factory.mktemp("model")) for _ in range(2)]


def test_a_head_finds_again_what_its_target_recorded(heads: list[Case], root: Path) -> None:
    (host, head), (other_host, other_head) = (case.pair() for case in heads)
    first, longer = TEXT[:23], [*TEXT[:23], 50, 51]
    disk = disk_of(root, host, head)
    for context in (host, head):
        context.prefill(first)
        assert keep(disk, context)
    disk = disk_of(root, other_host, other_head)
    for context in (other_host, other_head):
        disk.bring(context, longer)
        assert context.prefill(longer) == len(first)
    for context in (host, head):
        context.prefill(longer)
    tokens, parents = random_tree(9, 1)
    for found, expected in ((other_host, host), (other_head, head)):
        assert torch.equal(found.score(tokens, parents), expected.score(tokens, parents))


def test_a_folder_is_of_one_network_as_it_computes_and_of_what_it_records(heads: list[Case], tmp_path: Path) -> None:
    host, head = heads[0].pair()
    checkpoint = open_checkpoint(str(heads[0].folder))

    def names(target: Context, stored_as: str = "") -> tuple[str, str]:
        found = model_names((target, checkpoint), ((head, checkpoint), (None, None)), stored_as)
        return found[target], found[head]

    others = [Context(replace(host.network, dtype=torch.bfloat16), CAPACITY), Context(host.network, CAPACITY)]
    for layers in ((0,), (1,)):
        other = Context(host.network, CAPACITY)
        other.record(HiddenStates(host.network, CAPACITY, layers))
        others.append(other)
    expected = names(host)
    found = [*map(names, others), names(host, "nf4")]
    assert len({expected, *found}) == 1 + len(found)
    for place, which in enumerate(("target", "head")):
        assert len({expected[place], *(each[place] for each in found)}) == 1 + len(found), which
    same = Context(host.network, CAPACITY)
    same.record(HiddenStates(host.network, CAPACITY))
    assert names(same) == expected
    copied = open_checkpoint(str(shutil.copytree(heads[0].folder, tmp_path / "copy")))
    config = copied.path / "config.json"
    config.write_text(config.read_text() + " ")  # such as another theta
    assert model_names((host, open_checkpoint(str(copied.path))), (), "")[host] != expected[0]


def test_a_system_prompt_is_found_in_the_text_of_another_chat(llama: Network, root: Path) -> None:
    kept_text(root, llama, [*TEXT[:60], *range(20, 60)])
    assert brought(root, llama, [*TEXT[:60], 90, 91]) == (60, "")


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "a bit of the table": lambda whole: whole[:40] + bytes([whole[40] ^ 1]) + whole[41:],
    "a bit of the tokens": lambda whole: _flipped(whole, len(whole) * 0 + 4096 * 2 + 9),
    "a bit of a layer": lambda whole: _flipped(whole, len(whole) * 3 // 4),
    "a bit of the digests": lambda whole: _flipped(whole, len(whole) - 3),
    "its end is missing": lambda whole: whole[: len(whole) // 2],
    "it is empty": lambda _whole: b"",
    "its type of numbers": lambda whole: whole.replace(b'"F32"', b'"I32"', 1),
}


def _flipped(whole: bytes, place: int) -> bytes:
    return whole[:place] + bytes([whole[place] ^ 16]) + whole[place + 1 :]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_told_of_removed_and_not_used(damage: str, llama: Network, root: Path) -> None:
    (path,) = kept_text(root, llama)
    path.write_bytes(DAMAGES[damage](path.read_bytes()))
    known, complaint = brought(root, llama)
    assert known == 0
    assert "damaged" in complaint
    assert not path.exists()
    assert brought(root, llama) == (0, ""), "it is told once"


HOSTILE: dict[str, tuple[Any, torch.Tensor]] = {
    "no table": ([1], torch.arange(100)),
    "no time": ({"begin": 0, "end": 100, "layers": 0}, torch.arange(100)),
    "a time in words": ({"begin": 0, "end": 100, "layers": 0, "seconds_per_token": "long"}, torch.arange(100)),
    "a time without end": ({"begin": 0, "end": 100, "layers": 0, "seconds_per_token": math.inf}, torch.arange(100)),
    "no end": ({"begin": 0, "end": math.inf, "layers": 0, "seconds_per_token": 1}, torch.arange(100)),
    "fewer tokens": ({"begin": 0, "end": 1 << 60, "layers": 0, "seconds_per_token": 1}, torch.arange(100)),
    "tokens in pieces": ({"begin": 0, "end": 100, "layers": 0, "seconds_per_token": 1}, torch.arange(100) + 0.5),
    "other layers": ({"begin": 0, "end": 100, "layers": 9, "seconds_per_token": 1}, torch.tensor(TEXT)),
    "states without end": (
        {"begin": 0, "end": 100, "layers": 0, "seconds_per_token": 1, "states": {"layers": 1 << 60, "snapshots": []}},
        torch.arange(100),
    ),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_whole_file_that_nobody_here_has_written_is_removed_too(kind: str, llama: Network, root: Path) -> None:
    (path,) = kept_text(root, llama)
    about, tokens = HOSTILE[kind]
    if isinstance(about, dict):
        about = {"model": path.parent.name, "before": "", **about}
    if kind == "no table":
        with pytest.raises(part_file.UnusableText):
            part_file.write_part(path, {"text": {"tokens": tokens}}, about, never)
    else:
        part_file.write_part(path, {"text": {"tokens": tokens}}, about, never)
    known, complaint = brought(root, llama)
    assert (known, "damaged" in complaint, path.exists()) == (0, True, False)


def test_a_damaged_later_part_costs_no_more_than_itself(llama: Network, root: Path) -> None:
    context = Context(llama, CAPACITY)
    disk = disk_of(root, context)
    for length in (60, 100):
        context.prefill(TEXT[:length])
        assert keep(disk, context)
    first, second = sorted(file.path for file in all_files(root))
    second.write_bytes(_flipped(second.read_bytes(), 4096 * 3))
    assert brought(root, llama)[1]
    assert brought(root, llama) == (60, "")
    assert first.exists()


def test_files_of_another_model_or_version_are_told_of_and_stay(
    llama: Network, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (path,) = kept_text(root, llama)
    elsewhere = root / ("b" * 31 + "0") / path.name
    elsewhere.parent.mkdir()
    shutil.move(path, elsewhere)
    context = Context(llama, CAPACITY)
    disk = disk_of(root, context, model="b" * 32)
    disk.bring(context, TEXT)
    assert (context.length, elsewhere.exists()) == (0, True)
    assert "another model" in disk.take_complaint()
    monkeypatch.setattr(part_file, "VERSION", "2")
    assert brought(elsewhere.parents[1], llama, TEXT) == (0, ""), "nothing is in the folder of this one"
    with pytest.raises(part_file.UnusableText) as refused:
        part_file.PartFile(elsewhere)
    assert not refused.value.is_damaged


@pytest.mark.skipif(os.name == "nt", reason="links need a right there")
def test_links_are_never_followed(llama: Network, root: Path, tmp_path: Path) -> None:
    (path,) = kept_text(root, llama)
    away = tmp_path / "elsewhere"
    path.rename(away)
    make_link(path, away)
    assert brought(root, llama) == (0, "")
    assert forget(root) == 0
    assert away.exists()
    folder = path.parent
    shutil.rmtree(root)
    root.mkdir()
    (tmp_path / "other").mkdir()
    make_link(folder, tmp_path / "other")
    context = Context(llama, CAPACITY)
    context.prefill(TEXT)
    assert not keep(disk_of(root, context), context)
    assert list((tmp_path / "other").iterdir()) == []


@pytest.mark.skipif(os.name == "nt", reason="permissions come from the folder there")
def test_nobody_else_can_read_what_is_kept(llama: Network, root: Path) -> None:
    root.mkdir(mode=0o755, parents=True)
    (path,) = kept_text(root, llama)
    assert [each.stat().st_mode & 0o777 for each in (root, path.parent, path)] == [0o700, 0o700, 0o600]
    assert CHAT not in path.name
    assert CHAT.encode() not in path.read_bytes()


def test_a_full_disk_loses_nothing(llama: Network, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context = Context(llama, CAPACITY)
    disk = disk_of(root, context)
    context.prefill(TEXT[:60])
    assert keep(disk, context)
    context.prefill(TEXT)

    def fail(_file: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(part_file, "_settle", fail)
        assert not keep(disk, context)
        assert "No space left" in disk.take_complaint()
        assert not keep(disk, context)
        assert disk.take_complaint() == "", "it is told once"
    assert [each.name.count(".00.safetensors") for each in next(root.iterdir()).iterdir()] == [1], "nothing is left"
    assert context.common(TEXT) == len(TEXT)
    assert brought(root, llama) == (60, "")
    assert keep(disk, context), "as soon as there is room"
    assert brought(root, llama) == (100, "")


def test_a_folder_that_cannot_be_made_is_told_of(llama: Network, root: Path) -> None:
    root.parent.mkdir(exist_ok=True)
    root.write_text("no folder", encoding="utf-8")
    context = Context(llama, CAPACITY)
    context.prefill(TEXT)
    disk = disk_of(root, context)
    assert not keep(disk, context)
    assert "cannot be kept" in disk.take_complaint()


def test_a_request_ends_what_is_being_written(llama: Network, root: Path) -> None:
    context = Context(llama, CAPACITY)
    context.prefill(TEXT)
    looks: list[int] = []

    def come() -> None:
        looks.append(1)
        if len(looks) > 3:
            raise Cancelled

    with pytest.raises(Cancelled):
        disk_of(root, context).keep(context, context.text_in_place(), CHAT, come)
    assert list(next(root.iterdir()).iterdir()) == []


def test_what_was_of_use_last_stays(llama: Network, root: Path) -> None:
    context = Context(llama, CAPACITY)
    sizes = [0]
    for number in range(4):
        context.prefill([number + 3] * 100)
        bound = PLENTY if number < 3 else sizes[3] + 20 * PAGE
        disk = disk_of(root, context, most=bound)
        if number == 3:
            disk.bring(context, [3] * 101)
            context.prefill([number + 3] * 100)
        for file in all_files(root):
            if number < 3:
                os.utime(file.path, (file.used - 100, file.used - 100))
        assert keep(disk, context)
        assert kept_bytes(root) <= bound
        sizes.append(kept_bytes(root))
    assert [brought(root, llama, [first] * 100)[0] for first in (3, 4, 5, 6)] == [100, 0, 100, 100]


def test_what_does_not_fit_removes_nothing(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = root / MODEL
    folder.mkdir(parents=True)
    paths = [part_path(folder, "0" * 16, f"{number:016x}", part) for number in range(2) for part in range(2)]
    for path in paths:
        path.write_bytes(bytes(100))
    (folder / "note.txt").write_text("not ours")
    left = root / ("c" * 32) / "half written.x.part"
    left.parent.mkdir()
    left.write_text("by a process that was killed, of a model that is not used any more")
    assert kept_bytes(root) == 400
    assert not make_room(root, 1000, 999)
    assert not left.exists()
    assert not make_room(root, 300, 400, staying=paths[:1]), "a text that grows stays"
    assert kept_bytes(root) == 400
    assert make_room(root, 150, 400, staying=paths[:1])
    assert [path.exists() for path in paths] == [True, True, False, False]
    free = shutil.disk_usage(root)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: free._replace(free=RESERVE_BYTES))
    assert planned_bytes(root, -1) == pytest.approx(0.05 * (RESERVE_BYTES + 200), abs=2)
    assert not make_room(root, 300, PLENTY)
    assert make_room(root, 200, PLENTY), "what goes makes room"
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: free._replace(free=1 << 50))
    assert planned_bytes(root, -1) == AUTOMATIC_MOST


# ---- a pair ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def engines(tmp_path: Path) -> Iterator[Callable[[], Engine]]:
    """Starts an engine as after a restart of everything."""
    running: list[Engine] = []

    def start() -> Engine:
        while running:
            running.pop().close()
        running.append(loaded(LoadOptions(cache_dir=str(tmp_path), context_tokens=512), keeps_texts=True))
        running[-1].keep_on_disk(str(tmp_path), PLENTY)
        return running[-1]

    yield start
    running.pop().close()


def told(engine: Engine, chat: Sequence[ChatMessage]) -> tuple[Prefilled, str, str]:
    """What was told of the prompt, the answer, and the note behind it."""
    options = GenerateOptions(max_new_tokens=12, ignore_eos=True, conversation=CHAT)
    events = list(engine.generate(1, engine.prompt(chat), options))
    assert isinstance(events[0], Prefilled)
    assert isinstance(events[-1], Finished)
    assert events[-1].statistics
    text = "".join(event.text for event in events if isinstance(event, Round | Finished))
    return events[0], text, events[-1].statistics.note


def test_a_chat_goes_on_after_a_restart(engines: Callable[[], Engine], root: Path) -> None:
    chat = [ChatMessage("user", "Tell me a story about a dragon. " * 12)]
    first = engines()
    prompt, answer, _ = told(first, chat)
    assert prompt.cached_tokens == 0
    assert first.rest(never)
    chat += [ChatMessage("assistant", answer), ChatMessage("user", "And then?")]
    _, expected, _ = told(first, chat)
    damaged = max(all_files(root), key=lambda file: -file.nbytes).path  # the draft's
    damaged.write_bytes(_flipped(damaged.read_bytes(), 4096 * 4))
    prompt, answer, note = told(engines(), chat)
    assert answer == expected
    assert prompt.cached_tokens > 0.8 * prompt.prompt_tokens
    assert "damaged" in note
    assert not damaged.exists()


def test_a_prompt_that_was_not_read_to_its_end_tells_nothing_of_the_time(engines: Callable[[], Engine]) -> None:
    engine, passes = engines(), list[object]()
    disk = engine._loaded.texts.on_disk
    assert disk
    disk.learn(100, 50.0)

    def stop(*_: object) -> None:
        passes.append(None)
        raise Cancelled

    hook = engine.target.network.layers[1].register_forward_pre_hook(stop)
    prompt = engine.prompt([ChatMessage("user", "Tell me a story about a dragon. " * 40)])
    *_, last = engine.generate(1, prompt, GenerateOptions(max_new_tokens=12, conversation=CHAT))
    hook.remove()
    assert passes
    assert isinstance(last, Finished)
    assert last.reason == "cancelled"
    assert disk._read == (100, 50.0)
