"""Real engines as servers, on the embedded pair: llama.cpp's, vLLM, and Coppice's own; each a process that is ended."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx2
import transformers

from tests.engine.gguf_files import write_gguf

ROOT = Path(__file__).parents[2]
MODELS = ROOT / "resources" / "models"
CONTEXT = 1024
DRAFTED = 4
START_SECONDS = 300.0  # vLLM takes minutes on a busy machine

_LLAMA = """
import sys, time, xllamacpp
target, draft, port = sys.argv[1:4]
params = xllamacpp.CommonParams()
params.model.path, params.n_ctx, params.port, params.verbosity = target, {context}, int(port), 0
params.cpuparams.n_threads = params.speculative.draft.cpuparams.n_threads = 1
params.speculative.draft.mparams.path, params.speculative.draft.n_max = draft, {drafted}
params.speculative.types = [xllamacpp.common_speculative_type.COMMON_SPECULATIVE_TYPE_DRAFT_SIMPLE]
server = xllamacpp.Server(params)
time.sleep(1 << 20)
"""


class ServerProcess:
    """A server that answers. `address`: its URL."""

    def __init__(self, command: Sequence[str], port: int, log: Path, **environment: str) -> None:
        """Start it; its output goes to `log`."""
        self.address = f"http://127.0.0.1:{port}"
        self._log = log
        with log.open("wb") as file:
            self._process = subprocess.Popen(
                list(command), cwd=ROOT, stdout=file, stderr=file, env={**os.environ, **environment},
                start_new_session=True,
            )  # fmt: skip

    def wait(self) -> None:
        """Block until its models are loaded. Raises `RuntimeError` with the end of its log where it never does."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self._process.poll() is None:
            try:
                if httpx2.get(f"{self.address}/health", timeout=5).status_code == httpx2.codes.OK:
                    return
            except httpx2.HTTPError:
                pass
            time.sleep(0.5)
        raise RuntimeError(f"it does not answer:\n{self._log.read_text('utf-8', 'replace')[-2000:]}")

    def kill(self) -> None:
        """End it with all that it has started, at once."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


def free_port() -> int:
    """A port that nobody listens at now."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@contextmanager
def serving(kind: str, folder: Path, vllm: str = "", models: Path = MODELS) -> Iterator[ServerProcess]:
    """A server of this kind, `llama`, `vllm` or `coppice`; `vllm`: its program. Raises `RuntimeError`.

    `models`: where the pair lies, in folders that are called as those of the embedded one.
    """
    port = free_port()
    made = {"llama": _llama, "vllm": _vllm, "coppice": _coppice}[kind](folder, port, vllm, models)
    try:
        made.wait()
        yield made
    finally:
        made.kill()


def _llama(folder: Path, port: int, _vllm: str, models: Path) -> ServerProcess:
    files = []
    for name in ("demo-target", "demo-draft"):
        model = transformers.AutoModelForCausalLM.from_pretrained(models / name)
        files.append(str(write_gguf(folder / f"{name}.gguf", model, "F32", models / name)))
    program = _LLAMA.format(context=CONTEXT, drafted=DRAFTED)
    return ServerProcess([sys.executable, "-c", program, *files, str(port)], port, folder / "llama.log")


def _vllm(folder: Path, port: int, vllm: str, models: Path) -> ServerProcess:
    draft = f'{{"model": "{models / "demo-draft"}", "num_speculative_tokens": {DRAFTED}, "method": "draft_model"}}'
    command = [
        vllm, "serve", str(models / "demo-target"), "--served-model-name", "demo", "--host", "127.0.0.1", "--port",
        str(port), "--dtype", "float32", "--max-model-len", str(CONTEXT), "--enforce-eager",
        "--speculative-config", draft, "--per-request-spec-decode-metrics", "detailed",
    ]  # fmt: skip
    quiet = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_CPU_KVCACHE_SPACE": "1", "OMP_NUM_THREADS": "1"}
    return ServerProcess(command, port, folder / "vllm.log", **quiet)


def _coppice(folder: Path, port: int, _vllm: str, models: Path) -> ServerProcess:
    pair = ["--target", str(models / "demo-target"), "--draft", str(models / "demo-draft")]
    command = [sys.executable, "-m", "engine", "serve", "--port", str(port), "--context", str(CONTEXT), *pair]
    return ServerProcess(command, port, folder / "coppice.log")
