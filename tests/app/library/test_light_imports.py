"""What the library loads into the window before anybody goes online."""

import subprocess
import sys

MODULES = (
    "hub.client", "hub.facts", "hub.search", "hub.tokens", "library.estimates", "library.hub_queries",
    "library.local.models", "library.local.removal", "library.local.verification", "library.pairing.drafts",
    "library.pairing.suggestions", "library.pairing.vocabulary",
)  # fmt: skip


def test_the_library_loads_nothing_heavy_before_it_goes_online() -> None:
    names = ", ".join(f"app.{name}" for name in MODULES)
    code = f"import {names}; import sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert not loaded & {"torch", "transformers", "tokenizers", "safetensors", "huggingface_hub", "httpx2", "keyring"}


def test_the_hub_client_itself_loads_no_torch() -> None:
    code = "import huggingface_hub, sys; from huggingface_hub import constants, get_token; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {name.partition(".")[0] for name in done.stdout.split()} & {"torch", "transformers", "tokenizers"}
