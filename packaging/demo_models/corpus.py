"""Text to tokens: trains the shared tokenizer and packs dialogues and fairy tales into arrays for training."""

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from dialogues.conversation import Conversations, Dialogue
from natural import chit_chat, fairy_tales

VOCABULARY = 4096
CONTEXT = 2048
PAD, BOS, END, USER, ASSISTANT, SYSTEM = range(6)
SPECIAL = ["<|pad|>", "<|bos|>", "<|end|>", "<|user|>", "<|assistant|>", "<|system|>"]
CHAT_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}"
    "{{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)
REPEATS = {"synthetic": 1, "chit-chat": 4, "fairy tales": 2}
VALIDATION_DOCUMENTS = 300
# What a user says cannot be predicted; it is learned a little, so that the model still reads it well.
USER_WEIGHT = 0.1


@dataclass(frozen=True)
class Document:
    """Token ids of one document, and how much each counts in the loss."""

    ids: list[int]
    weights: list[float]


def synthetic(count: int, seed: int) -> list[Dialogue]:
    """Distinct dialogues, fewer than `count`, since repeated ones are dropped."""
    source = Conversations(seed)
    return list(dict.fromkeys(source.next() for _ in range(count)))


def train_tokenizer(texts: Iterator[str]) -> Tokenizer:
    """Byte-level BPE in which every digit is a token of its own, so that sums can be learned."""
    tokenizer = Tokenizer(models.BPE())
    digits, pieces = pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([digits, pieces])
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=SPECIAL, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def save_tokenizer(tokenizer: Tokenizer, folder: Path) -> None:
    """Write the tokenizer as transformers reads it, under a class name that older versions know too."""
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=SPECIAL[BOS],
        eos_token=SPECIAL[END],
        pad_token=SPECIAL[PAD],
        extra_special_tokens=SPECIAL[USER:],
        model_max_length=CONTEXT,
    )
    fast.chat_template = CHAT_TEMPLATE
    fast.save_pretrained(folder)
    path = folder / "tokenizer_config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    config["tokenizer_class"] = "PreTrainedTokenizerFast"
    config.pop("backend", None)
    path.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def encode(tokenizer: Tokenizer, documents: Sequence[Dialogue | str]) -> list[Document]:
    """Ids in the form of the chat template; plain text stands between BOS and END."""
    return [
        _encode_text(tokenizer, document) if isinstance(document, str) else _encode_dialogue(tokenizer, document)
        for document in documents
    ]


def _encode_text(tokenizer: Tokenizer, text: str) -> Document:
    ids = [BOS, *tokenizer.encode(text).ids, END]
    return Document(ids, [1.0] * len(ids))


def _encode_dialogue(tokenizer: Tokenizer, dialogue: Dialogue) -> Document:
    parts = [(SYSTEM, dialogue.system)] if dialogue.system else []
    for question, answer in dialogue.turns:
        parts += [(USER, question), (ASSISTANT, answer)]
    ids, weights = [BOS], [USER_WEIGHT]
    for role, text in parts:
        said = [*tokenizer.encode(text).ids, END]
        ids += [role, *said]
        weights += [USER_WEIGHT] + [1.0 if role == ASSISTANT else USER_WEIGHT] * len(said)
    return Document(ids, weights)


def _flat(document: Dialogue | str) -> str:
    return document if isinstance(document, str) else "\n".join(f"{ask}\n{answer}" for ask, answer in document.turns)


def pack(documents: list[Document], folder: Path, name: str) -> int:
    """Write the documents end to end as `name`.ids.npy and `name`.weights.npy; returns the number of tokens."""
    ids = np.concatenate([np.array(document.ids, dtype=np.uint16) for document in documents])
    weights = np.concatenate([np.array(document.weights, dtype=np.float16) for document in documents])
    np.save(folder / f"{name}.ids.npy", ids)
    np.save(folder / f"{name}.weights.npy", weights)
    return len(ids)


def build_review(folder: Path, dialogues: int, seed: int = 4321) -> None:
    """Write review.*.npy, half of which is about numbers, for a corpus that exists."""
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer" / "tokenizer.json"))
    source = Conversations(seed, review=True)
    documents = encode(tokenizer, [source.next() for _ in range(dialogues)])
    print("review tokens:", pack(documents, folder, "review"))


def build_corpus(folder: Path, dialogues: int, seed: int = 1234) -> None:
    """Write tokenizer/, train.*.npy and validation.json (ids and weights by kind of text) to the folder."""
    rng = random.Random(seed)
    texts: dict[str, Sequence[Dialogue | str]] = {
        "synthetic": synthetic(dialogues, seed),
        "chit-chat": chit_chat(rng),
        "fairy tales": fairy_tales(),
    }
    samples = [*texts["synthetic"][:25_000], *texts["chit-chat"], *texts["fairy tales"]]
    tokenizer = train_tokenizer(_flat(document) for document in samples)
    folder.mkdir(parents=True, exist_ok=True)
    save_tokenizer(tokenizer, folder / "tokenizer")
    training: list[Document] = []
    validation = {}
    for kind, documents in texts.items():
        encoded = encode(tokenizer, documents)
        rng.shuffle(encoded)
        held_out = min(VALIDATION_DOCUMENTS, len(encoded) // 20)
        validation[kind] = [{"ids": d.ids, "weights": d.weights} for d in encoded[:held_out]]
        training += encoded[held_out:] * REPEATS[kind]
        print(f"{kind}: {len(encoded)} documents, {sum(len(d.ids) for d in encoded)} tokens, x{REPEATS[kind]}")
    rng.shuffle(training)
    (folder / "validation.json").write_text(json.dumps(validation), encoding="utf-8")
    print("training tokens:", pack(training, folder, "train"))
