"""Layers read from a checkpoint's own files: the same bits as the converter gives, in whole pages."""

import itertools
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from engine.model.checkpoint import open_checkpoint
from engine.model.layer_converter import open_layer_converter
from engine.weights.store.layout import PAGE, layout_of_shards
from tests.engine.tiny_models import FAMILIES, save_tiny_model
from tests.engine.weights.reading import assert_equal, read


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
