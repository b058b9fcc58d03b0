"""What the engine sees of the environment: no token, no key, no proxy; and all that torch and the hub's cache need."""

import os
import sys
import time
from pathlib import Path

import pytest

from app.engine.process import ADDRESS_VARIABLE, KEY_VARIABLE, EngineChild
from app.engine.program import EngineProgram, engine_program
from app.installation.runtime.environment import engine_environment, engine_variables
from engine.protocol.messages import Ready

TOKEN = "hf_" + "aB3" * 12
SECRETS = {
    "HF_TOKEN": TOKEN,
    "HUGGING_FACE_HUB_TOKEN": TOKEN,
    "HF_TOKEN_PATH": "/home/ada/token",
    "OPENAI_API_KEY": "sk-1",
    "ANTHROPIC_API_KEY": "sk-2",
    "GITHUB_TOKEN": "ghp_1",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "AWS_ACCESS_KEY_ID": "AKIA",
    "PGPASSWORD": "secret",
    "WANDB_API_KEY": "secret",
    "SSH_AUTH_SOCK": "/tmp/agent",
    "HTTPS_PROXY": "http://ada:secret@proxy:3128",
    "https_proxy": "http://ada:secret@proxy:3128",
    "ALL_PROXY": "socks5://proxy",
    "HF_ENDPOINT": "https://ada:secret@mirror",
    "PIP_INDEX_URL": "https://ada:secret@index",
    "DATABASE_URL": "postgres://ada:secret@db",
    "KUBECONFIG": "/home/ada/.kube/config",
    # on the list by their beginning, and still secrets
    "COPPICE_HUB_TOKEN": "secret",
    "COPPICE_SERVE_API_KEY": "secret",
    "COPPICE_INDEX": "https://ada:secret@index",
    "TORCH_SECRET": "secret",
    "XDG_PASSWORD": "secret",
    "CUDA_NOTE": TOKEN,
}
NEEDED = {
    "PATH": "/bin",
    "HOME": "/home/ada",
    "TMPDIR": "/scratch",
    "LANG": "de_DE.UTF-8",
    "LC_ALL": "C",
    "XDG_CACHE_HOME": "/cache",
    "LD_LIBRARY_PATH": "/cuda/lib",
    "CUDA_VISIBLE_DEVICES": "1",
    "NVIDIA_VISIBLE_DEVICES": "all",
    "HIP_VISIBLE_DEVICES": "0",
    "HSA_OVERRIDE_GFX_VERSION": "10.3.0",
    "ROCM_PATH": "/opt/rocm",
    "OMP_NUM_THREADS": "3",
    "MKL_NUM_THREADS": "3",
    "KMP_AFFINITY": "compact",
    "OPENBLAS_NUM_THREADS": "3",
    "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
    "TORCH_CUDNN_SDPA_ENABLED": "1",
    "MALLOC_ARENA_MAX": "2",
    "TOKENIZERS_PARALLELISM": "false",
    "HF_HOME": "/models/hf_everything_that_was_downloaded",
    "HF_HUB_CACHE": "/models/hub",
    "HF_HUB_OFFLINE": "1",
    "PYTHONUTF8": "1",
    "COPPICE_FAKE_START": "mute",
    "SystemRoot": r"C:\Windows",
    "LOCALAPPDATA": r"C:\Users\Ada\AppData\Local",
}


@pytest.mark.parametrize("name", SECRETS)
def test_no_secret_is_handed_on(name: str) -> None:
    assert engine_variables({name: SECRETS[name]}) == {}
    assert name not in engine_environment({name: SECRETS[name]})


@pytest.mark.parametrize("name", NEEDED)
def test_what_the_engine_needs_is_handed_on(name: str) -> None:
    assert engine_variables({name: NEEDED[name]}) == {name: NEEDED[name]}


def test_what_nobody_has_put_on_the_list_stays_here() -> None:
    assert (
        engine_variables({"QT_QPA_PLATFORM": "x", "DISPLAY": ":0", "DBUS_SESSION_BUS_ADDRESS": "x", "NEW": "x"}) == {}
    )


@pytest.mark.skipif(sys.platform != "linux", reason="reads a process's environment and limits from /proc")
def test_a_real_engine_starts_without_a_secret_and_is_ended_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    here = int(Path("/proc/self/oom_score_adj").read_text("utf-8"))
    child = EngineChild(engine_program(tmp_path / "engine.log"))
    try:
        with child.connect() as connection:
            assert isinstance(connection.recv(), Ready)
            process = Path(f"/proc/{child.pid}")
            seen = dict(
                each.partition("=")[::2] for each in (process / "environ").read_text("utf-8").split("\0") if each
            )
            assert not seen.keys() & SECRETS.keys()
            assert not {"secret", TOKEN} & set(seen.values())
            assert seen["PATH"] == os.environ["PATH"]
            assert {ADDRESS_VARIABLE, KEY_VARIABLE} <= seen.keys()
            assert int((process / "oom_score_adj").read_text("utf-8")) == min(1000, here + 500)
            limits = (process / "limits").read_text("utf-8").splitlines()
            assert next(each.split()[4:6] for each in limits if "core file" in each) == ["0", "0"]
        assert child.end() == 0, (tmp_path / "engine.log").read_text("utf-8")
    finally:
        child.kill()
        child.end()


def test_a_program_that_hands_everything_on_is_not_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The list holds where the engine is started, however its environment was made."""

    class Careless(EngineProgram):
        def find(self) -> tuple[tuple[str, ...], dict[str, str]]:
            return self.arguments, dict(os.environ)

    monkeypatch.setenv("HF_TOKEN", TOKEN)
    said = tmp_path / "said"
    script = f"import os, pathlib; pathlib.Path({str(said)!r}).write_text(','.join(os.environ))"
    child = EngineChild(Careless((sys.executable, "-c", script), tmp_path / "engine.log"))
    deadline = time.monotonic() + 30
    while not said.exists() or not said.read_text("utf-8"):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    child.end()
    assert "PATH" in said.read_text("utf-8").split(",")
    assert "HF_TOKEN" not in said.read_text("utf-8").split(",")
