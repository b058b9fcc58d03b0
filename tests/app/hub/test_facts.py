"""Facts: fetched without weights, kept whole or not at all, understood by the engine; hostile ones in a sentence."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from app.hub import facts as facts_module
from app.hub.client import HubClient
from app.hub.facts import RemoteModel, fetch_facts, prune_facts, read_facts
from app.hub.failures import HubError, Reason
from app.system.background import Stop
from engine.errors import Cancelled
from tests.app.hub.repositories import REST, safetensors, shapes, sharded, tiny
from tests.hub import Hub, drop, no_range, status

WEIGHTS = safetensors(shapes(range(2)) | REST)


def test_the_head_of_a_file_is_all_that_is_fetched_of_it(
    hub: Hub, client: HubClient, stop: Stop, tmp_path: Path
) -> None:
    large = safetensors({**shapes(range(2)), **REST, "model.extra.weight": [4096, 1024]})
    repo = hub.add("org/tiny", tiny() | {"model.safetensors": large})
    facts = fetch_facts(client, "org/tiny", tmp_path, stop)
    assert (facts.repo, facts.revision) == ("org/tiny", repo.commit)
    assert facts.weight_bytes == len(large) > 8 << 20
    assert sum(request.sent_bytes for request in hub.requests) < 200_000
    assert dict(facts.tokenizer_files) == {
        "tokenizer.json": repo.etag("tokenizer.json"), "tokenizer_config.json": repo.etag("tokenizer_config.json")
    }  # fmt: skip


@pytest.mark.parametrize("files", [tiny(), sharded(), tiny(padding=300_000)], ids=["single", "sharded", "long table"])
def test_the_engine_prices_facts_as_it_prices_the_model(
    files: dict[str, bytes], hub: Hub, client: HubClient, stop: Stop, tmp_path: Path
) -> None:
    from engine.loading.estimate import Estimator
    from engine.protocol.messages import Appraise
    from engine.protocol.options import LoadOptions

    hub.add("org/tiny", files)
    facts = fetch_facts(client, "org/tiny", tmp_path, stop)
    (tmp_path / "whole").mkdir()
    for name, content in files.items():
        (tmp_path / "whole" / name).write_bytes(content)
    estimator = Estimator(loaded=False)
    told, known = (
        estimator.estimate(Appraise(1, LoadOptions(str(folder), "none")))
        for folder in (facts.folder, tmp_path / "whole")
    )
    assert told.verdict == "device"
    assert told == known


def test_who_asks_at_the_same_time_does_not_take_away_what_another_was_told_of(
    hub: Hub, client: HubClient, stop: Stop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One has fetched everything and is about to keep it when another, who began later, is ready."""
    hub.add("org/tiny", tiny())
    write, told = facts_module._write_facts, []

    def overtaken(model: RemoteModel, folder: Path) -> None:
        write(model, folder)
        monkeypatch.setattr(facts_module, "_write_facts", write)
        found = fetch_facts(client, "org/tiny", tmp_path, stop)
        told.append((found, found.folder.stat().st_ino))

    monkeypatch.setattr(facts_module, "_write_facts", overtaken)
    facts = fetch_facts(client, "org/tiny", tmp_path, stop)
    assert [(facts, facts.folder.stat().st_ino)] == told
    assert [path.name for path in (tmp_path / "facts").iterdir()] == [facts.folder.name]


def test_what_says_how_weights_are_packed_is_a_fact(hub: Hub, client: HubClient, stop: Stop, tmp_path: Path) -> None:
    said = b'{"quantization": {"quant_algo": "NVFP4"}}'
    hub.add("org/tiny", tiny() | {"hf_quant_config.json": said})
    assert (fetch_facts(client, "org/tiny", tmp_path, stop).folder / "hf_quant_config.json").read_bytes() == said


def test_facts_that_are_there_are_not_fetched_again(hub: Hub, client: HubClient, stop: Stop, tmp_path: Path) -> None:
    hub.add("org/tiny", tiny())
    facts = fetch_facts(client, "org/tiny", tmp_path, stop)
    hub.requests.clear()
    assert fetch_facts(client, "org/tiny", tmp_path, stop, facts.revision) == facts
    assert hub.requests == []
    assert fetch_facts(client, "org/tiny", tmp_path, stop) == facts
    assert len(hub.requests) == 1, "which commit is the newest"
    (facts.folder / "facts.json").write_text("{")
    assert read_facts(facts.folder) is None
    assert fetch_facts(client, "org/tiny", tmp_path, stop) == facts


def test_a_server_that_ignores_ranges_is_not_read_to_the_end(
    hub: Hub, client: HubClient, stop: Stop, tmp_path: Path
) -> None:
    large = safetensors({**shapes(range(2)), **REST, "model.extra.weight": [8192, 4096]})
    hub.add("org/tiny", tiny() | {"model.safetensors": large})
    hub.fail("model.safetensors", no_range())
    assert fetch_facts(client, "org/tiny", tmp_path, stop).weight_bytes == len(large)
    assert next(request.sent_bytes for request in hub.requests if request.server == "cdn") < len(large) // 2


def bomb(depth: int) -> bytes:
    return b'{"model_type": "llama", "x": ' + b"[" * depth + b"]" * depth + b"}"


def index(**weight_map: Any) -> bytes:
    return json.dumps({"weight_map": weight_map}).encode()


HOSTILE: dict[str, tuple[dict[str, bytes], str]] = {
    "no config": ({"model.safetensors": WEIGHTS}, "no config.json"),
    "nesting bomb": (tiny() | {"config.json": bomb(200_000)}, "nested too deeply|mostly of brackets"),
    "brackets": (tiny() | {"config.json": b"{" + b'"a":[[],[]],' * 300_000 + b"}"}, "brackets"),
    "no JSON": (tiny() | {"config.json": b"\xff\xfe"}, "damaged"),
    "a list": (tiny() | {"config.json": b"[]"}, "no JSON object"),
    "long number": (tiny() | {"config.json": b'{"a": ' + b"9" * 10_000 + b"}"}, "damaged"),
    "no weights": ({"config.json": b"{}", "pytorch_model.bin": b"x"}, "safetensors format"),
    "short weights": (tiny() | {"model.safetensors": b"1234"}, "does not begin"),
    "empty weights": (tiny() | {"model.safetensors": b""}, "shorter than such a file"),
    "lying table": (tiny() | {"model.safetensors": (1 << 40).to_bytes(8, "little") + b"{}"}, "does not begin"),
    "table too long": (tiny() | {"model.safetensors": (100).to_bytes(8, "little") + b"{}"}, "does not begin"),
    "index upwards": (sharded() | {"model.safetensors.index.json": index(a="../../x.safetensors")}, "outside"),
    "absolute index": (sharded() | {"model.safetensors.index.json": index(a="/etc/x.safetensors")}, "outside"),
    "drive index": (sharded() | {"model.safetensors.index.json": index(a="C:x.safetensors")}, "outside"),
    "pickle index": (sharded() | {"model.safetensors.index.json": index(a="model.bin")}, "another format"),
    "numbers": (sharded() | {"model.safetensors.index.json": index(a=7, b=["x"])}, "outside"),
    "missing shard": (sharded() | {"model.safetensors.index.json": index(a="y.safetensors")}, "is missing"),
    "no map": (sharded() | {"model.safetensors.index.json": b"{}"}, "damaged"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_model_is_one_sentence_and_leaves_nothing(
    case: str, hub: Hub, client: HubClient, stop: Stop, tmp_path: Path
) -> None:
    files, said = HOSTILE[case]
    hub.add("org/bad", files)
    with pytest.raises(HubError, match=said) as caught:
        fetch_facts(client, "org/bad", tmp_path / "cache", stop)
    assert "\n" not in caught.value.message
    assert len(caught.value.message) < 300
    assert list((tmp_path / "cache").rglob("*.*")) == []


def test_a_huge_config_is_not_read(hub: Hub, client: HubClient, stop: Stop, tmp_path: Path) -> None:
    hub.add("org/announced", tiny(), announced={"config.json": 1 << 30})
    with pytest.raises(HubError, match="larger than 4 MB"):
        fetch_facts(client, "org/announced", tmp_path, stop)
    hub.add("org/hidden", tiny() | {"config.json": b" " * (64 << 20)}, announced={"config.json": 100})
    with pytest.raises(HubError, match="larger than 4 MB"):
        fetch_facts(client, "org/hidden", tmp_path, stop)
    assert not [request for request in hub.requests if request.sent_bytes > 32 << 20]


def test_names_that_lead_elsewhere_are_not_files_of_the_model(
    hub: Hub, client: HubClient, stop: Stop, tmp_path: Path
) -> None:
    evil = {"../../outside.json": b"x", "/etc/passwd": b"x", "a\\b.json": b"x", "tokenizer.json\n": b"x"}
    hub.add("org/tiny", tiny() | evil)
    facts = fetch_facts(client, "org/tiny", tmp_path / "cache", stop)
    assert {path.name for path in facts.folder.iterdir()} == {"facts.json", "config.json", "model.safetensors"}
    assert [path.name for path in tmp_path.iterdir() if path.name != "hf"] == ["cache"]


@pytest.mark.parametrize("fault", [drop(after=50), status(503)])
def test_a_broken_transfer_leaves_nothing_and_can_be_repeated(
    fault: Any, hub: Hub, client: HubClient, stop: Stop, tmp_path: Path
) -> None:
    hub.add("org/tiny", sharded())
    hub.fail("model-00002-of-00003.safetensors", fault)
    with pytest.raises(HubError) as caught:
        fetch_facts(client, "org/tiny", tmp_path / "cache", stop)
    assert caught.value.reason in (Reason.OFFLINE, Reason.BUSY)
    assert list((tmp_path / "cache").rglob("*.*")) == []
    assert fetch_facts(client, "org/tiny", tmp_path / "cache", stop).weight_bytes > 0


def test_stopping_leaves_nothing(hub: Hub, client: HubClient, tmp_path: Path) -> None:
    hub.add("org/tiny", sharded())

    class StopAfter(Stop):
        checks = 0

        def check(self) -> None:
            self.checks += 1
            if self.checks == 12:
                self.ask()
            super().check()

    with pytest.raises(Cancelled):
        fetch_facts(client, "org/tiny", tmp_path / "cache", StopAfter())
    assert list((tmp_path / "cache").rglob("*.*")) == []


@pytest.mark.parametrize("name", ["tiny", "org/../x", "org/", "/x", "org/x\n", "a/b/c", ""])
def test_what_is_no_name_is_not_asked_for(name: str, hub: Hub, client: HubClient, stop: Stop, tmp_path: Path) -> None:
    with pytest.raises(HubError, match="no name of a model"):
        fetch_facts(client, name, tmp_path, stop)
    assert hub.requests == []


def test_only_the_newest_facts_are_kept(hub: Hub, client: HubClient, stop: Stop, tmp_path: Path) -> None:
    folders = []
    for number in range(5):
        hub.add(f"org/tiny-{number}", tiny())
        folders.append(fetch_facts(client, f"org/tiny-{number}", tmp_path, stop).folder)
        os.utime(folders[-1], (number, number))
    prune_facts(tmp_path, most=2)
    assert [folder.exists() for folder in folders] == [False, False, False, True, True]
    prune_facts(tmp_path, most_bytes=sum(path.stat().st_size for path in folders[4].iterdir()))
    assert [folder.exists() for folder in folders] == [False, False, False, False, True]
    prune_facts(tmp_path / "nothing")
