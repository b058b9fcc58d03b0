"""The small parts of downloads, each alone: names, waits, speeds, and what servers ask for."""

import pytest

from app.downloads.dependencies import LONGEST_RETRY_AFTER_SECONDS, RetryPolicy
from app.downloads.progress import Progress, Request, Speedometer, State
from app.hub.failures import retry_after_seconds
from app.hub.names import choose, is_repo_id, is_revision, is_writable, leads_out


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_waits_double_up_to_a_limit_and_half_of_each_is_chance() -> None:
    longest = RetryPolicy(first_seconds=1, longest_seconds=60, random=lambda: 1.0)
    shortest = RetryPolicy(first_seconds=1, longest_seconds=60, random=lambda: 0.0)
    assert [longest.seconds(failures) for failures in range(1, 9)] == [1, 2, 4, 8, 16, 32, 60, 60]
    assert [shortest.seconds(failures) for failures in (1, 2, 8, 500)] == [0.5, 1, 30, 30]
    assert [longest.gives_up(failures) for failures in (7, 8)] == [False, True]


def test_a_longer_wait_is_granted_within_reason() -> None:
    policy = RetryPolicy(random=lambda: 1.0)
    assert policy.seconds(1, retry_after=120) == 120
    assert policy.seconds(6, retry_after=3) == 32
    assert policy.seconds(1, retry_after=1e9) == LONGEST_RETRY_AFTER_SECONDS


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, 0.0),
        ({"Retry-After": "7"}, 7.0),
        ({"Retry-After": "Thu, 01 Jan 1970 00:01:40 GMT"}, 90.0),
        ({"Retry-After": "Thu, 01 Jan 1970 00:00:01 GMT"}, 0.0),
        ({"Retry-After": "soon"}, 0.0),
        ({"Retry-After": "-5"}, 0.0),
        ({"RateLimit": '"api";r=0;t=55'}, 55.0),
        ({"RateLimit": '"api";r=499;t=55'}, 0.0),
    ],
)
def test_what_a_server_asks_for(headers: dict[str, str], seconds: float) -> None:
    assert retry_after_seconds(headers, now=10.0) == seconds


def test_speed_settles_on_what_arrives_and_falls_when_nothing_does() -> None:
    clock = Clock()
    speed = Speedometer(clock)
    assert speed.bytes_per_second == 0.0
    for _ in range(300):
        clock.now += 0.1
        speed.add(100_000)
    assert speed.bytes_per_second == pytest.approx(1_000_000, rel=0.01)
    clock.now += 0.05
    assert speed.bytes_per_second == pytest.approx(1_000_000, rel=0.3)
    clock.now += 5
    halved = speed.bytes_per_second
    clock.now += 30
    assert speed.bytes_per_second < 0.01 * halved < 10_000
    speed.reset()
    assert speed.bytes_per_second == 0.0


def test_one_burst_does_not_pass_for_a_speed() -> None:
    clock = Clock()
    speed = Speedometer(clock)
    for _ in range(100):
        clock.now += 0.3
        speed.add(30_000)
    clock.now += 0.3
    speed.add(10_000_000)
    assert speed.bytes_per_second < 3_000_000


@pytest.mark.parametrize("name", ["config.json", "model-00001-of-00002.safetensors", "a b.json", "ä.json", ".hidden"])
def test_plain_names_can_be_written(name: str) -> None:
    assert is_writable(name)
    assert not leads_out(name)


@pytest.mark.parametrize(
    "name", ["", "a/b", "NUL", "com1.json", "con.tar.gz", "dot.", "space ", "a:b", "a*", "a|b", "é" * 201]
)
def test_other_names_cannot(name: str) -> None:
    assert not is_writable(name)


@pytest.mark.parametrize("name", ["a/b.json", "docs/aux.md", "..a/b", "a..json"])
def test_a_name_below_does_not_lead_out(name: str) -> None:
    assert not leads_out(name)


def test_names_of_models_and_revisions() -> None:
    assert all(map(is_repo_id, ["Qwen/Qwen3-0.6B", "a/b", "_x/y.z"]))
    assert not any(map(is_repo_id, ["a", "a/b/c", "a/..", "../a", "a/.b", "a--b/c", "a b/c", "a/b\n", "ä/b", "", "/a"]))
    assert all(map(is_revision, ["main", "v1.0", "refs/pr/7", "0" * 40]))
    assert not any(map(is_revision, ["", "..", "a/../b", "/a", "a//b", "a\\b", "~a", "a/", ".", "a/./b", "con"]))


def test_weights_are_one_file_or_the_shards_of_an_index() -> None:
    shards = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    index = "model.safetensors.index.json"
    assert choose(["model.safetensors", *shards, index, "config.json"]) == ["config.json", "model.safetensors"]
    assert choose([*shards, index, "consolidated.safetensors"]) == [index, *shards]
    assert choose([*shards, index, "mtp.safetensors"], [*shards, "mtp.safetensors"]) == [
        index, *shards, "mtp.safetensors"
    ]  # fmt: skip
    assert choose(["b.safetensors", "a.safetensors", index]) == [index, "a.safetensors", "b.safetensors"]
    assert choose(["hf_quant_config.json", "model.safetensors"]) == ["hf_quant_config.json", "model.safetensors"]
    assert choose(shards) == []
    assert choose([index, "config.json", "onnx/model.safetensors"]) == []
    assert choose(
        ["model.safetensors", "train.py", "tokenizer.py", "pytorch_model.bin", "x.pt", "a.ckpt", "b.pkl"]
    ) == ["model.safetensors"]


def test_a_fraction_is_of_all_bytes() -> None:
    assert Progress(1, Request("a/b")).fraction == 0.0
    assert Progress(1, Request("a/b"), bytes_done=25, bytes_total=100).fraction == 0.25
    assert Progress(1, Request("a/b"), State.DONE).fraction == 1.0
