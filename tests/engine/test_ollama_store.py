"""A model in a store of Ollama, with pictures in its file: listed in the library, and loaded as it was."""

import hashlib
import json
from pathlib import Path
from typing import Any

import torch
import transformers

from app.library.local.models import Home
from app.library.local.other_apps import Store
from app.library.local.scan import find_models
from app.system.background import Stop
from engine.loading.pair import open_pair
from engine.model.gguf.ollama_store import name_in_store
from engine.protocol.messages import ChatMessage
from engine.protocol.options import LoadOptions
from engine.text.tokenizer import Tokenizer
from tests.engine import gguf_ollama as own
from tests.engine.model.gguf.test_contents import logits
from tests.engine.text.conftest import EMBEDDED
from tests.engine.weights.test_packed_stream import resident, same
from tests.links import make_link


def entries(folder: Path, config: Any) -> own.Entries:
    """What the converter says of the model in a folder: a token is special, the model's own, or neither."""
    model = json.loads((folder / "tokenizer.json").read_text("utf-8"))
    added = {entry["content"]: 3 if entry["special"] else 4 for entry in model["added_tokens"]}
    ids = {**model["model"]["vocab"], **{entry["content"]: entry["id"] for entry in model["added_tokens"]}}
    tokens = sorted(ids, key=ids.__getitem__)
    return {
        **own.mistral3(config), "general.file_type": 1,
        "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "smollm", "tokenizer.ggml.add_bos_token": False,
        "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.token_type": [added.get(token, 1) for token in tokens],
        "tokenizer.ggml.scores": [float(ids[token]) for token in tokens],
        "tokenizer.ggml.merges": [" ".join(pair) for pair in model["model"]["merges"]],
        "tokenizer.ggml.bos_token_id": 1, "tokenizer.ggml.eos_token_id": 2, "tokenizer.ggml.eos_token_ids": [2],
        "tokenizer.ggml.padding_token_id": 0,
        "tokenizer.chat_template": (folder / "chat_template.jinja").read_text("utf-8"),
    }  # fmt: skip


def stored(store: Path, name: str, weights: Path, **layers: bytes) -> None:
    """Put a model into a store: a blob for its weights and for each of the other layers, and the manifest."""
    kinds = {"model": weights.read_bytes(), **layers}
    described = []
    (store / "blobs").mkdir(parents=True)
    for kind, content in kinds.items():
        digest = hashlib.sha256(content).hexdigest()
        (store / "blobs" / f"sha256-{digest}").write_bytes(content)
        media = f"application/vnd.ollama.image.{kind}"
        described.append({"mediaType": media, "digest": f"sha256:{digest}", "size": len(content)})
    manifest = store / "manifests" / "registry.ollama.ai" / "library" / name
    manifest.parent.mkdir(parents=True)
    manifest.write_text(json.dumps({"schemaVersion": 2, "layers": described}))


def test_a_model_of_the_store_is_listed_and_loaded(tmp_path: Path) -> None:
    model = transformers.AutoModelForCausalLM.from_pretrained(EMBEDDED, dtype=torch.float32)
    tensors = own.converted(model, own.USUAL, own.woven_heads) | own.pictures()
    weights = own.write_ollama(tmp_path / "weights", "mistral3", entries(EMBEDDED, model.config), tensors)
    layers = {"projector": b"GGUF", "template": b"{{ .Prompt }}", "params": b"{}", "license": b"MIT", "system": b"Hi"}
    stored(tmp_path / "store", "tiny/8b", weights, **layers)
    (found,) = find_models(tmp_path, (), Stop(), (Store(Home.OLLAMA, tmp_path / "store"),))
    assert (found.name, found.model_type, found.problem) == ("tiny:8b", "mistral3", "")
    pair, folder = open_pair(LoadOptions(target=found.source, draft="none")), Tokenizer.open(EMBEDDED)
    assert pair.target.name == "tiny:8b"
    tokenizer, chat = pair.tokenizer, [ChatMessage("user", "Hello")]
    assert tokenizer.same_as(folder)
    assert (tokenizer.eos_ids, tokenizer.encode_chat(chat)) == (folder.eos_ids, folder.encode_chat(chat))
    assert same(resident(pair.target, torch.float32), logits(model))


def test_a_blob_is_called_as_its_manifest_says(tmp_path: Path) -> None:
    blob = tmp_path / "blobs" / f"sha256-{'a' * 64}"
    others: list[object] = [7, {}, {"digest": 7}, {"digest": f"sha256:{'b' * 64}"}]
    for place, layers in {
        "example.org/ada/tuned/8b": [*others, {"digest": f"sha256:{'a' * 64}"}],
        "a/a/a/empty": others,
        "a/a/a/none": 7,
    }.items():
        manifest = tmp_path / "manifests" / place
        manifest.parent.mkdir(parents=True, exist_ok=True)
        manifest.write_text(json.dumps({"layers": layers}))
    (tmp_path / "manifests/a/a/a/broken").write_bytes(b"[" * 100_000)
    (tmp_path / "manifests/a/a/a/long").write_bytes(b" " * (2 << 20))
    make_link(tmp_path / "manifests/a/a/a/link", tmp_path / "manifests/example.org/ada/tuned/8b")
    assert name_in_store(blob) == "example.org/ada/tuned:8b"
    assert name_in_store(tmp_path / "blobs" / f"sha256-{'c' * 64}") == ""
    assert name_in_store(tmp_path / "blobs" / "model.gguf") == ""
    assert name_in_store(tmp_path / "elsewhere" / blob.name) == ""
