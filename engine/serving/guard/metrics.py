"""The server in figures, as Prometheus reads them: its text format 0.0.4, which is counters and a few lines about each.

https://prometheus.io/docs/instrumenting/exposition_formats/
"""

import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator

from engine.protocol.messages import Event, Finished, Prefilled, Round, Statistics

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
TOKENS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)  # of a pass: upper bounds of what is counted together

COUNTERS = {
    "coppice_http_requests_total": "Requests by path and status",
    "coppice_answers_total": "Answers by why they ended",
    "coppice_prompt_tokens_total": "Tokens of prompts",
    "coppice_cached_tokens_total": "Tokens of prompts that were in the cache already",
    "coppice_written_tokens_total": "Tokens of answers",
    "coppice_passes_total": "Passes of the target after prompts were read",
    "coppice_short_passes_total": "Passes of trees that were smaller than wanted, or of none, for lack of memory",
    "coppice_drafted_tokens_total": "Nodes of the trees that passes verified, roots left out",
    "coppice_accepted_tokens_total": "Nodes that were accepted, roots left out",
    "coppice_streamed_bytes_total": "Bytes of weights that were streamed",
    "coppice_prefill_seconds_total": "Seconds in which prompts were read",
    "coppice_decode_seconds_total": "Seconds in which answers were written",
}
WAITING, MODEL = "coppice_waiting_requests", "coppice_model_info"
PER_PASS = "coppice_tokens_per_pass"  # noqa: S105  # no password

Labels = tuple[tuple[str, str], ...]


class Metrics:
    """Counts what the server does; may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[tuple[str, Labels]] = Counter()
        self._passes = [0] * (len(TOKENS) + 1)
        self._tokens = 0

    def responded(self, path: str, status: int) -> None:
        """A request is over. `path` is one of few: that of the route, not what the client wrote.

        `status`: of the response, 0 where it was never whole; the same that a `Visit` tells.
        """
        with self._lock:
            self._counts["coppice_http_requests_total", (("path", path), ("status", str(status)))] += 1

    def hear(self, event: Event) -> None:
        """What the engine tells of a client's answer."""
        with self._lock:
            if isinstance(event, Round):
                self._passes[bisect_left(TOKENS, event.new_tokens)] += 1
                self._tokens += event.new_tokens
                self._add("accepted_tokens", max(0, len(event.accepted) - 1))
            elif isinstance(event, Prefilled):
                self._add("prompt_tokens", event.prompt_tokens)
                self._add("cached_tokens", event.cached_tokens)
                self._add("prefill_seconds", event.seconds)
            elif isinstance(event, Finished):
                self._counts["coppice_answers_total", (("reason", event.reason),)] += 1
                self._add_up(event.statistics)

    def _add_up(self, statistics: Statistics | None) -> None:
        if statistics:
            self._add("written_tokens", statistics.new_tokens)
            self._add("passes", statistics.passes)
            self._add("short_passes", statistics.short_passes)
            self._add("drafted_tokens", statistics.drafted_nodes)
            self._add("streamed_bytes", statistics.bytes_streamed)
            self._add("decode_seconds", statistics.seconds.decode)

    def _add(self, name: str, number: float) -> None:
        # The values are floats to Prometheus as well.
        self._counts[f"coppice_{name}_total", ()] += number  # type: ignore[assignment]

    def text(self, waiting: int, model: Labels | None) -> str:
        """Everything there is. `model`: what the loaded pair is called, if one is."""
        with self._lock:
            counts, passes, tokens = self._counts.copy(), list(self._passes), self._tokens
        lines = [line for name, about in COUNTERS.items() for line in _counter(name, about, counts)]
        lines += [*_head(WAITING, "gauge", "Requests that nobody works at yet"), _sample(WAITING, (), waiting)]
        lines += _head(MODEL, "gauge", "1 for the pair that is loaded; there is none while nothing is")
        lines += [_sample(MODEL, model, 1)] if model else []
        return "\n".join([*lines, *_histogram(passes, tokens), ""])


def _counter(name: str, about: str, counts: Counter[tuple[str, Labels]]) -> Iterator[str]:
    yield from _head(name, "counter", about)
    samples = [(labels, value) for (of, labels), value in sorted(counts.items()) if of == name]
    has_labels = name in ("coppice_http_requests_total", "coppice_answers_total")
    yield from (_sample(name, labels, value) for labels, value in samples or ([] if has_labels else [((), 0)]))


def _histogram(passes: list[int], tokens: int) -> Iterator[str]:
    yield from _head(PER_PASS, "histogram", "Tokens that answers grew by, per pass")
    total = 0
    for bound, count in zip((*map(str, TOKENS), "+Inf"), passes, strict=True):
        total += count
        yield _sample(f"{PER_PASS}_bucket", (("le", bound),), total)
    yield from (_sample(f"{PER_PASS}_sum", (), tokens), _sample(f"{PER_PASS}_count", (), total))


def _head(name: str, kind: str, about: str) -> tuple[str, str]:
    return f"# HELP {name} {about}", f"# TYPE {name} {kind}"


def _sample(name: str, labels: Labels, value: float) -> str:
    written = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels)
    return f"{name}{{{written}}} {value}" if written else f"{name} {value}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
