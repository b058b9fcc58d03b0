"""Layers read from a checkpoint's own files: the same bits as the converter gives, in whole pages."""

import itertools
import random
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from engine.model.checkpoint import open_checkpoint
from engine.model.layer_converter import open_layer_converter
from engine.weights.store.layout import PAGE, LayerLayout, StoredTensor, copied_layout, layout_of_shards, round_up
from engine.weights.streaming.binding import stored_views
from tests.engine.tiny_models import FAMILIES, save_tiny_model
from tests.engine.weights.reading import assert_equal, read
from tests.engine.weights.stand_in import StandInCopyStream
from tests.engine.weights.test_layer_stream import Streamed, assert_same, passes


@pytest.mark.parametrize("family", [name for name in FAMILIES if name not in ("mixtral", "qwen3_moe")])
def test_layers_are_read_from_the_checkpoint_s_own_shards(family: str, tmp_path: Path) -> None:
    save_tiny_model(family, tmp_path, dtype=torch.bfloat16, shard_size="60KB")
    converter = open_layer_converter(open_checkpoint(str(tmp_path)), torch.bfloat16)
    files = set()
    for index in range(len(converter)):
        places = converter.one_to_one(index)
        assert places is not None
        layout = layout_of_shards(index, places)
        assert layout is not None
        weights = dict(converter.weights(index))
        for direct in (True, False):
            assert_equal(read(layout, direct), weights)
        files |= {segment.path for segment in layout.segments}
        ends = [(segment.path, segment.offset, segment.offset + segment.nbytes) for segment in layout.segments]
        for segment in layout.segments:
            assert segment.offset % PAGE == segment.at % PAGE == 0
            at_end = segment.offset + segment.nbytes == segment.path.stat().st_size
            assert segment.nbytes % PAGE == 0 or at_end
        for (path, _, end), (next_path, begin, _) in itertools.pairwise(ends):
            assert path != next_path or begin > end, "touching segments are one"
    assert len(files) > 1


def test_tensors_side_by_side_are_one_segment(tmp_path: Path) -> None:
    tensors = {f"t{number}": torch.randn(1000) for number in range(5)}
    save_file({**tensors, "zz": torch.randn(9000)}, tmp_path / "model.safetensors", {"format": "pt"})
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    entries = dict(open_checkpoint(str(tmp_path)).tensors)
    layout = layout_of_shards(0, {name: entries[name] for name in ("t1", "t2", "t3")})
    assert layout is not None
    assert len(layout.segments) == 1
    assert_equal(read(layout), {name: tensors[name] for name in ("t1", "t2", "t3")})
    apart = layout_of_shards(0, {name: entries[name] for name in ("t0", "t4")})
    assert apart is not None
    assert len(apart.segments) == 2


def test_numbers_that_cannot_be_viewed_in_place_are_left_to_packing(tmp_path: Path) -> None:
    save_file({"a": torch.ones(3, dtype=torch.uint8), "b": torch.ones(4)}, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    path = tmp_path / "model.safetensors"
    content = path.read_bytes()
    size = int.from_bytes(content[:8], "little")
    # Rewritten by hand with the odd tensor first, as some exporters do.
    head = (
        b'{"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},"b":{"dtype":"F32","shape":[4],"data_offsets":[3,19]}}'
    )
    data = content[8 + size :]
    path.write_bytes(len(head).to_bytes(8, "little") + head + data[16:19] + data[:16])
    entries = open_checkpoint(str(tmp_path)).tensors
    assert (entries["b"].begin % 4) != 0
    assert layout_of_shards(0, entries) is None


def scattered(begins: dict[int, int], dtype: torch.dtype = torch.bfloat16) -> LayerLayout:
    """A layer of matrices, and small tensors, of so many bytes at these places."""
    tensors = tuple(
        StoredTensor(f"t{begin}", dtype, (nbytes // dtype.itemsize,), begin, nbytes) for begin, nbytes in begins.items()
    )
    end = max(begin + nbytes for begin, nbytes in begins.items())
    return LayerLayout(0, (), tensors, round_up(end))


@pytest.mark.parametrize("offset", [0, 2, 8, 24, 62])
def test_large_tensors_are_aligned_where_they_are_copied_to(offset: int) -> None:
    """One copy for all that are off by the same, whatever lies between them."""
    layout = scattered(
        {offset: 8192, offset + 8192: 64, offset + 8256: 6000, offset + 14_256: 2, 18_000 + offset: 4096}
    )
    copied = copied_layout(layout)
    large = [tensor for tensor in copied.layout.tensors if tensor.nbytes >= 4096]
    assert all(tensor.begin % 16 == 0 for tensor in large)
    assert len(copied.spans) == 1
    assert_carried(layout)


def test_what_was_aligned_already_is_copied_as_it_is() -> None:
    layout = scattered({0: 4096, 4096: 30, 4126: 2, 4144: 8192})
    copied = copied_layout(layout)
    assert copied.layout is layout
    assert [(span.begin, span.nbytes, span.target) for span in copied.spans] == [(0, layout.nbytes, 0)]


@pytest.mark.parametrize("seed", range(20))
def test_any_tensors_arrive_whole_and_aligned(seed: int) -> None:
    chance = random.Random(seed)
    begins, at = {}, 0
    for _ in range(12):
        at += chance.choice((0, 2, 6, 8, 40, 9000))
        begins[at] = chance.choice((2, 8, 100, 4096, 4098, 8192, 10_006))
        at += begins[at]
    assert_carried(scattered(begins))


def assert_carried(layout: LayerLayout) -> None:
    copied = copied_layout(layout)
    source = torch.randint(0, 256, (layout.nbytes,), dtype=torch.uint8)
    target = torch.zeros(copied.layout.nbytes, dtype=torch.uint8)
    for span in copied.spans:
        target[span.target : span.target + span.nbytes] = source[span.begin : span.begin + span.nbytes]
    for tensor, there in zip(layout.tensors, copied.layout.tensors, strict=True):
        assert there.begin % (16 if tensor.nbytes >= 4096 else tensor.dtype.itemsize) == 0
        assert torch.equal(source[tensor.begin :][: tensor.nbytes], target[there.begin :][: tensor.nbytes])
    stored_views(copied.layout, target)


@pytest.mark.parametrize("off_by", [8, 0])
def test_weights_of_a_checkpoint_are_aligned_on_the_device(off_by: int, tmp_path: Path) -> None:
    """As grouped products of a GPU want them, wherever the header of a file has its data begin."""
    save_tiny_model("qwen3", tmp_path, dtype=torch.bfloat16)
    path = tmp_path / "model.safetensors"
    content = path.read_bytes()
    begin = 8 + int.from_bytes(content[:8], "little")
    blanks = (off_by - begin) % 16
    head = (begin - 8 + blanks).to_bytes(8, "little") + content[8:begin] + b" " * blanks
    path.write_bytes(head + content[begin:])
    streamed = Streamed(tmp_path, torch.bfloat16)
    found = [layout_of_shards(index, streamed.streamable.converter.one_to_one(index) or {}) for index in range(4)]
    layouts = [layout for layout in found if layout]
    assert {tensor.begin % 16 for layout in layouts for tensor in layout.tensors} == {off_by}
    stream = streamed.stream(layouts, ["ssd", "ram", "device", "ssd"], StandInCopyStream())
    seen: list[int] = []

    def look(layer: torch.nn.Module, _inputs: object, _output: object) -> None:
        seen.extend(weight.data_ptr() % 16 for weight in layer.parameters() if weight.nbytes >= 4096)

    hooks = [layer.register_forward_hook(look) for layer in streamed.streamable.network.layers]
    assert_same(passes(streamed.context), streamed.expected)
    assert len(seen) > 4 * 4
    assert set(seen) == {0}
    for hook in hooks:
        hook.remove()
    stream.close()
