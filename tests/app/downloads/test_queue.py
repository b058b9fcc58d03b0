"""The queue: a few at a time, stopped at once, taken up again, and remembered."""

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from app.downloads.control import Control
from app.downloads.dependencies import Dependencies
from app.downloads.progress import Progress, Request, State
from app.downloads.queue import DownloadQueue, Entry, Journal
from tests.app.downloads.models import FILES, SHARDS, contents
from tests.hub import Hub, stall, status

PATIENCE_SECONDS = 30.0

OpenQueue = Callable[..., DownloadQueue]


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """The file that the queue keeps."""
    return tmp_path / "data" / "downloads.json"


@pytest.fixture
def open_queue(journal: Path, dependencies: Dependencies) -> Iterator[OpenQueue]:
    """Opens queues whose downloads never find a connection stalled by themselves."""
    opened: list[DownloadQueue] = []

    def open_(simultaneous: int = 2) -> DownloadQueue:
        patient = replace(dependencies, stall_seconds=PATIENCE_SECONDS)
        opened.append(DownloadQueue(Journal(journal), patient, simultaneous))
        return opened[-1]

    yield open_
    for queue in opened:
        queue.close()


def only(queue: DownloadQueue) -> Progress:
    """What the one download is doing."""
    (progress,) = queue.snapshot()
    return progress


def hold(hub: Hub, name: str, after: int = 1000) -> None:
    """Put up a model whose first shard stops in the middle."""
    hub.add(name, FILES)
    hub.fail(f"/{name}/{SHARDS[0]}", stall(after=after))


def wait_until(queue: DownloadQueue, number: int, count: int) -> None:
    """Wait until so many bytes of the first shard are there."""

    def is_there() -> bool:
        listed = {each.id: each for each in queue.snapshot()}
        return (listed[number].file, listed[number].file_bytes) == (SHARDS[0], count)

    wait_for(is_there)


def wait_for(condition: Callable[[], bool]) -> None:
    """Look again and again, for a while."""
    pause = threading.Event()
    for _ in range(int(PATIENCE_SECONDS / 0.01)):
        if condition():
            return
        pause.wait(0.01)
    raise AssertionError("it did not come to pass")


def test_so_many_at_a_time_and_the_next_when_there_is_room(hub: Hub, open_queue: OpenQueue) -> None:
    for number in range(4):
        hold(hub, f"org/m{number}")
    queue = open_queue(simultaneous=2)
    ids = [queue.add(Request(f"org/m{number}")) for number in range(4)]
    for number in ids[:2]:
        wait_until(queue, number, 1000)
    assert [each.state for each in queue.snapshot()[2:]] == [State.QUEUED, State.QUEUED]
    queue.pause(ids[0])
    wait_until(queue, ids[2], 1000)
    assert queue.snapshot()[0].state is State.PAUSED
    assert queue.snapshot()[3].state is State.QUEUED
    queue.resume(ids[0])
    hub.release()
    assert queue.wait_idle(PATIENCE_SECONDS)
    assert {each.state for each in queue.snapshot()} == {State.DONE}


def test_a_pause_interrupts_a_connection_that_stands_still(hub: Hub, open_queue: OpenQueue, tmp_path: Path) -> None:
    hold(hub, "org/tiny")
    queue = open_queue()
    number = queue.add(Request("org/tiny"))
    wait_until(queue, number, 1000)
    queue.pause(number)
    assert queue.wait_idle(PATIENCE_SECONDS / 3), "sooner than the connection would have been found stalled"
    assert only(queue).state is State.PAUSED
    assert any(name.endswith(".incomplete") for name in contents(tmp_path / "hf"))
    queue.resume(number)
    assert queue.wait_idle(PATIENCE_SECONDS)
    assert only(queue).state is State.DONE
    assert [each.first_byte for each in hub.asked(SHARDS[0])] == [0, 1000]


def test_a_resume_while_it_is_still_stopping_is_not_lost(hub: Hub, open_queue: OpenQueue) -> None:
    hold(hub, "org/tiny")
    queue = open_queue()
    number = queue.add(Request("org/tiny"))
    wait_until(queue, number, 1000)
    queue.pause(number)
    queue.resume(number)
    assert queue.wait_idle(PATIENCE_SECONDS)
    assert only(queue).state is State.DONE


def test_a_cancel_removes_what_is_partial_and_nothing_else(hub: Hub, open_queue: OpenQueue, cache: Path) -> None:
    hold(hub, "org/tiny")
    (cache / "refs").mkdir(parents=True)
    (cache / "refs" / "old").write_text("0" * 40)
    queue = open_queue()
    number = queue.add(Request("org/tiny"))
    wait_until(queue, number, 1000)
    queue.cancel(number)
    assert queue.wait_idle(PATIENCE_SECONDS / 3)
    assert only(queue).state is State.CANCELLED
    assert only(queue).bytes_done == sum(len(FILES[name]) for name in FILES if name not in SHARDS), "what is there now"
    left = contents(cache)
    assert not [name for name in left if name.endswith(".incomplete")]
    assert left["refs/old"] == b"0" * 40
    snapshot = next((cache / "snapshots").iterdir())
    assert contents(snapshot) == {name: FILES[name] for name in FILES if name not in SHARDS}
    named = {path.resolve().name for path in snapshot.iterdir() if path.is_symlink()}
    assert contents(cache / "blobs").keys() == named, "every blob that is left has a name"
    queue.forget(number)
    assert queue.snapshot() == ()


def test_what_a_killed_program_was_doing_is_offered_again(
    hub: Hub, open_queue: OpenQueue, cache: Path, journal: Path
) -> None:
    hold(hub, "org/tiny", after=100_000)
    first = open_queue()
    wait_until(first, first.add(Request("org/tiny")), 100_000)
    written = journal.read_bytes()  # as a kill would leave it
    first.close()
    journal.write_bytes(written)
    commit = hub.catalogue.repos["org/tiny"].commit
    hub.catalogue.repos["org/tiny"].branches = ()  # the branch has moved meanwhile

    second = open_queue()
    second.restore()
    progress = only(second)
    small = sum(len(FILES[name]) for name in FILES if name not in SHARDS)
    assert progress.state is State.PAUSED
    assert (progress.bytes_done, progress.bytes_total) == (small + 100_000, sum(map(len, FILES.values())))
    second.resume(progress.id)
    assert second.wait_idle(PATIENCE_SECONDS)
    assert only(second).state is State.DONE
    assert contents(cache / "snapshots" / commit) == FILES
    assert [each.first_byte for each in hub.asked(SHARDS[0])] == [0, 100_000]

    third = open_queue()
    third.restore()
    assert third.snapshot() == ()


def replace_first_shard(hub: Hub) -> dict[str, bytes]:
    """Let the commit vanish for one in which another file takes the place of the first shard; returns its files."""
    files = {name: content for name, content in FILES.items() if name != SHARDS[0]} | {"merges.txt": b"a b"}
    hub.heal()
    hub.add("org/tiny", files)
    return files


def test_one_whose_commit_has_vanished_goes_on_with_what_there_is_now(
    hub: Hub, open_queue: OpenQueue, cache: Path
) -> None:
    hold(hub, "org/tiny")
    queue = open_queue()
    number = queue.add(Request("org/tiny"))
    wait_until(queue, number, 1000)
    queue.pause(number)
    assert queue.wait_idle(PATIENCE_SECONDS)
    files = replace_first_shard(hub)
    queue.resume(number)
    assert queue.wait_idle(PATIENCE_SECONDS)
    assert only(queue).state is State.FAILED
    queue.resume(number)
    assert queue.wait_idle(PATIENCE_SECONDS)
    assert only(queue).state is State.DONE, only(queue).message
    assert only(queue).bytes_done == only(queue).bytes_total == sum(map(len, files.values()))
    assert contents(Path(only(queue).path)) == files
    assert not [name for name in contents(cache) if name.endswith(".incomplete")]


def test_one_that_was_cancelled_is_asked_for_anew(hub: Hub, open_queue: OpenQueue) -> None:
    hold(hub, "org/tiny")
    queue = open_queue()
    number = queue.add(Request("org/tiny"))
    wait_until(queue, number, 1000)
    queue.cancel(number)
    assert queue.wait_idle(PATIENCE_SECONDS)
    files = replace_first_shard(hub)
    assert queue.add(Request("org/tiny")) != number
    assert queue.wait_idle(PATIENCE_SECONDS)
    assert only(queue).state is State.DONE, only(queue).message
    assert contents(Path(only(queue).path)) == files


def test_an_interrupted_one_can_be_cancelled_in_a_later_session(hub: Hub, open_queue: OpenQueue, cache: Path) -> None:
    hold(hub, "org/tiny")
    first = open_queue()
    wait_until(first, first.add(Request("org/tiny")), 1000)
    first.close()
    second = open_queue()
    second.restore()
    second.cancel(only(second).id)
    assert not [name for name in contents(cache) if name.endswith(".incomplete")]


def test_what_earlier_sessions_have_left_stays_until_it_is_restored(
    hub: Hub, open_queue: OpenQueue, journal: Path
) -> None:
    left = [Entry(Request("org/big")), Entry(Request("org/tiny"))]
    Journal(journal).write(left)
    open_queue().close()
    assert Journal(journal).read() == tuple(left)
    hub.add("org/tiny", FILES)
    queue = open_queue()
    queue.add(Request("org/tiny"))
    assert queue.wait_idle(PATIENCE_SECONDS)
    assert Journal(journal).read() == (left[0],)
    queue.restore()
    assert [(each.request.repo_id, each.state) for each in queue.snapshot()] == [
        ("org/big", State.PAUSED),
        ("org/tiny", State.DONE),
    ]
    queue.cancel(queue.snapshot()[0].id)
    assert Journal(journal).read() == ()


def test_the_same_is_not_listed_twice(hub: Hub, open_queue: OpenQueue) -> None:
    hold(hub, "org/tiny")
    queue = open_queue()
    number = queue.add(Request("org/tiny"))
    wait_until(queue, number, 1000)
    assert queue.add(Request("org/tiny")) == number
    hub.release()
    assert queue.wait_idle(PATIENCE_SECONDS)
    again = queue.add(Request("org/tiny"))
    assert queue.wait_idle(PATIENCE_SECONDS)
    assert [each.id for each in queue.snapshot()] == [again]


def test_a_failed_one_stays_listed_with_its_reason_and_can_be_tried_again(hub: Hub, open_queue: OpenQueue) -> None:
    hub.add("org/tiny", FILES, gated="auto")
    queue = open_queue()
    number = queue.add(Request("org/tiny"))
    assert queue.wait_idle(PATIENCE_SECONDS)
    assert only(queue).state is State.FAILED
    assert "you are not logged in" in only(queue).message
    hub.catalogue.repos["org/tiny"].gated = False
    queue.resume(number)
    assert queue.wait_idle(PATIENCE_SECONDS)
    assert only(queue).state is State.DONE


def test_an_error_of_ours_becomes_a_state(
    hub: Hub,
    open_queue: OpenQueue,
    monkeypatch: pytest.MonkeyPatch,
    thread_errors: list[BaseException | None],
) -> None:
    def fail(*args: object) -> None:
        raise KeyError("a mistake")

    monkeypatch.setattr("app.downloads.download.read_plan", fail)
    hub.add("org/tiny", FILES)
    queue = open_queue()
    queue.add(Request("org/tiny"))
    assert queue.wait_idle(PATIENCE_SECONDS)
    assert only(queue).state is State.FAILED
    assert "error in this program" in only(queue).message
    assert [type(each) for each in thread_errors] == [KeyError]


@pytest.mark.parametrize(
    "damage",
    [
        b"{",
        b"[]",
        b'{"version": 9, "downloads": [1]}',
        b'{"version": 1, "downloads": [{}]}',
        b"[" * 100_000,
        b"\xff",
    ],
)
def test_a_journal_that_is_damaged_counts_as_empty(open_queue: OpenQueue, journal: Path, damage: bytes) -> None:
    journal.parent.mkdir()
    journal.write_bytes(damage)
    queue = open_queue()
    queue.restore()
    assert queue.snapshot() == ()


@pytest.mark.parametrize(("field", "value"), [("name", "../../evil"), ("etag", "../evil"), ("bytes", -1)])
def test_a_journal_cannot_lead_out_of_the_cache(
    hub: Hub, open_queue: OpenQueue, journal: Path, field: str, value: object
) -> None:
    hold(hub, "org/tiny")
    first = open_queue()
    wait_until(first, first.add(Request("org/tiny")), 1000)
    first.close()
    stored = json.loads(journal.read_bytes())
    stored["downloads"][0]["plan"]["files"][0][field] = value
    journal.write_text(json.dumps(stored), encoding="utf-8")
    second = open_queue()
    second.restore()
    assert second.snapshot() == ()


def test_a_waiting_attempt_is_interrupted_too(hub: Hub, journal: Path, dependencies: Dependencies) -> None:
    hub.add("org/tiny", FILES)
    hub.fail(SHARDS[0], status(429, retry_after="3000"))
    queue = DownloadQueue(Journal(journal), replace(dependencies, wait=Control.wait))
    number = queue.add(Request("org/tiny"))
    wait_for(lambda: only(queue).state is State.WAITING)
    assert (only(queue).seconds_to_retry or 0) > 2000
    queue.pause(number)
    assert queue.wait_idle(PATIENCE_SECONDS)
    assert only(queue).state is State.PAUSED
