"""What the application loads before it is needed: one process that goes from a bare start to all that comes later."""

import json
import subprocess
import sys
from functools import cache

import pytest

from app.system.paths import ROOT
from tests.campaigns.extent import for_the_proofs

LIBRARY = (
    "hub.client", "hub.facts", "hub.search", "hub.tokens", "library.estimates", "library.hub_queries",
    "library.local.models", "library.local.removal", "library.local.verification", "library.pairing.drafts",
    "library.pairing.suggestions", "library.pairing.vocabulary",
)  # fmt: skip

SCRIPT = f"""
import json, sys
from importlib import import_module
steps = {{}}
def step(name, *modules):
    for each in modules:
        import_module(each)
    steps[name] = [*sys.modules]
step("start", "app.main")
step("library", *(f"app.{{name}}" for name in {LIBRARY}))
step("window", "app.shell.window", "app.chat.text.document", "app.chat.typesetting.drawing_process")
from app.shell.deferred import LATER
step("all", "app.shell.wiring", *LATER)
print(json.dumps(steps))
"""


@cache
def loaded() -> dict[str, set[str]]:
    """The modules after each step; those of the steps before are among them."""
    done = subprocess.run([sys.executable, "-c", SCRIPT], cwd=ROOT, capture_output=True, text=True, check=True)
    return {name: set(modules) for name, modules in json.loads(done.stdout).items()}


@pytest.mark.parametrize(
    ("step", "heavy"),
    [
        ("start", {"httpx2", "requests", "ssl", "app.telemetry.panel"}),
        ("library", {"torch", "transformers", "tokenizers", "safetensors", "huggingface_hub", "httpx2", "keyring"}),
        ("window", {"ziamath", "ziafont", "latex2mathml", "pygments.lexers", "pypdf"}),
        ("all", {"torch", "numba", "transformers", "tokenizers", "safetensors", "huggingface_hub"}),
    ],
)
def test_nothing_heavy_is_loaded_before_it_is_needed(step: str, heavy: set[str]) -> None:
    assert not loaded()[step] & heavy


def test_of_the_engine_there_is_only_what_both_use() -> None:
    assert {each for each in loaded()["all"] if each.split(".")[0] == "engine"} == {
        "engine",
        "engine.errors",
        "engine.files",
        "engine.gguf_header",
        "engine.kept_files",
        "engine.memory_limit",
        "engine.protocol",
        "engine.protocol.heads",
        "engine.protocol.keeping",
        "engine.protocol.messages",
        "engine.protocol.options",
        "engine.protocol.pictures",
        "engine.protocol.variants",
        "engine.protocol.reasoning",
        "engine.protocol.residence",
        "engine.protocol.sentences",
        "engine.protocol.serving",
        "engine.protocol.tool_servers",
        "engine.protocol.tools",
        "engine.protocol.watching",
    }


@for_the_proofs  # of a library of others
def test_the_hub_client_itself_loads_no_torch() -> None:
    code = "import huggingface_hub, sys; from huggingface_hub import constants, get_token; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {name.partition(".")[0] for name in done.stdout.split()} & {"torch", "transformers", "tokenizers"}
