"""What this reader accepts, safetensors' own reader accepts too, and both see the same tensors."""

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors import safe_open

from engine.errors import ModelError
from engine.model.safetensors_header import read_header
from tests.engine.model.broken_folders import write_safetensors, write_table

TENSORS = {"w": ("F32", [2, 3]), "scalar": ("F64", []), "none": ("BF16", [0, 7]), "bytes": ("U8", [5])}

NAMES = st.text('a_"\\\0\n\u00e9\U0001f642', max_size=3)  # all of Unicode takes seconds to list
quick = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

sizes = st.one_of(st.integers(-1, 40), st.sampled_from([2**31, 2**62, 2**64]), st.none(), st.floats(), st.booleans())
entries = st.one_of(
    st.none(),
    st.fixed_dictionaries(
        {},
        optional={
            "dtype": st.sampled_from(["F32", "U8", "BF16", "F4", "Q9", 3]),
            "shape": st.lists(sizes, max_size=3),
            "data_offsets": st.lists(sizes, max_size=3),
        },
    ),
)


def accepted(path: Path) -> dict[str, tuple[str, tuple[int, ...]]] | None:
    """Type and shape of every tensor as this reader sees them; None when it refuses the file."""
    try:
        return {name: (tensor.dtype, tensor.shape) for name, tensor in read_header(path).items()}
    except ModelError:
        return None


def seen_by_the_library(path: Path) -> dict[str, tuple[str, tuple[int, ...]]]:
    with safe_open(path, framework="pt") as file:
        slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118 - it is not a mapping
        return {name: (piece.get_dtype(), tuple(piece.get_shape())) for name, piece in slices.items()}


def test_tensors_come_in_the_order_of_their_data(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    write_safetensors(path, TENSORS)
    tensors = read_header(path)
    begin = path.stat().st_size - (24 + 8 + 0 + 5)
    places = sorted((tensor.begin - begin, tensor.end - begin) for tensor in tensors.values())
    assert places == [(0, 24), (24, 32), (32, 32), (32, 37)]
    assert [tensor.begin for tensor in tensors.values()] == sorted(tensor.begin for tensor in tensors.values())
    assert accepted(path) == seen_by_the_library(path)


def test_metadata_and_padding_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    table = {"__metadata__": {"format": "pt"}, "a": {"dtype": "U8", "shape": [3], "data_offsets": [0, 3]}}
    write_table(path, json.dumps(table).encode().ljust(4088), 3)
    assert read_header(path)["a"].begin == 4096
    assert accepted(path) == seen_by_the_library(path)


@pytest.mark.parametrize("name", ["F4", "F8_E4M3", "F8_E5M2", "F8_E8M0", "BOOL", "C64"])
def test_every_width_of_number_is_known(name: str, tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    size = {"F4": 2, "C64": 32}.get(name, 4)
    table = {"a": {"dtype": name, "shape": [2, 2], "data_offsets": [0, size]}}
    write_table(path, json.dumps(table).encode(), size)
    assert accepted(path) == {"a": (name, (2, 2))}


def test_a_missing_file_is_an_error_in_words(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"cannot be read: no such file"):
        read_header(tmp_path / "x.safetensors")


@quick
@given(flips=st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), min_size=1, max_size=4))
def test_a_damaged_file_is_refused_or_read_as_the_library_reads_it(
    flips: list[tuple[int, int]], tmp_path: Path
) -> None:
    path = tmp_path / "x.safetensors"
    write_safetensors(path, TENSORS)
    content = bytearray(path.read_bytes())
    for position, value in flips:
        content[position % len(content)] = value
    path.write_bytes(content)
    tensors = accepted(path)
    assert tensors is None or tensors == seen_by_the_library(path)


@quick
@given(table=st.dictionaries(NAMES, entries, max_size=3), data_bytes=st.integers(0, 48))
def test_an_invented_table_is_refused_or_read_as_the_library_reads_it(
    table: dict[str, object], data_bytes: int, tmp_path: Path
) -> None:
    path = tmp_path / "x.safetensors"
    write_table(path, json.dumps(table).encode(), data_bytes)
    tensors = accepted(path)
    assert tensors is None or tensors == seen_by_the_library(path)


@quick
@given(content=st.binary(max_size=64))
def test_noise_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(content)
    assert accepted(path) in (None, {})
