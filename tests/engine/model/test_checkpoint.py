"""A model folder is opened when it is whole, and refused with one sentence when it is not."""

import errno
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open

from engine.errors import ModelError
from engine.model.checkpoint import open_checkpoint
from engine.model.model_folder import ModelRole
from engine.model.streamable_network import build_streamable
from tests.engine.model import broken_folders as make
from tests.links import make_link


def message_of(source: str | Path) -> str:
    """The error for a source that cannot be opened, one line that also says what to do."""
    with pytest.raises(ModelError) as caught:
        open_checkpoint(str(source))
    message = str(caught.value)
    assert caught.value.hint
    assert message.isprintable()
    assert len(message) < 1000
    return message


@pytest.mark.parametrize("role", ["target", "draft"])
def test_the_embedded_pair_opens_as_safetensors_reads_it(role: ModelRole) -> None:
    checkpoint = open_checkpoint("embedded", role=role)
    assert (checkpoint.source, checkpoint.name) == ("embedded", f"demo-{role}")
    assert checkpoint.config["model_type"] == "llama"
    assert checkpoint.shards == (checkpoint.folder / make.SINGLE,)
    content = checkpoint.shards[0].read_bytes()
    with safe_open(checkpoint.shards[0], framework="pt") as reference:
        assert set(checkpoint.tensors) == set(reference.keys())
        for name, tensor in checkpoint.tensors.items():
            numbers = reference.get_tensor(name)
            assert (tensor.dtype, tensor.shape) == ("BF16", tuple(numbers.shape))
            assert content[tensor.begin : tensor.end] == numbers.flatten().view(torch.uint8).numpy().tobytes()
    assert checkpoint.bytes == checkpoint.parameters * 2


def test_a_folder_opens_by_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make.whole_folder(tmp_path / "my model")
    monkeypatch.chdir(tmp_path / "my model")
    for source in (str(tmp_path / "my model"), ".", "../my model"):
        checkpoint = open_checkpoint(source)
        assert checkpoint.name == "my model"
        assert checkpoint.source == source


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="names are text there")
def test_a_folder_whose_name_is_no_text_has_one_that_clients_can_be_told(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"my\xffmodel")
    make.whole_folder(folder)
    checkpoint = open_checkpoint(str(folder))
    assert checkpoint.name.encode() == b"my?model"
    assert checkpoint.source == str(folder)
    for source in (
        folder.with_name("my\ufffdmodel"),
        os.fsdecode(b"/nowhere/\xff"),
    ):  # as Qt hands it on, and not there
        assert "no UTF-8 text" in message_of(source)


def test_shards_open_through_their_index(tmp_path: Path) -> None:
    folder = make.sharded_folder(tmp_path / "sharded")
    checkpoint = open_checkpoint(str(folder))
    assert [shard.name for shard in checkpoint.shards] == list(make.SHARDS)
    assert {name: (t.dtype, t.shape, t.shard.name) for name, t in checkpoint.tensors.items()} == {
        "a": ("F32", (2, 3), make.SHARDS[0]),
        "b": ("BF16", (4,), make.SHARDS[1]),
    }
    assert (checkpoint.parameters, checkpoint.bytes) == (10, 32)


def test_the_index_says_which_of_two_equal_names_counts(tmp_path: Path) -> None:
    folder = make.sharded_folder(tmp_path / "sharded")
    make.write_safetensors(folder / make.SHARDS[1], {"a": ("U8", [1]), "b": ("BF16", [4])})
    assert open_checkpoint(str(folder)).tensors["a"].shard.name == make.SHARDS[0]


def test_a_single_file_comes_before_an_index(tmp_path: Path) -> None:
    folder = make.sharded_folder(tmp_path / "both")
    make.write_safetensors(folder / make.SINGLE, {"only": ("F64", [])})
    checkpoint = open_checkpoint(str(folder))
    assert [shard.name for shard in checkpoint.shards] == [make.SINGLE]
    assert (checkpoint.parameters, checkpoint.bytes) == (1, 8)


def test_links_within_the_folder_are_followed(tmp_path: Path) -> None:
    folder = make.sharded_folder(tmp_path / "linked")
    (folder / "weights").mkdir()
    (folder / make.SHARDS[0]).rename(folder / "weights" / "first")
    make_link(folder / make.SHARDS[0], Path("weights") / "first")
    assert open_checkpoint(str(folder)).parameters == 10


@pytest.mark.parametrize("name", make.BREAKERS)
def test_a_broken_folder_is_refused_in_a_sentence(name: str, tmp_path: Path) -> None:
    breaker, words = make.BREAKERS[name]
    folder = make.whole_folder(tmp_path / "model")
    breaker(folder)
    message = message_of(folder)
    assert words in message
    assert str(folder) in message


@pytest.mark.parametrize("name", make.INDEX_BREAKERS)
def test_a_broken_index_is_refused_in_a_sentence(name: str, tmp_path: Path) -> None:
    breaker, words = make.INDEX_BREAKERS[name]
    folder = make.sharded_folder(tmp_path / "model")
    breaker(folder)
    message = message_of(folder)
    assert words in message
    assert str(folder) in message


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("", "No model is given"),
        ("/nowhere/at/all", "no model folder '/nowhere/at/all'"),
        ("nobody/nothing", "no downloaded model of that name"),
        ("../up/there", "no model folder"),
        ("a\0b\nc", "no model folder"),
        ("x" * 100_000, "cannot be used"),
        ("~nobody-of-that-name/model", "cannot be used"),
        (__file__, "is a file"),
    ],
)
def test_a_source_that_leads_nowhere_is_refused(source: str, words: str) -> None:
    assert words in message_of(source)


@pytest.mark.parametrize("name", ["config.json", make.INDEX, make.SHARDS[1]])
def test_a_file_that_may_not_be_read_is_refused(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make.sharded_folder(tmp_path / "locked")
    open_file, open_path = os.open, Path.open

    def require_other(path: str | Path) -> None:
        if Path(path).name == name:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))

    def opened(path: str | Path, *args: Any, **kwargs: Any) -> int:
        require_other(path)
        return open_file(path, *args, **kwargs)

    def opened_path(path: Path, *args: Any, **kwargs: Any) -> Any:
        require_other(path)
        return open_path(path, *args, **kwargs)

    monkeypatch.setattr(os, "open", opened)
    monkeypatch.setattr(Path, "open", opened_path)
    assert f"{folder / name} cannot be read: permission denied" in message_of(folder)


def test_a_hostile_name_is_quoted_short_and_printable(tmp_path: Path) -> None:
    folder = make.sharded_folder(tmp_path / "model")
    name = "\x1b[31m\n\u202e\ud800" + "x" * 1_000_000
    make.edit_json(folder / make.INDEX, weight_map={name: make.SHARDS[0]})
    message_of(folder)


def test_a_config_that_disagrees_with_the_tensors_is_refused_when_the_network_is_built(tmp_path: Path) -> None:
    folder = make.whole_folder(tmp_path / "model")
    make.with_disagreeing_config(folder)
    checkpoint = open_checkpoint(str(folder))
    with pytest.raises(ModelError, match="mlp"):
        build_streamable(checkpoint, torch.float32, torch.device("cpu"))


def hub_model(cache: Path) -> Path:
    """A model in the layout of the hub cache, a snapshot of links to blobs; returns the snapshot."""
    repository = cache / "models--some-org--a.model"
    snapshot = repository / "snapshots" / ("0" * 40)
    repository.mkdir(parents=True)
    make.sharded_folder(repository / "blobs")
    snapshot.mkdir(parents=True)
    for name in ("config.json", make.INDEX, *make.SHARDS):
        make_link(snapshot / name, Path("..", "..", "blobs", name))
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("0" * 40)
    return snapshot


def open_in_new_process(environment: dict[str, str]) -> str:
    """What a fresh process says of the hub model: the cache's place is read when the hub client is imported."""
    code = "from engine.model.checkpoint import open_checkpoint; print(open_checkpoint('some-org/a.model').folder)"
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    completed = subprocess.run(
        [sys.executable, "-c", code],
        env=inherited | environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return completed.stdout.strip()


def test_a_hub_id_opens_from_the_cache_that_the_environment_names(tmp_path: Path) -> None:
    at_home, elsewhere = hub_model(tmp_path / "home" / "hub"), hub_model(tmp_path / "elsewhere")
    assert open_in_new_process({"HF_HOME": str(tmp_path / "home")}) == str(at_home)
    both = {"HF_HOME": str(tmp_path / "home"), "HF_HUB_CACHE": str(tmp_path / "elsewhere")}
    assert open_in_new_process(both) == str(elsewhere)


def test_a_hub_snapshot_is_called_by_its_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = hub_model(tmp_path)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    by_id, by_folder = open_checkpoint("some-org/a.model"), open_checkpoint(str(snapshot))
    assert by_id.name == by_folder.name == "some-org/a.model"
    assert by_id.folder == by_folder.folder == snapshot
    assert by_id.parameters == 10


def test_a_hub_snapshot_may_not_link_out_of_its_repository(tmp_path: Path) -> None:
    snapshot = hub_model(tmp_path / "cache")
    other = make.sharded_folder(tmp_path / "cache" / "models--some-org--other")
    (snapshot / make.SHARDS[0]).unlink()
    make_link(snapshot / make.SHARDS[0], other / make.SHARDS[0])
    assert "leads out of its folder" in message_of(snapshot)


def test_a_folder_of_that_name_comes_before_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub_model(tmp_path / "cache")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "some-org").mkdir()
    make.whole_folder(tmp_path / "some-org" / "a.model")
    assert open_checkpoint("some-org/a.model").name == "a.model"


def test_opening_loads_neither_torch_nor_the_hub_client() -> None:
    code = (
        "import sys; from engine.model.checkpoint import open_checkpoint; open_checkpoint('embedded');"
        "print([name for name in ('torch', 'transformers', 'huggingface_hub') if name in sys.modules])"
    )
    completed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert completed.stdout.strip() == "[]"
