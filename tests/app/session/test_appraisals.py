"""From the hub's listing to an estimate, by the session's engine."""

from pathlib import Path

from app.hub.client import HubClient
from app.hub.facts import fetch_facts
from app.library.estimates import Estimator, Pricing, Terms, in_words
from app.system.background import Stop
from engine.protocol.messages import Appraised
from tests.app.hub.conftest import client, connect, hub
from tests.app.hub.repositories import sharded
from tests.app.session.person import Session
from tests.hub import Hub

__all__ = ["client", "connect", "hub"]


def test_a_model_of_the_hub_gets_its_price_before_it_is_downloaded(
    session: Session, hub: Hub, client: HubClient, tmp_path: Path
) -> None:
    hub.add("org/tiny", sharded())
    facts = fetch_facts(client, "org/tiny", tmp_path / "cache", Stop())
    estimator = Estimator(session.link, Terms("bfloat16", context_tokens=200, device="cpu"))
    session.link.events_arrived.connect(estimator.on_events)
    session.link.engine_stopped.connect(estimator.on_engine_stopped)
    found: dict[str, Appraised] = {}
    estimator.priced.connect(found.__setitem__)
    whole = Pricing("org/tiny", str(facts.folder))
    estimator.show([whole, Pricing("embedded", "embedded", "auto"), Pricing("missing", str(tmp_path / "none"))])
    session.wait(lambda: len(found) == 3)
    assert in_words(found["org/tiny"]).startswith("Runs on the CPU, about ")
    assert found["embedded"].parameters > found["org/tiny"].parameters > 0
    assert in_words(found["missing"]).startswith("Cannot be used: There is no model folder")
    found.clear()
    estimator.set_terms(Terms("bfloat16", context_tokens=400, device="cpu"))
    session.wait(lambda: "org/tiny" in found)
    assert found["org/tiny"].context_tokens == 400
