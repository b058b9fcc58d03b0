"""Downloads through a hub that fails: at the end every byte is right, and none was fetched twice without need."""

import logging
import random
from dataclasses import replace
from pathlib import Path

import pytest

from app.downloads.dependencies import Dependencies
from app.downloads.progress import State
from app.downloads.transfer import DamagedError, UnreachableError
from app.hub.names import INDEX
from tests.app.downloads.conftest import Start, Waits
from tests.app.downloads.models import FILES, REPO, SHARDS, WEIGHTS, body_bytes, contents, put_up
from tests.campaigns.extent import choose
from tests.hub import Hub, corrupt, drop, no_range, redirect, slow, stall, status, wrong_length

SIZE = len(WEIGHTS)
DROPS = choose(25, 100)  # of each large file


def incomplete(folder: Path) -> dict[str, bytes]:
    """The partial files below a folder."""
    return {name: content for name, content in contents(folder).items() if name.endswith(".incomplete")}


def test_connections_dropped_at_random_points_cost_not_one_byte(
    hub: Hub, start: Start, cache: Path, waits: Waits
) -> None:
    repo, points = put_up(hub), random.Random(5)
    for _ in range(DROPS):
        for shard in SHARDS:
            hub.fail(shard, drop(after=points.choice((0, 1, points.randrange(4000)))))
    download = start()
    download.run()
    assert download.progress.state is State.DONE
    assert contents(cache / "snapshots" / repo.commit) == FILES
    assert not incomplete(cache)
    assert len(waits.seconds) == DROPS * len(SHARDS)
    for shard in SHARDS:
        assert body_bytes(hub, shard) == SIZE
        requests = hub.asked(shard)
        assert [each.first_byte for each in requests] == [
            sum(earlier.sent_bytes for earlier in requests[:number]) for number in range(len(requests))
        ]


def test_a_slow_connection_is_not_a_stalled_one(hub: Hub, start: Start, waits: Waits) -> None:
    put_up(hub)
    hub.fail(SHARDS[0], slow(piece_bytes=10_000, pause_seconds=0.01))
    download = start()
    download.run()
    assert download.progress.state is State.DONE
    assert not waits.seconds


def test_a_stall_is_shown_as_one_and_answered_at_once(hub: Hub, start: Start, waits: Waits) -> None:
    put_up(hub)
    hub.fail(SHARDS[0], stall(after=12_345))
    hub.fail(SHARDS[0], stall(after=0))
    download = start()
    download.run()
    assert download.progress.state is State.DONE
    assert waits.states == [State.STALLED, State.STALLED]
    assert waits.seconds == [0.0, 2.0]
    assert waits.said[0].message == "the connection has stalled"
    assert [each.first_byte for each in hub.asked(SHARDS[0])] == [0, 12_345, 12_345]


@pytest.mark.parametrize("address", [f"/api/models/{REPO}/revision/main", "tokenizer.json", SHARDS[1]])
def test_an_overloaded_hub_is_given_the_time_it_asks_for(hub: Hub, start: Start, waits: Waits, address: str) -> None:
    put_up(hub)
    hub.fail(address, status(429, retry_after="17"))
    hub.fail(address, status(503))
    hub.fail(address, status(500))
    hub.fail(address, status(502, retry_after="1"))
    download = start()
    download.run()
    assert download.progress.state is State.DONE
    assert waits.seconds == [17.0, 2.0, 4.0, 8.0]
    assert set(waits.states) == {State.WAITING}
    assert waits.said[0].message == "the hub is overloaded (429)"
    assert waits.said[0].seconds_to_retry == pytest.approx(17.0, abs=1)


@pytest.mark.parametrize("error", [1, 1000, -1, -1000, -(SIZE - 1)])
def test_a_wrong_content_length_is_no_matter(hub: Hub, start: Start, cache: Path, error: int) -> None:
    repo = put_up(hub)
    hub.fail(SHARDS[0], wrong_length(by=error))
    download = start()
    download.run()
    assert download.progress.state is State.DONE
    assert contents(cache / "snapshots" / repo.commit) == FILES


def test_a_server_that_ignores_the_range_begins_that_file_again(
    hub: Hub, start: Start, cache: Path, waits: Waits
) -> None:
    repo = put_up(hub)
    hub.fail(SHARDS[0], drop(after=100_000))
    hub.fail(SHARDS[0], no_range())
    download = start()
    download.run()
    assert download.progress.state is State.DONE
    assert contents(cache / "snapshots" / repo.commit) == FILES
    assert download.progress.bytes_done == download.progress.bytes_total
    assert body_bytes(hub, SHARDS[0]) == 100_000 + SIZE
    assert body_bytes(hub, SHARDS[1]) == SIZE


def test_a_server_that_never_gets_further_is_given_up(hub: Hub, start: Start, cache: Path) -> None:
    """Bytes that had been there before are no progress: else this would go on for ever."""
    put_up(hub)
    plan = [drop(after=1000)] + [replace(no_range(), drop_after=1000)] * 20
    for fault in plan:
        hub.fail(SHARDS[0], fault)
    download = start()
    download.run()
    assert isinstance(download.progress.error, UnreachableError)


def test_a_file_that_arrived_damaged_is_fetched_again_and_no_other(hub: Hub, start: Start, cache: Path) -> None:
    repo = put_up(hub)
    for name in (SHARDS[0], "tokenizer.json"):
        hub.fail(name, corrupt(at=5000))
    download = start()
    download.run()
    assert download.progress.state is State.DONE
    assert contents(cache / "snapshots" / repo.commit) == FILES
    assert {name: len(hub.asked(name)) for name in FILES} == dict.fromkeys(FILES, 1) | {
        SHARDS[0]: 2,
        "tokenizer.json": 2,
        INDEX: 2,  # also before all others, for the names of the shards
    }


def test_a_file_that_arrives_damaged_twice_is_an_error_and_never_part_of_the_model(
    hub: Hub, start: Start, cache: Path
) -> None:
    repo = put_up(hub)
    hub.fail(SHARDS[1], corrupt(at=SIZE - 1), times=2)
    download = start()
    download.run()
    assert download.progress.state is State.FAILED
    assert isinstance(download.progress.error, DamagedError)
    assert SHARDS[1] in download.progress.message
    assert not incomplete(cache)
    assert SHARDS[1] not in contents(cache / "snapshots" / repo.commit)
    assert not (cache / "refs").exists()
    start().run()
    assert contents(cache / "snapshots" / repo.commit) == FILES
    assert len(hub.asked(SHARDS[0])) == 1


def test_a_partial_file_that_is_not_a_beginning_is_found_out(hub: Hub, start: Start, cache: Path) -> None:
    repo = put_up(hub)
    (cache / "blobs").mkdir(parents=True)
    (cache / "blobs" / f"{repo.etag(SHARDS[0])}.incomplete").write_bytes(b"\0" * 1000)
    (cache / "blobs" / f"{repo.etag(SHARDS[1])}.incomplete").write_bytes(b"\0" * (SIZE + 1000))
    download = start()
    download.run()
    assert contents(cache / "snapshots" / repo.commit) == FILES
    assert [each.first_byte for each in hub.asked(SHARDS[0])] == [1000, 0]
    assert [each.first_byte for each in hub.asked(SHARDS[1])] == [0]
    assert not incomplete(cache)


def test_who_gives_up_keeps_what_has_arrived(hub: Hub, start: Start, cache: Path, waits: Waits) -> None:
    repo = put_up(hub)
    hub.fail(SHARDS[0], drop(after=70_000))
    hub.fail(SHARDS[0], status(503), times=8, server="cdn")
    download = start()
    download.run()
    assert download.progress.state is State.FAILED
    assert download.progress.message == "The hub's storage answered with an error (503), 8 times in a row."
    assert waits.seconds == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0]
    assert incomplete(cache) == {f"blobs/{repo.etag(SHARDS[0])}.incomplete": WEIGHTS[:70_000]}
    start().run()
    assert contents(cache / "snapshots" / repo.commit) == FILES
    assert body_bytes(hub, SHARDS[0]) == SIZE


def test_an_address_of_the_storage_that_has_expired_is_asked_for_again(hub: Hub, start: Start) -> None:
    put_up(hub)
    hub.fail(SHARDS[0], status(403), server="cdn")
    download = start()
    download.run()
    assert download.progress.state is State.DONE
    assert [each.server for each in hub.requests if each.path.endswith(SHARDS[0])] == ["hub", "cdn"] * 2


def test_the_token_goes_to_the_hub_alone_and_into_no_log(
    hub: Hub, start: Start, dependencies: Dependencies, caplog: pytest.LogCaptureFixture
) -> None:
    token = hub.issue_token("hf_verysecret")
    put_up(hub, gated="manual", access={token: "accepted"})
    hub.fail("config.json", redirect(f"{hub.cdn}/somewhere/else/config.json"), server="hub")
    hub.fail("tokenizer.json", drop(after=10))
    hub.fail(SHARDS[0], status(503))
    with caplog.at_level(logging.DEBUG):
        download = start(using=replace(dependencies, token=lambda: token))
        download.run()
    assert download.progress.state is State.DONE
    assert {each.token for each in hub.requests if each.server == "cdn"} == {""}
    assert {each.token for each in hub.requests if each.server == "hub"} == {token}
    assert all("cookie" not in each.headers for each in hub.requests)
    assert token not in caplog.text
    assert "signature" not in caplog.text


def test_a_redirect_back_to_the_hub_does_not_get_the_token_again(
    hub: Hub, start: Start, dependencies: Dependencies
) -> None:
    token = hub.issue_token("hf_verysecret")
    put_up(hub)
    hub.fail(SHARDS[0], redirect(f"{hub.endpoint}/{REPO}/resolve/main/{SHARDS[0]}"), server="cdn")
    start(using=replace(dependencies, token=lambda: token)).run()
    shard = [(each.server, bool(each.token)) for each in hub.requests if each.path.endswith(SHARDS[0])]
    assert shard == [("hub", True), ("cdn", False), ("hub", False), ("cdn", False)]


@pytest.mark.parametrize("target", ["ftp://127.0.0.1/config.json", "file:///etc/passwd", "javascript:0", ""])
def test_an_address_that_is_not_safe_ends_it(hub: Hub, start: Start, target: str) -> None:
    put_up(hub)
    hub.fail("config.json", redirect(target), times=9)
    download = start()
    download.run()
    assert download.progress.state is State.FAILED
    assert "sends us" in download.progress.message


def test_a_hub_that_cannot_be_reached_says_so(hub: Hub, start: Start, waits: Waits) -> None:
    hub.close()
    download = start()
    download.run()
    assert download.progress.state is State.FAILED
    assert download.progress.message.startswith("The hub cannot be reached (")
    assert "Errno" not in download.progress.message
    assert waits.seconds == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0]
