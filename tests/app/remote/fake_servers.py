"""Engines elsewhere as HTTP servers on this computer: each kind's dialect, and every misbehaviour."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from engine.protocol.round_json import round_to_json
from tests.app.fake_engine import finished, round_of

WORDS = ("There", " was", " a", " fox", ".")
Body = dict[str, Any]


@dataclass
class Script:
    """What a server says. `models`: its list; `pages`: other addresses; `answer`: the parts of an answer's stream.

    `status` and `refusal`: with which the question is refused, as long as `refuses` says so. `key`: who has none is
    turned away. `asked`: what came, as (path, headers, body); `left`: set when a client has gone in mid-answer.
    """

    models: list[Body]
    answer: Callable[[Body], Iterator[bytes]]
    pages: dict[str, Any] = field(default_factory=dict)
    status: int = 200
    refusal: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    refuses: Callable[[Body], bool] = lambda _body: True
    key: str = ""
    asked: list[tuple[str, dict[str, str], Body]] = field(default_factory=list)
    left: threading.Event = field(default_factory=threading.Event)

    @property
    def questions(self) -> list[Body]:
        """The chat completions that were asked for."""
        return [body for path, _, body in self.asked if path == "/v1/chat/completions"]


class Handler(BaseHTTPRequestHandler):
    """Plays the script of its server."""

    protocol_version = "HTTP/1.1"
    script: Script

    def do_GET(self) -> None:
        """The list of models, and other pages."""
        self.script.asked.append((self.path, dict(self.headers), {}))
        if self._is_welcome():
            found = {"object": "list", "data": self.script.models} if self.path == "/v1/models" else None
            self._tell(found or self.script.pages.get(self.path))

    def do_POST(self) -> None:
        """An answer, or another page that is told what is asked."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.script.asked.append((self.path, dict(self.headers), body))
        if not self._is_welcome():
            return
        if self.path != "/v1/chat/completions":
            page = self.script.pages.get(self.path)
            self._tell(page(body) if callable(page) else page)
        elif self.script.status != 200 and self.script.refuses(body):
            self._tell(self.script.refusal, self.script.status, self.script.headers)
        else:
            self._stream(body)

    def _stream(self, body: Body) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            for part in self.script.answer(body):
                self.wfile.write(f"{len(part):x}\r\n".encode() + part + b"\r\n")
                self.wfile.flush()
            self.wfile.write(b"0\r\n\r\n")
        except OSError:
            self.script.left.set()
        self.close_connection = True

    def _is_welcome(self) -> bool:
        if self.script.key and self.headers.get("Authorization") != f"Bearer {self.script.key}":
            self._tell({"error": {"message": "Invalid key", "type": "authentication_error"}}, 401)
            return False
        return True

    def _tell(self, value: Any, status: int = 200, headers: dict[str, str] | None = None) -> None:
        status = 404 if value is None and status == 200 else status
        content = value if isinstance(value, bytes) else json.dumps(value or {"detail": "Not Found"}).encode()
        self.send_response(status)
        for name, each in (headers or {}).items():
            self.send_header(name, each)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        with suppress(OSError):
            self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is printed."""


@contextmanager
def serving(script: Script) -> Iterator[str]:
    """Serve a script on this computer; gives the address."""
    handler = type("ScriptHandler", (Handler,), {"script": script})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def free_address() -> str:
    """An address of this computer at which nothing listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{taken.getsockname()[1]}"


def event(value: Any) -> bytes:
    """One event of a stream."""
    return b"data: " + (value if isinstance(value, bytes) else json.dumps(value).encode()) + b"\n\n"


def chunk(delta: Body | None = None, finish: str | None = None, **more: Any) -> bytes:
    """A part of an answer, as every server sends it."""
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    return event({"id": "1", "object": "chat.completion.chunk", "model": "demo", "choices": choices, **more})


DONE = event(b"[DONE]")


def usage(prompt: int, new: int, cached: int = 0) -> Body:
    """The counts of an answer."""
    return {
        "usage": {"prompt_tokens": prompt, "completion_tokens": new, "prompt_tokens_details": {"cached_tokens": cached}}
    }


# ---- dialects -------------------------------------------------------------------------------------------------------


def vllm(with_metrics: bool = True) -> Script:
    """vLLM 0.32 with a draft; per-request metrics if they were switched on, counters at /metrics in any case."""
    counts = iter((0, 3))
    told = {
        "mean_acceptance_length": 2.0, "draft_acceptance_rate": 0.5, "num_spec_steps": 2,
        "per_step_accepted": [2, 0], "per_step_drafted": [2, 2],
    }  # fmt: skip

    def answer(_body: Body) -> Iterator[bytes]:
        yield chunk({"role": "assistant", "content": ""}, **usage(9, 0))
        for number, word in enumerate(WORDS, start=1):
            yield chunk({"content": word}, "stop" if number == len(WORDS) else None, **usage(9, number))
        metrics: Body = {"metrics": {"speculative_decoding": told}} if with_metrics else {}
        yield chunk(None, **usage(9, 5, 4), **metrics)
        yield DONE

    class Counting(dict[str, Any]):
        def get(self, path: str, default: Any = None) -> Any:
            if path != "/metrics":
                return super().get(path, default)
            steps = next(counts, 3)
            return (
                b"# TYPE vllm:spec_decode_num_drafts_total counter\n"
                b'vllm:spec_decode_num_drafts_total{engine="0",model_name="demo"} %d.0\n'
                b'vllm:spec_decode_num_draft_tokens_total{engine="0",model_name="demo"} %d.0\n'
                b'vllm:spec_decode_num_accepted_tokens_total{engine="0",model_name="demo"} %d.0\n'
                % (10 + steps, 40 + 4 * steps, 7 + steps)
            )

    models = [{"id": "demo", "object": "model", "owned_by": "vllm", "max_model_len": 1024}]
    pages = Counting({"/tokenize": lambda body: {"count": 12 if "messages" in body else 3, "max_model_len": 1024}})
    return Script(models, answer, pages)


def llama_server(has_long_prompt: bool = False) -> Script:
    """llama-server with a draft: timings with every part, a context shorter than the model was trained for."""

    def answer(_body: Body) -> Iterator[bytes]:
        for read, milliseconds in ((3, 0), (6, 1500), (9, 2e9), (12, 3000)) if has_long_prompt else ():
            told = {"total": 12, "cache": 3, "processed": read, "time_ms": int(milliseconds)}
            yield chunk({"role": "assistant", "content": None}, prompt_progress=told)
        yield chunk({"role": "assistant", "content": None})
        for number, word in enumerate(WORDS, start=1):
            yield chunk({"content": word}, timings={"predicted_n": number})
        timings = {
            "cache_n": 3, "prompt_n": 9, "prompt_ms": 40.0, "predicted_n": 5, "predicted_ms": 100.0,
            "predicted_per_second": 50.0, "draft_n": 6, "draft_n_accepted": 3,
        }  # fmt: skip
        yield chunk({}, "stop", timings=timings)
        yield DONE

    models = [{"id": "demo.gguf", "owned_by": "llamacpp", "meta": {"n_ctx_train": 8192}}]
    pages = {
        "/props": {"default_generation_settings": {"n_ctx": 2048}, "model_path": "demo.gguf"},
        "/tokenize": lambda body: {"tokens": list(range(len(body["content"])))},
        "/apply-template": lambda body: {"prompt": "<user>" + body["messages"][-1]["content"]},
    }
    return Script(models, answer, pages)


def sglang() -> Script:
    """SGLang with a reasoning parser; usage with every part."""

    def answer(_body: Body) -> Iterator[bytes]:
        yield chunk({"role": "assistant", "content": ""})
        yield chunk({"content": None, "reasoning_content": "A fox"})
        yield chunk({"content": None, "reasoning_content": " it is."})
        for word in WORDS:
            yield chunk({"content": word, "reasoning_content": None})
        yield chunk({"content": None}, "length")
        yield chunk(None, **usage(7, 11))
        yield DONE

    return Script([{"id": "org/demo", "owned_by": "sglang", "max_model_len": 4096}], answer)


def ollama() -> Script:
    """Ollama: `reasoning`, no counts in its list, several models."""

    def answer(_body: Body) -> Iterator[bytes]:
        yield chunk({"role": "assistant", "content": "", "reasoning": "Hm."})
        for word in WORDS:
            yield chunk({"role": "assistant", "content": word})
        yield chunk({"role": "assistant", "content": ""}, "stop")
        yield chunk(None, **usage(11, 8))
        yield DONE

    return Script([{"id": name, "owned_by": "library"} for name in ("demo:latest", "other:7b")], answer)


def lm_studio() -> Script:
    """LM Studio: knows no stream options of others, and says so."""

    def answer(_body: Body) -> Iterator[bytes]:
        yield b": comment\n\n"
        for word in WORDS:
            yield chunk({"role": "assistant", "content": word})
        yield chunk({}, "stop")
        yield DONE

    refusal = {"error": "Unrecognized key(s) in object: 'min_p'"}
    return Script(
        [{"id": "demo", "owned_by": "organization_owner"}],
        answer,
        status=400,
        refusal=refusal,
        refuses=lambda body: "min_p" in body,
    )


ROUNDS = tuple(round_of(1 << 40, index, word) for index, word in enumerate(WORDS))
ENDING = replace(finished(1 << 40, "stop", len(WORDS)), text="!")


def coppice() -> Script:
    """Another Coppice, which tells of every round; its own numbers are not ours."""

    def answer(_body: Body) -> Iterator[bytes]:
        yield b": 2 ahead\n\n: 2 ahead\n\n: 0 ahead\n\n: still reading\n\n"
        yield chunk({"role": "assistant", "content": ""}, coppice={"prefilled": {"prompt_tokens": 8, "seconds": 0.5}})
        for round in ROUNDS:
            yield chunk({"content": round.text}, coppice={"round": round_to_json(round)})
        yield chunk({"content": ENDING.text})
        yield chunk({}, "stop", coppice={"finished": asdict(ENDING)}, timings={"predicted_n": 9})
        yield chunk(None, **usage(8, 10))
        yield DONE

    pages = {
        "/v1/messages/count_tokens": lambda body: {"input_tokens": 9 + len(body["system"])},
        "/tokenize": lambda body: {"tokens": list(body["content"])},
    }
    return Script([{"id": "demo", "owned_by": "coppice", "max_model_len": 2048}], answer, pages)


def another() -> Script:
    """Some other server, which does not stream."""

    def answer(_body: Body) -> Iterator[bytes]:
        yield event({"choices": [{"message": {"content": "".join(WORDS)}, "finish_reason": "stop"}], **usage(4, 5)})

    return Script([{"id": "demo", "owned_by": "somebody"}], answer)
