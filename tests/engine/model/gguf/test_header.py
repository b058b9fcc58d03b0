"""The header of GGUF files: read as the `gguf` package reads it, and refused in a sentence where it lies."""

import json
import os
import random
import shutil
import struct
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import gguf
import pytest
import transformers

from engine.errors import ModelError
from engine.gguf_header import MAX_HEADER_BYTES, MAX_STRINGS, TYPES, LazyArray
from engine.loading.pair import open_tokenizer
from engine.model.checkpoint import open_checkpoint
from engine.model.gguf.header import read_gguf, read_lists, shard_names
from engine.text.gguf_tokenizer import build_tokenizer, read_vocabulary
from tests.campaigns.extent import choose
from tests.engine.gguf_files import write_gguf
from tests.engine.model.gguf.raw_files import ARRAY, BOOL, STRING, U16, RawFile, entry, strings, tensor, text
from tests.engine.tiny_models import VOCABULARY, tiny_model
from tests.links import make_link

DEMO = Path(__file__).parents[4] / "resources" / "models" / "demo-draft"
MUTATIONS = choose(120, 300)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The embedded draft as a GGUF file."""
    model = transformers.AutoModelForCausalLM.from_pretrained(DEMO)
    return write_gguf(tmp_path_factory.mktemp("gguf") / "demo.gguf", model, "Q8_0", tokenizer=DEMO)


def test_a_header_is_read_as_the_package_reads_it(demo: Path) -> None:
    header, reader = read_gguf([demo]), gguf.GGUFReader(demo)
    assert set(header.metadata) == {name for name in reader.fields if not name.startswith("GGUF.")}
    for name, value in read_lists(header.metadata).items():
        expected = reader.fields[name].contents()
        assert (list(value) if isinstance(value, tuple) else value) == expected, name
    assert [tensor.name for tensor in reader.tensors] == list(header.tensors)
    for there in reader.tensors:
        here = header.tensors[there.name]
        assert here.kind.number == there.tensor_type
        assert here.shape == tuple(reversed(there.shape.tolist()))
        assert (here.begin, here.end - here.begin) == (there.data_offset, there.n_bytes)


def test_the_types_of_tensors_are_ggmls() -> None:
    for kind in TYPES:
        assert gguf.GGMLQuantizationType(kind.number).name == kind.name
        assert gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType(kind.number)] == (kind.elements, kind.nbytes)


def test_lists_are_read_when_they_are_asked_for(tmp_path: Path) -> None:
    path = RawFile().write(tmp_path / "x.gguf")
    header = read_gguf([path])
    tokens, numbers = header.metadata["tokenizer.ggml.tokens"], header.metadata["numbers"]
    assert isinstance(tokens, LazyArray)
    assert isinstance(numbers, LazyArray)
    assert tokens.read() == ("a", "b", "ü")
    assert numbers.read() == (1, -2, 3)
    assert header.metadata["yes"] is True
    path.write_bytes(path.read_bytes()[: tokens.begin + 9])
    with pytest.raises(ModelError, match="list that cannot be read"):
        tokens.read()


def test_a_list_that_is_longer_than_any_is_not_read(tmp_path: Path) -> None:
    """As numbers of Python a list of 90 MB would take more than a gigabyte."""
    many = MAX_STRINGS + 1
    entries = [*RawFile().entries, entry("bits", ARRAY, struct.pack("<IQ", BOOL, many) + bytes(many))]
    header = read_gguf([RawFile(entries=entries).write(tmp_path / "x.gguf")])
    bits = header.metadata["bits"]
    assert isinstance(bits, LazyArray)
    with pytest.raises(ModelError, match="list that cannot be read"):
        bits.read()


def test_only_lists_of_a_vocabulary_are_read_for_a_tokenizer(demo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint = open_checkpoint(str(demo))
    other = replace(checkpoint, metadata={**checkpoint.metadata, "own.list": LazyArray(demo, "x", U16, 1 << 40, 0, 0)})
    assert open_tokenizer(other).vocabulary == open_tokenizer(checkpoint).vocabulary


LIES: dict[str, tuple[Callable[[], RawFile], str]] = {
    "another kind of file": (lambda: RawFile(magic=b"GGML"), "is not a GGUF file"),
    "an old version": (lambda: RawFile(version=1), "version 1"),
    "another byte order": (lambda: RawFile(version=3 << 24), "another byte order"),
    "too many tensors": (lambda: RawFile(tensor_count=2**63), "tensors"),
    "more tensors than there are": (lambda: RawFile(tensor_count=60_000), "dimensions of a tensor"),
    "too many entries": (lambda: RawFile(entry_count=2**40), "entries"),
    "a string beyond the end": (
        lambda: RawFile(entries=[entry("k", STRING, text("x", length=1 << 20))]),
        "ends before its header",
    ),
    "a huge string": (lambda: RawFile(entries=[entry("k", STRING, text("x", length=2**62))]), "bytes of text"),
    "a list beyond the end": (
        lambda: RawFile(entries=[entry("k", ARRAY, struct.pack("<IQ", 4, 2**20))]),
        "ends before",
    ),
    "a list beyond any header": (
        lambda: RawFile(entries=[entry("k", ARRAY, struct.pack("<IQ", 4, 2**61))]),
        "a header of more than",
    ),
    "a list of too many strings": (lambda: RawFile(entries=[entry("k", ARRAY, strings([], 2**60))]), "lists more than"),
    "a list of lists": (lambda: RawFile(entries=[entry("k", ARRAY, struct.pack("<IQ", ARRAY, 1))]), "unknown type"),
    "a value of no type": (lambda: RawFile(entries=[entry("k", 77, b"")]), "unknown type"),
    "an entry twice": (lambda: RawFile(entries=[entry("k", BOOL, b"\1")] * 2), "has 'k' twice"),
    "text that is none": (lambda: RawFile(entries=[entry("k", STRING, text(b"\xff\xfe"))]), "not UTF-8"),
    "an alignment of three": (
        lambda: RawFile(entries=[entry("general.alignment", 4, struct.pack("<I", 3))]),
        "alignment",
    ),
    "five dimensions": (lambda: RawFile(tensors=[tensor("a", (1,) * 5, 0)]), "dimensions"),
    "an empty dimension": (lambda: RawFile(tensors=[tensor("a", (0, 3), 0)]), "does not fit its shape"),
    "an overflowing shape": (lambda: RawFile(tensors=[tensor("a", (2**32, 2**32), 0)]), "does not fit its shape"),
    "a type that is not read": (lambda: RawFile(tensors=[tensor("a", (32,), 0, kind=36)]), "in the format 36"),
    "half a block": (lambda: RawFile(tensors=[tensor("a", (33,), 0, kind=8)]), "does not fit its shape"),
    "a tensor twice": (lambda: RawFile(tensors=[tensor("a", (3,), 0), tensor("a", (3,), 32)]), "has 'a' twice"),
    "an overlap": (lambda: RawFile(tensors=[tensor("a", (3,), 0), tensor("b", (3,), 0)]), "place"),
    "a gap": (lambda: RawFile(tensors=[tensor("a", (3,), 0), tensor("b", (3,), 64)]), "place"),
    "an offset out of line": (lambda: RawFile(tensors=[tensor("a", (3,), 4)]), "place"),
    "data cut off": (lambda: RawFile(data=bytes(40)), "is cut off"),
    "no tensors": (lambda: RawFile(tensors=[]), "holds no tensors"),
    "a part of a set": (lambda: RawFile(entries=[entry("split.count", U16, b"\3\0")]), "part of a model"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_is_refused_in_a_sentence(lie: str, tmp_path: Path) -> None:
    make, words = LIES[lie]
    path = make().write(tmp_path / "x.gguf")
    with pytest.raises(ModelError, match=words):
        read_gguf([path])


def test_a_header_may_not_be_endless(tmp_path: Path) -> None:
    """A sparse file costs its maker nothing; it must not cost its reader anything either."""
    path = tmp_path / "x.gguf"
    head = entry("k", ARRAY, struct.pack("<IQ", 0, MAX_HEADER_BYTES))
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 1, 1) + head)
    os.truncate(path, 2 * MAX_HEADER_BYTES)
    with pytest.raises(ModelError, match="a header of more than"):
        read_gguf([path])


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A tiny model with a vocabulary of 131 tokens, so that most bytes of the header mean something."""
    content = json.loads((DEMO / "tokenizer.json").read_text("utf-8"))
    vocabulary = {token: index for token, index in content["model"]["vocab"].items() if index < VOCABULARY}
    merges = [pair for pair in content["model"]["merges"] if {*pair, "".join(pair)} <= vocabulary.keys()]
    content["model"] |= {"vocab": vocabulary, "merges": merges or [["a", "b"]]}
    folder = tmp_path / "tokenizer"
    shutil.copytree(DEMO, folder, ignore=shutil.ignore_patterns("*.safetensors"))
    (folder / "tokenizer.json").write_text(json.dumps(content), "utf-8")
    return write_gguf(tmp_path / "small.gguf", tiny_model("llama"), "Q8_0", tokenizer=folder)


def damaged(original: bytes, header_bytes: int, rng: random.Random) -> bytes:
    """The file with up to four fields of its header overwritten; one in ten is cut off as well."""
    content = bytearray(original)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(4 if rng.random() < 0.9 else 0, header_bytes)
        value = rng.choice([rng.randbytes(8), b"\xff" * 8, bytes(8), struct.pack("<Q", 2**40)])
        content[at : at + 8] = value[: rng.randint(1, 8)]
    return bytes(content[: rng.randrange(header_bytes) if rng.random() < 0.1 else None])


def test_damaged_files_raise_nothing_but_sentences(small: Path, tmp_path: Path) -> None:
    """Seeded mutations of a header: each is refused in a sentence or opens, in little memory."""
    original = small.read_bytes()
    header_bytes = min(tensor.begin for tensor in read_gguf([small]).tensors.values())
    rng, path, sentences = random.Random(7), tmp_path / "x.gguf", []
    tracemalloc.start()
    for _ in range(MUTATIONS):
        path.write_bytes(damaged(original, header_bytes, rng))
        try:
            checkpoint = open_checkpoint(str(path))
            build_tokenizer(read_vocabulary(read_lists(checkpoint.metadata), "x"), "x")
        except ModelError as error:
            sentences.append(error.message)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(sentences) > MUTATIONS / 3
    assert all(sentences)
    assert peak < 32 << 20


def test_a_set_of_files_is_one_model(tmp_path: Path) -> None:
    model = tiny_model("llama")
    whole = open_checkpoint(str(write_gguf(tmp_path / "whole.gguf", model, "Q8_0")))
    folder = tmp_path / "parts"
    folder.mkdir()
    first = write_gguf(folder / "m.gguf", model, "Q8_0", shards=3)
    parts = open_checkpoint(str(folder))
    assert (parts.name, len(parts.shards), parts.bytes) == ("m", 3, whole.bytes)
    assert set(parts.weights) == set(whole.weights)
    assert open_checkpoint(str(parts.shards[2])).shards == parts.shards
    parts.shards[1].unlink()
    with pytest.raises(ModelError, match=r"00002-of-00003\.gguf is missing"):
        open_checkpoint(str(first))
    parts.shards[1].write_bytes(parts.shards[2].read_bytes())
    with pytest.raises(ModelError, match="not the part"):
        open_checkpoint(str(first))


def test_names_of_parts() -> None:
    assert shard_names("a.gguf") == ("a.gguf",)
    assert shard_names("a-00002-of-00002.gguf") == ("a-00001-of-00002.gguf", "a-00002-of-00002.gguf")
    for name in ("a-00003-of-00002.gguf", "a-00000-of-00002.gguf", "a-00001-of-99999.gguf"):
        with pytest.raises(ModelError, match="cannot be"):
            shard_names(name)


def test_several_models_in_a_folder_must_be_told_apart(tmp_path: Path) -> None:
    for name in ("a-Q4_0.gguf", "a-Q8_0.gguf", "mmproj-a.gguf"):
        RawFile().write(tmp_path / name)
    with pytest.raises(ModelError, match=r"holds 2 GGUF models, such as 'a-Q4_0\.gguf'"):
        open_checkpoint(str(tmp_path))


def test_a_link_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    make_link(folder / "x.gguf", RawFile().write(tmp_path / "x.gguf"))
    with pytest.raises(ModelError, match="leads out of its folder"):
        open_checkpoint(str(folder / "x.gguf"))
