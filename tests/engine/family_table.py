"""The table of families in the docs and the set of verified ones in the engine: both written from the same verdicts."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from textwrap import fill

import transformers

from engine.model.gguf.config import KNOWN
from engine.protocol.pictures import PICTURE_FAMILIES
from tests.engine.family_proof import Standing, Verdict

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "resources" / "docs" / "families.md"
MODULE = ROOT / "engine" / "model" / "families" / "verified_families.py"

HEAD = """# Which families of models open

Every family that transformers {version} has a class for text of, alone or with pictures or sound beside it, by its
`model_type` in config.json. Of each a tiny random model was made, saved as transformers saves it, opened as the engine
opens it, and compared with transformers' own in float32: the logits of a tree with those of every path alone, and
greedy text with trees of 1, 16 and 64 tokens with `generate`. Written by `python -m tests.campaigns.families`.

- *exact*: all of it was equal. Of a model that also reads pictures or sound, this is about the language model.
- *opens*: it opens, but not all of it was equal, or could be compared.
- *refused*: Coppice says why it does not open it.
- *untried*: no tiny model of it could be made here. One that opens is probed as it is loaded.

Three networks of this transformers compute something else than was published, and Coppice does not: that of `hy_v4`
turns halves of a head, and the weights were made for pairs of neighbours (compared with what it makes of weights in
another order); that of `phimoe` takes the short factors of its rotary embedding for long texts, too; that of `minimax`
turns whole heads, also where config.json says `rotary_dim` (compared here without it).

{counts}

| family | language model | result | because |
|---|---|---|---|
"""
BESIDE = "| architecture | tried as | difference | same |\n"
REFUSED = "\n### What is refused\n"
PICTURES = "\n## Pictures\n"
FOOT = (
    PICTURES
    + """
By the `model_type` of the whole model, in safetensors. Of each a tiny random model with its processor was shown two
pictures in a text, and the logits behind them were those of transformers' own in float32, read in one pass, in several,
and layer by layer (`tests/engine/model/pictures`); for Gemma 3, Qwen 3 VL and Qwen 3.5 greedy text was that of
`generate` (`tests/engine/test_pictures.py`). Others say why they read none, and some need processors that transformers
has with torchvision alone (Llama 4, LFM2-VL, Cohere 2 Vision, Kimi K2.5, MiniMax M3).

{pictures}

## In GGUF files

By the `general.architecture` of the file; weights, config, tokenizer and chat template are read from it. Of each a
tiny random model was written as llama.cpp's converter would, and its logits were those of the network that it was made
of, bit for bit in float32 (`tests/engine/model/gguf`). Layers that only predict further tokens are left out, and of a
model that also reads pictures or sound the file holds the language model alone. What stands above of a family holds
for its files, too. Other architectures are refused in a sentence.

Pictures are read with the encoder in a file whose name has `mmproj` in it, beside the model's (LM Studio, Unsloth, Jan,
llama.cpp's cache), in the manifest of a model of Ollama, or in the same file, as Ollama's own have it. Of several the
one in F16 or BF16 is taken; one for another model is not. By what such a file says is its projector:

| projector | models | in the same file, too |
|---|---|---|
| `gemma3` | Gemma 3 | Ollama's |
| `qwen2vl_merger`, `qwen2.5vl_merger` | Qwen 2 VL, Qwen 2.5 VL | Ollama's 2.5 |
| `qwen3vl_merger` | Qwen 3 VL, Qwen 3.5, dense and of experts | Ollama's |
| `pixtral` | Mistral Small 3.1 and later, Ministral 3; Pixtral, which was not tried | Ollama's |
| `gemma4v` | Gemma 4 with an encoder (E2B, E4B, 26B, 31B) | Ollama's |
| `glm4v` | GLM 4.5V and 4.6V of experts | |
| `internvl` | InternVL, where the chat template writes pictures | |

Of each a tiny random model was written as llama.cpp's converter would, and in float32 what it makes of a picture was
that of the same model in safetensors, bit for bit; but for Pixtral, which is written as Mistral's later models are and
was not tried. Whole answers were the same, too, of Gemma, Mistral, Qwen 2.5 VL, 3 VL and 3.5
(`tests/engine/test_gguf_pictures.py`). Pictures are prepared as the published models do it, and llama.cpp does so a
little otherwise. Other projectors are refused by their name.

{architectures}

### Beside llama.cpp

So that the reader of these files and the writer of the tests' share no mistake, llama.cpp itself (its wheel xllamacpp)
reads tiny models of all of them, in 32 bits: `python -m tests.campaigns.llama_cpp --families` prints the rows below. It
continues random texts of 4 to 700 tokens, which is more than windows see, and than scaled rotary embeddings were made
for, by 16 tokens each. *Difference* is the largest between the logarithms of the probabilities that both give to one of
the 40 tokens that llama.cpp finds likeliest; *same* are the tokens that both find likeliest of all. What is larger than
0.001 comes from GELU, which llama.cpp looks up in a table of 16 bits (so did Coppice here), and from deep random
networks. In these llama.cpp differs from the published network, or from the library's, and Coppice does not; there they
were compared without:

- `deepseek2` of V2 with groups of experts: it rates a group by its best two experts, as V3 does.
- `gpt-oss`: it rounds the bounds of YaRN. `gptneox` and `falcon`: it approximates GELU, which the networks compute.
- YaRN: `yarn_attn_factor`, `yarn_beta_fast` and `yarn_beta_slow` in a file are not used.
- `gemma3n`: the deviation of activations is divided by one number less; ten layers are sparse, whatever a file says.
- `qwen3vl`, `qwen3vlmoe`: two frequencies of a head do not turn, the slowest ones.
- `exaone4` and `command-r`: windows, or norms of queries and keys, only with 64 layers.
- `phi3` with LongRoPE: the long factors are taken where the memory is for long texts, not where a text is long.
- `phimoe`: it norms by root mean squares, where the network takes means away, and weights the two best experts by a
  softmax of their scores, where the network weights each by those that come near it. A file says another scale of long
  texts than the network has; they were not compared.
- `granitehybrid` of Bamba: pairs are turned across a whole head, where in the network half of it turns in itself.
- `step35`: of half a head that turns, it takes the factors for long texts that were made for a whole one.
- `bitnet` with squares of what is above zero, which newer files say: this wheel takes SiLU for all. Not compared.
- `chameleon` with norms behind attention (of 34B): what follows attention reads only what that gives. Not compared. Of
  the 7B it aborts at texts of more than 512 tokens; shorter ones were compared.
- `dots3note`: indexers turn halves of what they compare, in the library's network pairs of neighbours.
- `minimax-m3`: it chooses blocks only with flash attention, which rounds to 16 bits; compared was without a choice.
- `cohere2moe`: where its rule splits text, only digits and ends of words in ASCII count.

{beside}
Of the architectures that llama.cpp has names for:

- The library has no network for `arctic`, `cogvlm`, `deci`, `graniteswitch`, `grok`, `grovemoe`, `k2-horizon`,
  `kimi-k3`, `maple`, `nanbeige`, `openelm`, `plamo`, `plamo2`, `plamo3`, `plm`, `smallthinker`, `spark2_5`, `talkie`.
- States of a kind that is not known: `arwkv7`, `rwkv6`, `rwkv6qwen2`, `rwkv7`.
- Positions are biases, and there is no network: `jais`, `refact`, `baichuan` of 40 layers.
- Layers are passed several times: `hrm_text`.
- Text is not written from left to right: `dream`, `llada`, `llada-moe`, `rnd1`.
- They do not continue text: `bert`, `clef`, `clip`, `eurobert`, `gemma-embedding`, `gemma-embedding2`, `jina-bert-v2`,
  `jina-bert-v3`, `llama-embed`, `modern-bert`, `neo-bert`, `nomic-bert`, `nomic-bert-moe`, `pockettts`, `qwen3tts`,
  `t5`, `t5encoder`, `wavtokenizer-dec`.
- They only draft for another model: `dflash`, `eagle3`, `gemma4-assistant`.
- There is a network, but llama.cpp has no more than the name, and nobody writes such files: `gptj`.
"""
)
MODULE_HEAD = '''\
"""What the tests found of language models, by model_type: written by `python -m tests.campaigns.families`.

`VERIFIED`: trees and text equal transformers' own. `REFUTED`: they do not, because the network counts its positions or
its windows in another way than a tree needs. All are named in `resources/docs/families.md`.
"""
'''


def verified(rows: Iterable[Verdict]) -> list[str]:
    """The language models that were exact wherever they were found."""
    rows = list(rows)
    wrong = {row.text for row in rows if row.standing is Standing.OPENS}
    return sorted({row.text for row in rows if row.standing is Standing.EXACT} - wrong)


def refuted(rows: Iterable[Verdict]) -> list[str]:
    """The language models that run, but do not compute over a tree what they compute over a path."""
    rows = list(rows)
    return sorted({row.text for row in rows if row.standing is Standing.REFUSED and row.text} - set(verified(rows)))


def write_table(rows: Sequence[Verdict]) -> None:
    """Replace the table in the docs."""
    counts = Counter(row.standing for row in rows)
    told = ", ".join(f"{counts[standing]} {standing.value}" for standing in Standing)
    lines = [f"| {row.family} | {row.text} | {row.standing} | {_cell(row.because)} |\n" for row in rows]
    head = HEAD.format(version=transformers.__version__, counts=f"{len(rows)} families: {told}.")
    TABLE.write_text(head + "".join(lines) + gguf_section(), "utf-8")


def gguf_section() -> str:
    """What stands behind the table: the networks that are read from GGUF files, and what is known of them."""
    listed = ", ".join(f"`{name}`" for name in sorted(KNOWN))
    _, begin, rows = TABLE.read_text("utf-8").partition(BESIDE)
    rows = rows.partition(REFUSED)[0]
    pictures = fill(", ".join(f"`{kind}`" for kind in sorted(PICTURE_FAMILIES)), 120, break_on_hyphens=False)
    architectures = fill(listed, 120, break_on_hyphens=False)
    return FOOT.format(pictures=pictures, architectures=architectures, beside=begin + rows + REFUSED)


def read_table() -> list[Verdict]:
    """The rows of the table in the docs."""
    rows = TABLE.read_text("utf-8").partition(PICTURES)[0].splitlines()
    cells = [line.strip("| \n").split(" | ") for line in rows if line.startswith("| ")]
    return [_verdict(row) for row in cells[1:]]


def write_verified(rows: Iterable[Verdict]) -> None:
    """Replace the sets in the engine."""
    rows = list(rows)
    MODULE.write_text(MODULE_HEAD + _as_set("VERIFIED", verified(rows)) + _as_set("REFUTED", refuted(rows)), "utf-8")


def _as_set(name: str, entries: Iterable[str]) -> str:
    return f"\n{name} = frozenset(\n    {{\n" + "".join(f'        "{entry}",\n' for entry in entries) + "    }\n)\n"


def _verdict(cells: list[str]) -> Verdict:
    family, text, standing, because = [*(cell.strip() for cell in cells), "", ""][:4]
    return Verdict(family, Standing(standing), text, because)


def _cell(text: str) -> str:
    nameless = re.sub(r"<module '([\w.]+)' from '[^']*('>|$)", r"\1", text)  # without the paths of one machine
    return nameless.replace("|", "/").replace("\n", " ")
