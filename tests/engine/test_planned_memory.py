"""What an answer's document says was planned, against the memory that it says was taken.

Not for the first load of its kind on a machine: measuring that takes memory too, beside what little is loaded then.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.bench.inflate import inflate
from tests.campaigns.extent import is_whole

TOLERANCE = 0.06
MODEL_BYTES = 300 << 20  # so large that a wrong count shows behind what the libraries take
PROMPT = ",".join(str(100 + number) for number in range(192))


def generated(cache: Path, *options: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "engine", "generate", "--json", "--token-ids", PROMPT, "--max-new-tokens", "16"]
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    run = subprocess.run([*command, *options], capture_output=True, text=True, check=True, env=environment)
    document: dict[str, Any] = json.loads(run.stdout)
    return document


@pytest.mark.skipif(sys.platform != "linux", reason="other allocators keep more of what was freed")
@pytest.mark.skipif(not is_whole(), reason="writes and measures a model of some size: for the proofs")
def test_a_streamed_and_a_resident_model_take_what_was_planned(tmp_path: Path) -> None:
    model = inflate(tmp_path / "model", MODEL_BYTES)
    for place in ("ssd", "device"):
        options = ("--target", str(model), "--weights", "bfloat16", "--context", "256", "--place", place)
        if place == "ssd":
            generated(tmp_path / "cache", *options)  # measures
        found = generated(tmp_path / "cache", *options)
        planned = found["planned_bytes"]
        assert planned["peak_rss"] == pytest.approx(found["peak_rss_bytes"], rel=TOLERANCE), place
        assert planned["peak_rss"] > planned["ram"] >= planned["device"] > 0
