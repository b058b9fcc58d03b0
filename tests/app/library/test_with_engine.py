"""From the hub's listing to an estimate, through a real engine process; and what all this loads into the window."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from app.engine.link import EngineLink
from app.engine.process import engine_program
from app.hub.client import HubClient
from app.hub.facts import fetch_facts
from app.library.estimates import Estimator, Pricing, Terms, in_words
from app.system.background import Stop
from engine.protocol.messages import Appraised
from tests.app.hub.conftest import client, connect, hub
from tests.app.hub.repositories import sharded
from tests.hub import Hub

__all__ = ["client", "connect", "hub"]
PATIENCE_MS = 120_000
MODULES = (
    "hub.client", "hub.facts", "hub.search", "hub.tokens", "library.estimates", "library.hub_queries",
    "library.local.models", "library.local.removal", "library.local.verification", "library.pairing.drafts",
    "library.pairing.suggestions", "library.pairing.vocabulary",
)  # fmt: skip


@pytest.fixture
def link(qtbot: QtBot, tmp_path: Path) -> Iterator[EngineLink]:
    made = EngineLink(engine_program(tmp_path / "engine.log"))
    made.start()
    yield made
    made.close()
    made.wait_closed()


def test_a_model_of_the_hub_gets_its_price_before_it_is_downloaded(
    qtbot: QtBot, hub: Hub, client: HubClient, link: EngineLink, tmp_path: Path
) -> None:
    hub.add("org/tiny", sharded())
    facts = fetch_facts(client, "org/tiny", tmp_path / "cache", Stop())
    estimator = Estimator(link, Terms("bfloat16", context_tokens=200, device="cpu"))
    link.events_arrived.connect(estimator.on_events)
    link.engine_stopped.connect(estimator.on_engine_stopped)
    found: dict[str, Appraised] = {}
    estimator.priced.connect(found.__setitem__)
    whole = Pricing("org/tiny", str(facts.folder))
    estimator.show([whole, Pricing("embedded", "embedded", "auto"), Pricing("missing", str(tmp_path / "none"))])
    qtbot.waitUntil(lambda: len(found) == 3, timeout=PATIENCE_MS)
    assert in_words(found["org/tiny"]).startswith("Runs on the CPU, about ")
    assert found["embedded"].parameters > found["org/tiny"].parameters > 0
    assert in_words(found["missing"]).startswith("Cannot be used: There is no model folder")
    found.clear()
    estimator.set_terms(Terms("bfloat16", context_tokens=400, device="cpu"))
    qtbot.waitUntil(lambda: "org/tiny" in found, timeout=PATIENCE_MS)
    assert found["org/tiny"].context_tokens == 400


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
