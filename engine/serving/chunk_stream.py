"""The chunks of a completion as OpenAI's API has them: unnamed, and a last one that says so."""

import time
import uuid
from functools import partial

from engine import __version__
from engine.serving.event_stream import EventFormat, SentEvent, data_of
from engine.serving.guard.errors import error_event

Chunk = SentEvent
FINGERPRINT = f"coppice-{__version__}"
CHUNKS = EventFormat(data_of, partial(error_event, "openai"), "data: [DONE]\n\n")


def head_of(kind: str, model: str) -> Chunk:
    """What every chunk of one completion begins with, and the whole."""
    return {
        "id": f"{kind}-{uuid.uuid4().hex}",
        "created": int(time.time()),
        "model": model,
        "system_fingerprint": FINGERPRINT,
    }
