"""GGUF variants: what file names say, which one suggests itself, and a table fetched instead of a whole beginning."""

from pathlib import Path

import pytest

from app.hub.client import HubClient
from app.hub.facts import fetch_facts
from app.hub.failures import HubError
from app.hub.files import list_files
from app.library.pairing.vocabulary import VocabularyCache, read_vocabulary
from app.library.variants import choices_in, recommended
from app.system.background import Stop
from engine.errors import ModelError
from engine.gguf_header import LazyArray, ShortError, read_beginning, read_scalars
from engine.protocol.variants import Variant, find_variants, join_source, label_of, split_source
from tests.app.hub.conftest import client, connect, hub
from tests.app.hub.ggufs import TAGS, TOKENS, gguf, repository
from tests.app.hub.repositories import sharded, tiny
from tests.app.library.local.folders import cached
from tests.hub import Hub
from tests.links import make_link

__all__ = ["client", "connect", "hub"]

TOKENIZER = b'{"model": {"type": "BPE", "vocab": {"a": 0, "b": 1}}, "added_tokens": [{"id": 2, "content": "<|end|>"}]}'


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf", "Q4_K_M"), ("Qwen3.6-27B-i1-IQ4_XS.gguf", "IQ4_XS"),
        ("tiny.q8_0.gguf", "Q8_0"), ("Model-UD-Q4_K_XL.gguf", "UD-Q4_K_XL"), ("gpt-oss-20b-mxfp4.gguf", "MXFP4"),
        ("x-BF16.gguf", "BF16"), ("x-f16.gguf", "F16"), ("a_Q6_K.gguf", "Q6_K"), ("x-TQ1_0.gguf", "TQ1_0"),
        ("Qwen3-32B.gguf", ""), ("Q2-Report.gguf", "Q2"),
    ],
)  # fmt: skip
def test_a_name_says_the_number_format(name: str, label: str) -> None:
    assert label_of(name) == label


def test_parts_are_one_variant_and_what_is_no_model_is_none() -> None:
    names = [
        "Q8_0/M-Q8_0-00002-of-00002.gguf", "Q8_0/M-Q8_0-00001-of-00002.gguf", "M-Q4_K_M.gguf",
        "M-IQ2_M-00001-of-00003.gguf",
        "mmproj-M-F16.gguf", "imatrix_unsloth.gguf", "ggml-vocab-m.gguf", "README.md", "BF16/m-00001-of-00001.gguf",
        "odd (1).gguf", "M-Q3_K_S-00003-of-00002.gguf",
    ]  # fmt: skip
    found = {each.name: each for each in find_variants(names)}
    assert set(found) == {"Q8_0", "Q4_K_M", "IQ2_M", "BF16"}
    assert found["Q8_0"].files == ("Q8_0/M-Q8_0-00001-of-00002.gguf", "Q8_0/M-Q8_0-00002-of-00002.gguf")
    assert [found[name].is_complete for name in ("Q8_0", "Q4_K_M", "IQ2_M")] == [True, True, False]


def test_two_models_of_one_format_go_by_their_own_names() -> None:
    assert [each.name for each in find_variants(["A-Q4_0.gguf", "B-Q4_0.gguf"])] == ["A-Q4_0", "B-Q4_0"]
    (same,) = find_variants(["A-Q4_0.gguf", "q/A-Q4_0.gguf"])
    assert same == Variant("A-Q4_0", "A-Q4_0", ("A-Q4_0.gguf",))
    assert same.answers_to("a-q4_0")


def test_a_source_is_put_together_and_taken_apart() -> None:
    assert split_source("org/name:Q4_K_M") == ("org/name", "Q4_K_M")
    assert split_source("org/name") == ("org/name", "")
    for other in ("C:/models/x", "C:\\models", "/a/b:c/d", "org/name:../x", "name:latest"):
        assert split_source(other) == (other, "")
    assert join_source("org/name", "") == "org/name"


def test_four_bits_suggest_themselves() -> None:
    assert recommended(["Q2_K", "Q4_K_S", "Q4_K_M", "Q8_0"]) == "Q4_K_M"
    assert recommended(["IQ1_S", "odd", "BF16"]) == "odd"
    assert recommended([]) == ""


def test_the_hubs_listing_gives_sizes_of_all_that_is_fetched(hub: Hub, client: HubClient, stop: Stop) -> None:
    files = repository(Q8_0="Q8_0") | {
        "Q4_K_M/Tiny-Q4_K_M-00001-of-00002.gguf": bytes(100), "Q4_K_M/Tiny-Q4_K_M-00002-of-00002.gguf": bytes(50),
        "../Tiny-Q2_K.gguf": b"x", "a/b/Tiny-Q3_K_M.gguf": b"x",
    }  # fmt: skip
    repo = hub.add("org/tiny", files, details=TAGS)
    choices = choices_in(list_files(client, "org/tiny", stop))
    encoder = len(files["mmproj-F16.gguf"])
    assert [(each.source, each.bytes, each.file_count, each.recommended) for each in choices] == [
        ("org/tiny:Q4_K_M", 150 + encoder, 2, True),
        ("org/tiny:Q8_0", len(files["Tiny-Q8_0.gguf"]) + encoder, 1, False),
    ]
    assert choices[0].revision == repo.commit


def test_safetensors_beside_variants_are_a_choice_too(hub: Hub, client: HubClient, stop: Stop) -> None:
    hub.add("org/both", tiny() | repository(Q8_0="Q8_0"))
    assert [each.source for each in choices_in(list_files(client, "org/both", stop))] == ["org/both", "org/both:Q8_0"]


def test_weights_that_are_there_twice_count_once(hub: Hub, client: HubClient, stop: Stop) -> None:
    hub.add("org/both", sharded() | {"consolidated.safetensors": bytes(10**6)} | repository(Q8_0="Q8_0"))
    choice = choices_in(list_files(client, "org/both", stop))[0]
    shards = [content for name, content in sharded().items() if name.endswith(".safetensors")]
    assert (choice.bytes, choice.file_count) == (sum(map(len, shards)), len(shards))


def test_a_beginning_tells_where_it_ends_and_needs_no_more(stop: Stop) -> None:
    content = gguf(padding=1000)
    beginning = read_beginning(content)
    assert beginning.architecture == "llama"
    tokens = beginning.metadata["tokenizer.ggml.tokens"]
    assert isinstance(tokens, LazyArray)
    assert tokens.read() == TOKENS
    cut = read_beginning(content[: beginning.end])
    assert (cut.tensors, cut.table, cut.end, cut.data) == (
        beginning.tensors, beginning.table, beginning.end, beginning.data
    )  # fmt: skip
    assert beginning.data % 32 == 0
    with pytest.raises(ShortError) as short:
        read_beginning(content[: beginning.end - 1])
    assert short.value.needed == beginning.end
    assert read_scalars(content[:200])["general.file_type"] == 7


@pytest.mark.parametrize(
    "content",
    [
        b"GGML" + bytes(100), b"GGUF\x01" + bytes(100), b"GGUF\x03\0\0\0" + b"\xff" * 100,
        b"GGUF\x03\0\0\0" + bytes(8) + b"\x01" + bytes(7) + b"\xff" * 8 + bytes(100),
        b"GGUF\x03\0\0\0" + bytes(8) + b"\x01" + bytes(7) + bytes(8) + b"\x63\0\0\0" + bytes(100),
        b"GGUF\x03\0\0\0" + bytes(8) + b"\x01" + bytes(7) + bytes(8) + b"\x09\0\0\0\x09\0\0\0" + bytes(100),
    ],
)  # fmt: skip
def test_what_lies_about_itself_is_refused(content: bytes) -> None:
    with pytest.raises(ModelError, match=r"GGUF|claims|unknown type"):
        read_beginning(content)


def test_facts_of_a_variant_are_its_beginning_and_those_of_the_next_a_part_of_it(
    hub: Hub, client: HubClient, stop: Stop, tmp_path: Path
) -> None:
    files = {f"Tiny-{label}.gguf": gguf(kind, padding=400_000 + number) for number, (label, kind) in enumerate(
        (("Q8_0", "Q8_0"), ("F16", "F16"))
    )}  # fmt: skip
    hub.add("org/tiny", files, details=TAGS)
    first = fetch_facts(client, "org/tiny:Q8_0", tmp_path, stop)
    assert (first.repo, first.weight_bytes) == ("org/tiny:Q8_0", len(files["Tiny-Q8_0.gguf"]))
    assert (first.folder / "Tiny-Q8_0.gguf").read_bytes() == files["Tiny-Q8_0.gguf"][
        : read_beginning(files["Tiny-Q8_0.gguf"]).end
    ]
    hub.requests.clear()
    second = fetch_facts(client, "org/tiny:F16", tmp_path, stop)
    assert sum(each.sent_bytes for each in hub.requests if each.server == "cdn") < 100_000
    assert second.weight_bytes == len(files["Tiny-F16.gguf"])
    head = (second.folder / "Tiny-F16.gguf").read_bytes()
    own = read_beginning(files["Tiny-F16.gguf"])
    assert head[read_beginning(head).table :] == files["Tiny-F16.gguf"][own.table : own.end]


def test_another_network_of_the_same_repository_is_not_taken_for_a_variant(
    hub: Hub, client: HubClient, stop: Stop, tmp_path: Path
) -> None:
    files = {"A-Q8_0.gguf": gguf(layers=1), "B-Q8_0.gguf": gguf(layers=2)}
    hub.add("org/two", files, details=TAGS)
    for name in ("A-Q8_0", "B-Q8_0"):
        facts = fetch_facts(client, f"org/two:{name}", tmp_path, stop)
        content = files[f"{name}.gguf"]
        assert (facts.folder / f"{name}.gguf").read_bytes() == content[: read_beginning(content).end]


def test_a_variant_that_is_not_there_is_a_sentence(hub: Hub, client: HubClient, stop: Stop, tmp_path: Path) -> None:
    hub.add("org/tiny", repository(Q8_0="Q8_0") | {"Tiny-Q4_0-00001-of-00002.gguf": b"x"}, details=TAGS)
    for variant in ("Q4_K_M", "Q4_0"):
        with pytest.raises(HubError, match=f"no complete variant {variant}"):
            fetch_facts(client, f"org/tiny:{variant}", tmp_path, stop)
    hub.add("org/cut", {"Tiny-Q8_0.gguf": gguf()[:300], "Tiny-F16.gguf": b"no such file" * 9}, details=TAGS)
    with pytest.raises(HubError, match="ends before its header"):
        fetch_facts(client, "org/cut:Q8_0", tmp_path, stop)
    with pytest.raises(HubError, match="is not a GGUF file"):
        fetch_facts(client, "org/cut:F16", tmp_path, stop)
    assert not list(tmp_path.rglob("*.gguf"))


def test_a_vocabulary_in_gguf_is_that_of_the_tokenizer_it_was_made_from(
    hub: Hub, client: HubClient, stop: Stop, tmp_path: Path
) -> None:
    hub.add("org/tiny", repository(Q8_0="Q8_0"), details=TAGS)
    book = VocabularyCache(tmp_path / "book.json")
    facts = fetch_facts(client, "org/tiny:Q8_0", tmp_path, stop)
    same, wanted = book.of_remote(client, facts, stop), read_vocabulary(TOKENIZER)
    assert same
    assert same.fingerprint == wanted.fingerprint
    (tmp_path / "other.gguf").write_bytes(gguf(tokens=("b", "a", "<|end|>", "[PAD3]")))
    other = book.of_folder(tmp_path / "other.gguf")
    assert other
    assert other.fingerprint != wanted.fingerprint


def test_the_engine_prices_facts_of_a_variant_as_it_prices_the_file(
    hub: Hub, client: HubClient, stop: Stop, tmp_path: Path
) -> None:
    from engine.loading.estimate import Estimator
    from engine.protocol.messages import Appraise
    from engine.protocol.options import LoadOptions

    files = {f"Tiny-{label}.gguf": gguf(label, padding=number) for number, label in enumerate(("Q8_0", "F16"))}
    hub.add("org/tiny", files, details=TAGS)
    estimator = Estimator(loaded=False)
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
        facts = fetch_facts(client, f"org/tiny:{label_of(name)}", tmp_path / "cache", stop)
        told, known = (
            estimator.estimate(Appraise(1, LoadOptions(str(path), "none"))) for path in (facts.folder, tmp_path / name)
        )
        assert told.verdict == "device", told.reason
        assert told == known


def test_the_engine_finds_a_variant_in_the_cache_and_a_blob_by_how_it_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from engine.model.checkpoint import open_checkpoint

    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    root = cached(
        tmp_path, "org/tiny", {"Tiny-Q8_0.gguf": gguf(general__name="Tiny one"), "Tiny-F16.gguf": gguf("F16")}
    )
    opened = open_checkpoint("org/tiny:q8_0")
    assert (opened.name, opened.path.name) == ("org/tiny:q8_0", "Tiny-Q8_0.gguf")
    blob = opened.path.resolve()
    assert blob.parent == root / "blobs"
    assert open_checkpoint(str(blob)).name == "Tiny one"
    for source in ("org/tiny:Q4_K_M", "org/other:Q8_0"):
        with pytest.raises(ModelError, match="no complete variant"):
            open_checkpoint(source)
    outside = tmp_path / "outside.gguf"
    outside.write_bytes(gguf())
    opened.path.unlink()
    make_link(opened.path, outside)
    with pytest.raises(ModelError, match="leads out"):
        open_checkpoint("org/tiny:Q8_0")
