"""Makers of model folders: one that is whole, and one for every way in which a folder can be broken.

A breaker takes the path of a whole folder and breaks it there. `BREAKERS` gives each a name and the words that the
error must contain.
"""

import json
import os
import shutil
import struct
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.links import make_link, make_pipe

Breaker = Callable[[Path], object]

EMBEDDED_DRAFT = Path(__file__).parents[3] / "resources" / "models" / "demo-draft"
SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
SHARDS = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")


def whole_folder(folder: Path) -> Path:
    """A complete model with its tokenizer: a copy of the embedded draft."""
    shutil.copytree(EMBEDDED_DRAFT, folder)
    return folder


def sharded_folder(folder: Path) -> Path:
    """A model of two weight files and an index, small enough to be written by hand: 6 + 4 numbers."""
    folder.mkdir()
    edit_json(folder / "config.json", model_type="llama")
    write_safetensors(folder / SHARDS[0], {"a": ("F32", [2, 3])})
    write_safetensors(folder / SHARDS[1], {"b": ("BF16", [4])})
    edit_json(folder / INDEX, metadata={}, weight_map={"a": SHARDS[0], "b": SHARDS[1]})
    return folder


def write_safetensors(path: Path, tensors: Mapping[str, tuple[str, Sequence[int]]]) -> None:
    """A safetensors file of zeros, by hand; `tensors` gives type and shape."""
    width = {"F32": 4, "BF16": 2, "F64": 8, "U8": 1}
    table: dict[str, Any] = {}
    position = 0
    for name, (dtype, shape) in tensors.items():
        size = width[dtype]
        for length in shape:
            size *= length
        table[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [position, position + size]}
        position += size
    write_table(path, json.dumps(table).encode(), position)


def write_table(path: Path, table: bytes, data_bytes: int) -> None:
    """A file that begins like safetensors with this table, and goes on with zeros."""
    path.write_bytes(struct.pack("<Q", len(table)) + table + bytes(data_bytes))


def edit_json(path: Path, **entries: object) -> None:
    """Set entries of a JSON object in a file; None removes one."""
    old = json.loads(path.read_text("utf-8")) if path.exists() else {}
    path.write_text(json.dumps({name: value for name, value in (old | entries).items() if value is not None}), "utf-8")


def edit_table(path: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    """Change the table of a safetensors file and leave its data as it is."""
    content = path.read_bytes()
    end = 8 + int.from_bytes(content[:8], "little")
    table = json.loads(content[8:end])
    edit(table)
    encoded = json.dumps(table).encode()
    path.write_bytes(struct.pack("<Q", len(encoded)) + encoded + content[end:])


def edit_first_tensor(folder: Path, **entries: object) -> None:
    """Lie about the tensor whose data comes first."""

    def edit(table: dict[str, Any]) -> None:
        names = [name for name in table if name != "__metadata__"]
        min((table[name] for name in names), key=lambda entry: entry["data_offsets"]).update(entries)

    edit_table(folder / SINGLE, edit)


def truncate(path: Path, size: int) -> None:
    """Cut a file off."""
    os.truncate(path, size)


def with_other_tokenizer(folder: Path) -> None:
    """A whole folder whose tokenizer has two tokens swapped."""
    path = folder / "tokenizer.json"
    tokenizer = json.loads(path.read_text("utf-8"))
    vocabulary = tokenizer["model"]["vocab"]
    first, second = [name for name, token in vocabulary.items() if token in (1000, 1001)]
    vocabulary[first], vocabulary[second] = vocabulary[second], vocabulary[first]
    path.write_text(json.dumps(tokenizer), "utf-8")


def with_foreign_tokenizer(folder: Path) -> None:
    """A whole folder whose tokenizer writes nothing that any other one writes, but for special tokens."""
    path = folder / "tokenizer.json"
    tokenizer = json.loads(path.read_text("utf-8"))
    special = {entry["content"] for entry in tokenizer["added_tokens"]}
    old = tokenizer["model"]["vocab"]
    tokenizer["model"]["vocab"] = {name if name in special else f"\u0100\u0100{name}": old[name] for name in old}
    tokenizer["model"]["merges"] = []
    path.write_text(json.dumps(tokenizer), "utf-8")


def with_disagreeing_config(folder: Path) -> None:
    """A whole folder whose config promises wider layers than the tensors have."""
    config = json.loads((folder / "config.json").read_text("utf-8"))
    edit_json(folder / "config.json", intermediate_size=config["intermediate_size"] * 2)


def _index(weight_map: object) -> Breaker:
    return lambda folder: edit_json(folder / INDEX, weight_map=weight_map)


def _replace_weights(folder: Path, name: str, content: bytes = b"") -> None:
    (folder / SINGLE).unlink()
    (folder / name).write_bytes(content)


def _link_outside(folder: Path, name: str) -> None:
    outside = folder.parent / f"outside-{name}"
    (folder / name).rename(outside)
    make_link(folder / name, outside)


def _make_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _make_pipe(path: Path) -> None:
    path.unlink()
    make_pipe(path)


def _make_link(path: Path, target: str) -> None:
    path.unlink()
    make_link(path, target)


def _swap_offsets(folder: Path) -> None:
    """Two tensors of one size claim the same bytes; nobody claims the other's."""

    def edit(table: dict[str, Any]) -> None:
        first, second = [
            entry for entry in table.values() if entry.get("shape") == table["model.norm.weight"]["shape"]
        ][:2]
        first["data_offsets"] = second["data_offsets"]

    edit_table(folder / SINGLE, edit)


CONFIG_BREAKERS: dict[str, tuple[Breaker, str]] = {
    "no config": (lambda folder: (folder / "config.json").unlink(), "holds no config.json"),
    "config of garbage": (lambda folder: (folder / "config.json").write_bytes(b"\xff\x00{"), "not valid JSON"),
    "config cut off": (lambda folder: truncate(folder / "config.json", 40), "not valid JSON"),
    "config nested deeply": (lambda folder: (folder / "config.json").write_text("[" * 200_000), "not valid JSON"),
    "config of a huge number": (lambda folder: (folder / "config.json").write_text('{"a":' + "9" * 9999 + "}"), "JSON"),
    "config of a list": (lambda folder: (folder / "config.json").write_text("[]"), "JSON object"),
    "config too large": (lambda folder: (folder / "config.json").write_bytes(b" " * (17 << 20)), "larger than 4 MB"),
    "no model_type": (lambda folder: edit_json(folder / "config.json", model_type=None), "names no model_type"),
    "model_type of a number": (lambda folder: edit_json(folder / "config.json", model_type=7), "names no model_type"),
    "text of a list": (
        lambda folder: edit_json(folder / "config.json", text_config={"model_type": ["llama"]}),
        "names no model_type",
    ),
    "config as a folder": (
        lambda folder: _make_folder(folder / "config.json"),
        "not an ordinary file",
    ),
    "config as a pipe": (lambda folder: _make_pipe(folder / "config.json"), "not an ordinary file"),
    "config in a circle": (lambda folder: _make_link(folder / "config.json", "config.json"), "cannot be opened"),
    "config outside": (lambda folder: _link_outside(folder, "config.json"), "leads out of its folder"),
    "tokenizer outside": (lambda folder: _link_outside(folder, "tokenizer.json"), "leads out of its folder"),
}

WEIGHT_BREAKERS: dict[str, tuple[Breaker, str]] = {
    "no weights": (lambda folder: (folder / SINGLE).unlink(), "model.safetensors is missing"),
    "pickled weights": (lambda folder: _replace_weights(folder, "pytorch_model.bin"), "only safetensors are opened"),
    "GGUF weights that are none": (lambda folder: _replace_weights(folder, "model-q4.gguf"), "is not a GGUF file"),
    "an adapter": (lambda folder: _replace_weights(folder, "adapter_model.safetensors"), "an adapter"),
    "weights outside": (lambda folder: _link_outside(folder, SINGLE), "leads out of its folder"),
    "weights as a pipe": (lambda folder: _make_pipe(folder / SINGLE), "not an ordinary file"),
    "weights behind a dead link": (
        lambda folder: _make_link(folder / SINGLE, "nothing"),
        "is missing",
    ),
    "a Git LFS pointer": (
        lambda folder: (folder / SINGLE).write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\n"),
        "Git LFS pointer",
    ),
    "empty file": (lambda folder: truncate(folder / SINGLE, 0), "only 0 bytes"),
    "cut in the length": (lambda folder: truncate(folder / SINGLE, 5), "only 5 bytes"),
    "cut in the table": (lambda folder: truncate(folder / SINGLE, 500), "ends before its table"),
    "cut in the data": (lambda folder: truncate(folder / SINGLE, 100_000), "is cut off"),
    "cut by a byte": (lambda folder: truncate(folder / SINGLE, (folder / SINGLE).stat().st_size - 1), "is cut off"),
    "a byte too many": (
        lambda folder: (folder / SINGLE).write_bytes((folder / SINGLE).read_bytes() + b"\0"),
        "1 bytes too many",
    ),
    "a huge table": (lambda folder: (folder / SINGLE).write_bytes(b"\xff" * 64), "not a safetensors file"),
    "a table of garbage": (lambda folder: write_table(folder / SINGLE, b"\x80garbage", 8), "cannot be read"),
    "a table of a list": (lambda folder: write_table(folder / SINGLE, b"[]", 8), "cannot be read"),
    "a table of brackets": (lambda folder: write_table(folder / SINGLE, b"[" * (3 << 20), 8), "cannot be read"),
    "a table nested deeply": (lambda folder: write_table(folder / SINGLE, b'{"a":' * 30_000, 8), "cannot be read"),
    "a name twice": (
        lambda folder: write_table(folder / SINGLE, b'{"a":{"dtype":"U8"},"a":{"dtype":"U8"}}', 8),
        "cannot be read",
    ),
    "no tensors": (lambda folder: write_table(folder / SINGLE, b'{"__metadata__":{"format":"pt"}}', 0), "no tensors"),
    "a tensor of nothing": (
        lambda folder: edit_table(folder / SINGLE, lambda table: table.update(x=None)),
        "tensor 'x' lies",
    ),
    "an unknown type": (lambda folder: edit_first_tensor(folder, dtype="F128"), "unknown type, 'F128'"),
    "a type of a list": (lambda folder: edit_first_tensor(folder, dtype=["F32"]), "does not say where"),
    "another type": (lambda folder: edit_first_tensor(folder, dtype="F64"), "does not fit its shape"),
    "another shape": (lambda folder: edit_first_tensor(folder, shape=[3, 3]), "does not fit its shape"),
    "a negative shape": (lambda folder: edit_first_tensor(folder, shape=[-2, -2]), "does not say where"),
    "a fractional shape": (lambda folder: edit_first_tensor(folder, shape=[1.5]), "does not say where"),
    "too many dimensions": (lambda folder: edit_first_tensor(folder, shape=[1] * 1000), "does not fit its shape"),
    "a huge shape": (lambda folder: edit_first_tensor(folder, shape=[2**62] * 8), "does not fit its shape"),
    "a huge shape of nothing": (
        lambda folder: edit_first_tensor(folder, shape=[0, 2**62, 2**62], data_offsets=[0, 0]),
        "does not fit its shape",
    ),
    "negative offsets": (lambda folder: edit_first_tensor(folder, data_offsets=[-8, 0]), "does not say where"),
    "offsets backwards": (lambda folder: edit_first_tensor(folder, data_offsets=[8, 0]), "does not fit its shape"),
    "three offsets": (lambda folder: edit_first_tensor(folder, data_offsets=[0, 1, 2]), "does not say where"),
    "offsets beyond everything": (
        lambda folder: edit_first_tensor(folder, dtype="U8", shape=[8], data_offsets=[2**62, 2**62 + 8]),
        "a gap or an overlap",
    ),
    "two tensors in one place": (_swap_offsets, "a gap or an overlap"),
}

INDEX_BREAKERS: dict[str, tuple[Breaker, str]] = {
    "index of garbage": (lambda folder: (folder / INDEX).write_text("{"), "not valid JSON"),
    "no weight_map": (_index(None), "has no weight_map"),
    "weight_map of a list": (_index(["a"]), "has no weight_map"),
    "empty weight_map": (_index({}), "no tensors"),
    "a shard of a number": (_index({"a": 1}), "does not name files"),
    "a shard above": (_index({"a": "../x.safetensors"}), "outside its folder"),
    "a shard far away": (_index({"a": "/x.safetensors"}), "outside its folder"),
    "a shard in a folder": (_index({"a": "b/x.safetensors"}), "outside its folder"),
    "a shard on a drive": (_index({"a": "C:x.safetensors"}), "outside its folder"),
    "a shard for Windows": (_index({"a": "..\\x.safetensors"}), "outside its folder"),
    "a shard with a zero": (_index({"a": "\0.safetensors"}), "outside its folder"),
    "a shard without a name": (_index({"a": ""}), "outside its folder"),
    "a pickled shard": (_index({"a": "x.bin"}), "only safetensors are opened"),
    "a shard missing": (lambda folder: (folder / SHARDS[1]).unlink(), "1 of 2 weight files are missing"),
    "a shard outside": (lambda folder: _link_outside(folder, SHARDS[0]), "leads out of its folder"),
    "a shard cut off": (lambda folder: truncate(folder / SHARDS[0], 90), "is cut off"),
    "a tensor missing": (_index({"a": SHARDS[0], "b": SHARDS[1], "c": SHARDS[1]}), "lacks the tensor 'c'"),
    "a tensor elsewhere": (_index({"a": SHARDS[1], "b": SHARDS[1]}), "lacks the tensor 'a'"),
}

# Each of these breaks a `whole_folder`; those of the index break a `sharded_folder`.
BREAKERS: dict[str, tuple[Breaker, str]] = CONFIG_BREAKERS | WEIGHT_BREAKERS
