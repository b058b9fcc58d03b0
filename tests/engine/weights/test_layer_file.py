"""Layers in files: safetensors for everyone, aligned for direct reads, there whole or not at all."""

import errno
import hashlib
import os
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from engine.errors import ModelError
from engine.number_types import torch_types
from engine.weights.store import layer_file
from engine.weights.store.layer_file import ALIGNMENT, digest_of, read_layout, write_layer
from engine.weights.store.layout import PAGE
from tests.campaigns.extent import choose
from tests.engine.tensor_files import read_tensors
from tests.engine.weights.reading import assert_equal, read
from tests.links import make_link

SAMPLE = {
    "mlp.weight": torch.randn(48, 64).bfloat16(),
    "norm.weight": torch.randn(37),
    "codes": torch.arange(101, dtype=torch.uint8),
    "signed": torch.arange(-50, 50, dtype=torch.int8).view(10, 10),
    "scale": torch.tensor(3.5),
    "none": torch.empty(0, 7, dtype=torch.float16),
    "turned": torch.randn(6, 5).T,
}


@pytest.mark.parametrize("direct", [True, False])
def test_what_is_written_is_read_back(tmp_path: Path, direct: bool) -> None:
    write_layer(tmp_path / "layer", 7, SAMPLE, "nf4")
    layout = read_layout(tmp_path / "layer")
    assert (layout.index, layout.codec) == (7, "nf4")
    assert_equal(read(layout, direct), SAMPLE)


def test_anybody_can_read_the_file_as_safetensors(tmp_path: Path) -> None:
    write_layer(tmp_path / "layer", 0, SAMPLE)
    assert_equal(read_tensors(tmp_path / "layer"), SAMPLE)


def test_size_and_hash_are_those_of_the_file(tmp_path: Path) -> None:
    written = write_layer(tmp_path / "layer", 0, SAMPLE)
    content = (tmp_path / "layer").read_bytes()
    assert written.nbytes == len(content)
    assert written.digest == hashlib.sha256(content).hexdigest() == digest_of(tmp_path / "layer")


def test_the_same_tensors_make_the_same_file(tmp_path: Path) -> None:
    first = write_layer(tmp_path / "a", 0, SAMPLE)
    again = write_layer(tmp_path / "b", 0, dict(reversed(SAMPLE.items())))
    assert first.digest == again.digest


shapes = st.lists(st.integers(0, 20), max_size=3)
tensor_sets = st.dictionaries(
    st.text("abc.é", min_size=1, max_size=8), st.tuples(shapes, st.sampled_from(sorted(torch_types()))), max_size=12
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=choose(12, 60))
@given(tensor_sets)
def test_any_tensors_are_aligned_and_viewable(tmp_path: Path, chosen: dict[str, tuple[list[int], str]]) -> None:
    generator = torch.Generator().manual_seed(0)
    tensors = {}
    for name, (shape, kind) in chosen.items():
        dtype = torch_types()[kind]
        count = torch.Size(shape).numel() * dtype.itemsize
        values = torch.randint(0, 2, (count,), generator=generator).to(torch.uint8)
        tensors[name] = values.view(dtype).view(shape)
    write_layer(tmp_path / "layer", 0, tensors)
    layout = read_layout(tmp_path / "layer")
    (segment,) = layout.segments
    assert segment.offset % PAGE == 0
    assert layout.nbytes % PAGE == 0
    at = 0
    for entry in layout.tensors:
        assert entry.begin == at, "safetensors forbids gaps"
        at += entry.nbytes
        assert entry.begin % entry.dtype.itemsize == 0
        if entry.nbytes % ALIGNMENT == 0:
            assert entry.begin % ALIGNMENT == 0
    assert_equal(read(layout), tensors)


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = write_layer(tmp_path / "layer", 0, {"weight": torch.ones(5)})
    original = layer_file._pieces

    def full_disk(*args: Any) -> Any:
        yield from list(original(*args))[:2]
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(layer_file, "_pieces", full_disk)
    with pytest.raises(OSError, match="No space"):
        write_layer(tmp_path / "layer", 0, SAMPLE)
    assert [path.name for path in tmp_path.iterdir()] == ["layer"]
    assert digest_of(tmp_path / "layer") == old.digest


def test_everything_is_on_the_disk_before_the_file_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    happened: list[str] = []
    synchronise, rename = os.fsync, Path.replace

    def fsync(descriptor: int) -> None:
        happened.append("synchronised")
        synchronise(descriptor)

    def replace(self: Path, target: Path) -> Path:
        happened.append("named")
        return rename(self, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "replace", replace)
    write_layer(tmp_path / "layer", 0, SAMPLE)
    assert happened[:2] == ["synchronised", "named"]


def test_a_link_in_the_file_s_place_is_replaced_not_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("precious")
    make_link(tmp_path / "layer", elsewhere)
    write_layer(tmp_path / "layer", 0, SAMPLE)
    assert not (tmp_path / "layer").is_symlink()
    assert elsewhere.read_text() == "precious"


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[:-1],
        lambda content: content + b"\0",
        lambda content: content[:5],
        lambda content: b"",
        lambda content: b"\xff" * 8 + content[8:],
        lambda content: content.replace(b'"index":"0"', b'"index":"x"'),
        lambda content: content.replace(b'"codec"', b'"kodek"'),
    ],
)
def test_a_damaged_file_is_refused(tmp_path: Path, damage: Any) -> None:
    path = tmp_path / "layer"
    write_layer(path, 0, SAMPLE)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ModelError, match="no layer that was prepared"):
        read_layout(path)


class Failing(BytesIO):
    """A file whose disk fails behind the first page."""

    def read(self, size: int | None = -1, /) -> bytes:
        if self.tell() + (size or 0) > PAGE:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return super().read(size)


def test_a_disk_that_fails_in_the_table_is_an_error_before_anything_is_mapped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What cannot be read of a mapping is a signal, which ends the process."""
    path = tmp_path / "layer"
    write_layer(path, 0, {f"experts.{number}.weight": torch.zeros(8, 8) for number in range(100)})
    content = path.read_bytes()
    monkeypatch.setattr(Path, "open", lambda *_: Failing(content))
    monkeypatch.setattr(layer_file, "safe_open", lambda *_: pytest.fail("it is mapped"))
    with pytest.raises(ModelError, match="no layer that was prepared: Input/output error"):
        read_layout(path)


def test_safetensors_of_other_origin_are_refused(tmp_path: Path) -> None:
    save_file({"weight": torch.ones(3)}, tmp_path / "layer", {"index": "0", "codec": "plain"})
    with pytest.raises(ModelError, match="do not begin on a page"):
        read_layout(tmp_path / "layer")
    with pytest.raises(ModelError, match="No such file"):
        read_layout(tmp_path / "nothing")
