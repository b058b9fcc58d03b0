"""Every door that a model folder could open to code, to other files or to the network stays shut, on every way in.

`DOORS` lists what a folder may contain that some library follows; a new one is a new line there. What counts is what
happens: a mark that foreign code leaves, the files that are opened, the network, questions on the terminal.
"""

import builtins
import contextlib
import json
import os
import pickle
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import huggingface_hub.constants
import pytest
import torch

from engine.cli import plan as plan_command
from engine.cli.arguments import Parser
from engine.cli.contenders import BASELINES
from engine.engine import load
from engine.errors import Cancellation, CoppiceError
from engine.loading.estimate import Estimator
from engine.loading.pair import open_pair
from engine.loading.preparation import prepare_model, prepared_folder
from engine.model.checkpoint import open_checkpoint
from engine.protocol.messages import Appraise
from engine.protocol.options import GenerateOptions, LoadOptions
from tests.campaigns.extent import choose
from tests.engine.model.broken_folders import edit_json
from tests.engine.model.test_facts import facts_of
from tests.engine.text.tiny_tokenizers import library_tokenizer
from tests.engine.tiny_models import tiny_model

# All that the engine may open in a model folder.
NAMED = {
    "config.json", "facts.json", "generation_config.json", "model.safetensors", "model.safetensors.index.json",
    "tokenizer.json", "tokenizer.model", "tokenizer_config.json", "vocab.json", "vocab.txt", "merges.txt",
    "spiece.model", "tekken.json", "added_tokens.json", "special_tokens_map.json", "chat_template.jinja",
}  # fmt: skip
MARK = "COPPICE_TEST_MARK"
EVIL = f"""
import os, pathlib
pathlib.Path(os.environ[{MARK!r}]).write_text(__name__)
import transformers
class Config(transformers.LlamaConfig): model_type = "evil"
class Model(transformers.LlamaForCausalLM): config_class = Config
class Tok(transformers.PreTrainedTokenizerFast): pass
"""
AUTO_MAP = {
    "AutoConfig": "evil.Config", "AutoModelForCausalLM": "evil.Model", "AutoModel": "evil.Model",
    "AutoTokenizer": [None, "evil.Tok"], "AutoProcessor": "evil.Tok",
}  # fmt: skip
ELSEWHERE = {name: f"evil/repo--{value}" for name, value in AUTO_MAP.items() if isinstance(value, str)}

Door = Callable[[Path], object]


def config(**entries: object) -> Door:
    return lambda folder: edit_json(folder / "config.json", **entries)


def tokenizer(**entries: object) -> Door:
    return lambda folder: edit_json(folder / "tokenizer_config.json", **entries)


def file(name: str, content: str | bytes | dict[str, Any] = "") -> Door:
    def plant(folder: Path) -> None:
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        text = json.dumps(content) if isinstance(content, dict) else content
        path.write_bytes(text.encode() if isinstance(text, str) else text)

    return plant


def several(*doors: Door) -> Door:
    return lambda folder: [door(folder) for door in doors]


class Pickled:
    """Leaves the mark when it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f'echo pickle > "${MARK}"',)


PICKLE = pickle.dumps(Pickled())
UNKNOWN_KIND = {"model_type": "evil", "auto_map": AUTO_MAP, "architectures": ["Evil"]}

DOORS: dict[str, Door] = {
    "auto_map": config(auto_map=AUTO_MAP),
    "auto_map of another repository": config(auto_map=ELSEWHERE),
    "auto_map of the text part": config(text_config={"model_type": "llama", "auto_map": AUTO_MAP}),
    "configuration_files": several(
        config(configuration_files=["config.4.0.0.json"]), file("config.4.0.0.json", UNKNOWN_KIND)
    ),
    "attention of the hub": config(attn_implementation="kernels-community/flash-attn3"),
    "attention of the hub, private": config(_attn_implementation="kernels-community/flash-attn3"),
    "attention of the hub, internal": config(_attn_implementation_internal="kernels-community/flash-attn3"),
    "attention of the hub, by part": config(attn_implementation={"": "evil/kernels:evil", "text_config": "a/b"}),
    "experts of the hub": config(experts_implementation="kernels-community/moe"),
    "experts of the hub, private": config(_experts_implementation="kernels-community/moe"),
    "kernels": config(use_kernels=True, kernel_config={"kernel_mapping": {"RMSNorm": "evil/kernels:RMSNorm"}}),
    "dtype that is a function": config(dtype="load", torch_dtype="load"),
    "name of another model": config(_name_or_path="evil/repo", name_or_path="evil/repo", _commit_hash="0" * 40),
    "auto class": config(_auto_class="AutoConfig"),
    "trust": config(trust_remote_code=True, code_revision="main", auto_map=AUTO_MAP),
    "weights by name": several(config(transformers_weights="pytorch_model.bin"), file("pytorch_model.bin", PICKLE)),
    "weights of GGUF": several(config(gguf_file="model.gguf"), file("model.gguf", b"GGUF")),
    "generation by code": several(
        config(custom_generate="."), file("custom_generate/generate.py", EVIL),
        lambda folder: edit_json(folder / "generation_config.json", custom_generate=".", auto_map=AUTO_MAP),
    ),
    "pipelines": config(custom_pipelines={"text": {"impl": "evil.Config", "pt": ["AutoModel"]}}),
    "methods of the config": config(get_text_config=1, to_dict="x", from_pretrained="y", save_pretrained=2),
    "an adapter beside": several(
        file("adapter_config.json", {"peft_type": "LORA", "base_model_name_or_path": "evil/repo", "auto_mapping": {}}),
        file("adapter_model.bin", PICKLE),
    ),
    "quantisers": config(quantization_config={"quant_method": "quark", "modules": "evil"}),
    "quantisers of the text part": config(text_config={"quantization_config": {"quant_method": "bitnet"}}),
    "tokenizer class of config.json": config(tokenizer_class="AutoModelForCausalLM"),
    "tokenizer auto_map": tokenizer(auto_map=AUTO_MAP),
    "tokenizer auto_map, old": tokenizer(auto_map=["evil.Tok", "evil.Tok"]),
    "tokenizer trust": tokenizer(auto_map=AUTO_MAP, trust_remote_code=True),
    "tokenizer class of code": tokenizer(tokenizer_class="evil.Tok"),
    "tokenizer class that is a model": several(
        tokenizer(tokenizer_class="AutoModelForCausalLM"), file("pytorch_model.bin", PICKLE)
    ),
    "tokenizer class that is another loader": tokenizer(tokenizer_class="AutoTokenizer"),
    "tokenizer class that is a function": tokenizer(tokenizer_class="pipeline"),
    "tokenizer files elsewhere": tokenizer(
        tokenizer_file="other.json", vocab_file="other.json", merges_file="other.json", spm_file="other.json"
    ),
    "tokenizer of another version": several(
        tokenizer(fast_tokenizer_files=["tokenizer.4.0.0.json"]), file("tokenizer.4.0.0.json", "{}")
    ),
    "tokenizer arguments": tokenizer(init_inputs=["other.json"], __slow_tokenizer="evil", from_slow=True),
    "tokenizer of GGUF": several(tokenizer(gguf_file="model.gguf"), file("model.gguf", b"GGUF")),
    "tokenizer of another name": tokenizer(name_or_path="evil/repo", _commit_hash="0" * 40, is_local=False),
    "tokenizer with a processor": several(
        tokenizer(processor_class="EvilProcessor"), file("processor_config.json", {"auto_map": AUTO_MAP}),
        file("preprocessor_config.json", {"auto_map": AUTO_MAP, "image_processor_type": "evil.Config"}),
    ),
    "more templates": several(
        file("additional_chat_templates/tool.jinja", "{{ 1 }}"), file("chat_templates/other.jinja", "{{ 1 }}")
    ),
    "a template that imports": tokenizer(chat_template="{% include '/etc/hostname' %}{% import 'evil.py' as e %}"),
    "code beside": several(
        *(file(name, EVIL) for name in ("__init__.py", "modeling_llama.py", "configuration_llama.py", "torch.py"))
    ),
    "pickles beside": several(
        *(file(name, PICKLE) for name in ("training_args.bin", "optimizer.pt", "model.pt", "pytorch_model.bin"))
    ),
}  # fmt: skip

# Refused for what they say besides; a tokenizer's foreign class is, together with an auto_map.
REFUSED = {"auto_map of the text part", "quantisers", "quantisers of the text part"} | {
    door for door in DOORS if door.startswith("tokenizer class")
}


@dataclass
class Watch:
    """What was done while it looked: files opened, names resolved, questions asked."""

    folder: Path
    mark: Path
    opened: set[str] = field(default_factory=set)
    reached: list[str] = field(default_factory=list)

    def plant(self, *doors: str) -> None:
        """Put these doors into the folder."""
        for door in doors:
            DOORS[door](self.folder)

    def look(self) -> None:
        """Watch from now on."""
        _watching.append(self)

    def see(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(arguments[0], str | os.PathLike):
            path = os.path.realpath(arguments[0])
            if path.startswith(f"{self.folder}{os.sep}"):
                self.opened.add(os.path.relpath(path, self.folder))
        elif event in ("socket.getaddrinfo", "socket.connect", "urllib.Request", "builtins.input", "subprocess.Popen"):
            self.reached.append(f"{event} {arguments[:2]}")

    def ask(self, *_: object) -> str:
        """Somebody at the terminal who agrees to everything."""
        self.reached.append("a question")
        return "y"

    def require_shut(self) -> None:
        assert not self.mark.exists(), f"code of the model ran: {self.mark.read_text()}"
        # A place's speed is measured with a file of our own.
        foreign = {name for name in self.opened - NAMED if not re.fullmatch(r"tmp\w+\.part", name)}
        assert not foreign, "files were opened that nobody named"
        assert not self.reached


_watching: list[Watch] = []


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if _watching:
        _watching[-1].see(event, arguments)


sys.addaudithook(_audit)  # for good: a hook cannot be taken away again


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole") / "model"
    tiny_model("llama", dtype=torch.bfloat16, vocab_size=512).save_pretrained(folder)
    library_tokenizer("byte level", "{% for m in messages %}{{ m.content }}{% endfor %}").save_pretrained(folder)
    return folder


@pytest.fixture
def watch(whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watch]:
    """A copy of the model, to be watched; online as far as the hub's client knows."""
    folder = Path(os.path.realpath(tmp_path)) / "model"
    shutil.copytree(whole, folder)
    file("evil.py", f"{EVIL}# {tmp_path}")(folder)  # another text each time: loaded modules are cached by it
    found = Watch(folder, tmp_path / "mark")
    monkeypatch.setenv(MARK, str(found.mark))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(builtins, "input", found.ask)
    yield found
    _watching.clear()


def appraised(folder: Path, _work: Path) -> None:
    answer = Estimator(loaded=True).estimate(Appraise(1, LoadOptions(str(folder), "none", device="cpu")))
    if answer.verdict == "no":
        raise CoppiceError(answer.reason)


def loaded(folder: Path, work: Path, baseline: str = "", **options: Any) -> None:
    asked = LoadOptions(str(folder), device="cpu", cache_dir=str(work / "cache"), **options)
    steps = load(1, open_pair(asked), Cancellation())
    while True:
        try:
            next(steps)
        except StopIteration as end:
            if baseline:
                BASELINES[baseline](end.value, GenerateOptions())([5, 6, 7], 2)
            end.value.close()
            return


def planned(folder: Path, work: Path) -> None:
    parser = Parser(prog="plan")
    plan_command.add_arguments(parser)
    plan_command.plan(parser.parse_args(["--target", str(folder), "--draft", str(folder), "--device", "cpu"]))


def prepared(folder: Path, work: Path) -> None:
    checkpoint = open_checkpoint(str(folder))
    list(prepare_model(checkpoint, "nf4", prepared_folder(work, checkpoint, "nf4"), Cancellation()))


WAYS: dict[str, Callable[[Path, Path], None]] = {
    "appraised": appraised,
    "appraised from facts": appraised,
    "loaded": lambda folder, work: loaded(folder, work, draft="none"),
    "loaded as target and draft": lambda folder, work: loaded(folder, work, draft=str(folder)),
    "streamed": lambda folder, work: loaded(folder, work, draft="none", place="ssd"),
    "streamed, drafts for itself": lambda folder, work: loaded(folder, work, draft="self", place="ssd"),
    "a baseline": lambda folder, work: loaded(folder, work, "accelerate", draft="none"),
    "planned": planned,
    "prepared": prepared,
}


# Those that are refused end a way before it comes to others; of the others no two neighbours, which may be the same
# entry in two manners, are planted together.
FREE = [door for door in DOORS if door not in REFUSED]
ALONE = [(door,) for door in DOORS]
FEW_AT_ONCE = [*((door,) for door in DOORS if door in REFUSED), *(tuple(FREE[first::7]) for first in range(7))]


@pytest.mark.parametrize("doors", choose(FEW_AT_ONCE, ALONE), ids=", ".join)
def test_no_door_opens(doors: tuple[str, ...], watch: Watch, tmp_path: Path) -> None:
    watch.plant(*doors)
    watch.look()
    for way in ("appraised", "loaded"):
        with contextlib.suppress(CoppiceError):  # some are refused for what they say besides
            WAYS[way](watch.folder, tmp_path)
        watch.require_shut()


@pytest.mark.parametrize("way", WAYS)
def test_all_doors_at_once_open_on_no_way(way: str, watch: Watch, tmp_path: Path) -> None:
    """Without those that end it early: the model is a good one, and is opened in spite of all the others."""
    watch.plant(*(door for door in DOORS if door not in REFUSED))
    if way == "appraised from facts":
        watch.folder = facts_of(watch.folder, Path(os.path.realpath(tmp_path)) / "facts")
    watch.look()
    WAYS[way](watch.folder, tmp_path)
    watch.require_shut()
    assert {"config.json", "model.safetensors"} <= watch.opened


def test_the_watch_sees_what_it_is_to_see(watch: Watch, tmp_path: Path) -> None:
    """A loader that trusts the folder is caught: with this one, the doors are real."""
    import transformers

    watch.plant("configuration_files")
    watch.look()
    with contextlib.suppress(Exception):  # whatever it comes to behind the open door
        transformers.AutoConfig.from_pretrained(str(watch.folder), local_files_only=True, trust_remote_code=True)
    assert watch.mark.exists()
    assert {"evil.py", "config.4.0.0.json"} <= watch.opened
