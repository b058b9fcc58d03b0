"""Makes the lock of one build of the engine's runtime: asks the indexes, downloads every wheel once, writes them down.

Needs the network, uv and pip. What is downloaded stays in the folder given by --wheels, which then is the wheel folder
that installs this build without a network.
"""

import argparse
import hashlib
import os
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from app.installation.runtime.lock import Lock, Wheel  # noqa: E402  # after the path is set

PACKAGES = (
    "torch",
    "transformers",
    "tokenizers",
    "safetensors",
    "huggingface-hub",
    "jinja2",
    "psutil",
    "numpy",
    "numba",
    "pillow",
    "platformdirs",
    "fastapi",
    "uvicorn",
    "pydantic",
    "llguidance",
    "mcp",
)
ON_NVIDIA = ("bitsandbytes",)
TORCH = "https://download.pytorch.org/whl/"
SYSTEMS = {
    "linux-x86_64": (
        "x86_64-manylinux_2_31",
        (
            *(f"manylinux_2_{minor}_x86_64" for minor in range(31, 4, -1)),
            *(f"manylinux{year}_x86_64" for year in (2014, 2010, 1)),
        ),
    ),
    "windows-x86_64": ("x86_64-pc-windows-msvc", ("win_amd64",)),
    "macos-arm64": ("aarch64-apple-darwin", ("macosx_14_0_arm64", "macosx_14_0_universal2")),
}
INDEXES = {
    ("linux-x86_64", "cpu"): "cpu",
    ("linux-x86_64", "rocm"): "rocm7.2",
    ("windows-x86_64", "cuda"): "cu130",
}
"""Where torch comes from PyTorch's own index; elsewhere the default one has the right build."""


def main() -> int:
    """Write `packaging/locks/SYSTEM/BUILD.json`."""
    options = _parser().parse_args()
    index = INDEXES.get((options.system, options.build), "")
    options.wheels.mkdir(parents=True, exist_ok=True)
    if not options.no_download:
        _download(options, TORCH + index if index else "")
    files = sorted(options.wheels.glob("*.whl"))
    wheels = tuple(_wheel(path, TORCH + index if index else "") for path in files)
    lock = Lock(options.build, options.python, sum(map(_unpacked, files)), wheels)
    target = ROOT / "packaging" / "locks" / options.system / f"{options.build}.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(lock.text(), encoding="utf-8")
    print(f"{target}: {len(wheels)} wheels, {lock.bytes / 1e6:,.0f} MB, {lock.installed_bytes / 1e6:,.0f} MB unpacked")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("system", choices=SYSTEMS)
    parser.add_argument("build", choices=("cpu", "cuda", "rocm", "metal"))
    parser.add_argument("--wheels", metavar="DIR", type=Path, required=True, help="the folder that takes the wheels")
    parser.add_argument("--python", default="3.11", help="the version of the runtime's Python (default: 3.11)")
    parser.add_argument("--no-download", action="store_true", help="the folder has every wheel, and no other")
    return parser


def _download(options: argparse.Namespace, index: str) -> None:
    platform, tags = SYSTEMS[options.system]
    extra = ["--extra-index-url", index] if index else []
    names = [*PACKAGES, *(ON_NVIDIA if options.build == "cuda" else ())]
    if index:
        names[0] = f"torch=={_torch_version()}+{index.rpartition('/')[2]}"
    resolve = ["uv", "pip", "compile", "-q", "--no-header", "--no-annotate", "--only-binary", ":all:", "-"]
    resolve += ["--python-version", options.python, "--python-platform", platform, *extra]
    resolve += ["--index-strategy", "unsafe-best-match", "--constraint", str(ROOT / "packaging" / "constraints.txt")]
    compiled = subprocess.run(
        resolve,
        input="\n".join(names),
        env=_environment() | {"MACOSX_DEPLOYMENT_TARGET": "14.0"},
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    platforms = [word for tag in tags for word in ("--platform", tag)]
    fetch = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:"]
    fetch += ["--dest", str(options.wheels), "--python-version", options.python, *platforms, *extra]
    subprocess.run([*fetch, *compiled.stdout.split()], env=_environment(), check=True)


def _environment() -> dict[str, str]:
    """Without the releaser's own indexes and wheel folders: whoever installs has the public ones."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "UV_"))}
    certificates = {name: value for name, value in os.environ.items() if name in ("PIP_CERT", "UV_NATIVE_TLS")}
    return ours | certificates | {"PIP_CONFIG_FILE": os.devnull, "UV_NO_CONFIG": "1"}


def _torch_version() -> str:
    lines = (ROOT / "packaging" / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return next(line.partition("==")[2] for line in lines if line.startswith("torch=="))


def _wheel(path: Path, index: str) -> Wheel:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return Wheel(
        path.name, digest, path.stat().st_size, index if path.name.startswith(("torch-", "triton_rocm-")) else ""
    )


def _unpacked(path: Path) -> int:
    with zipfile.ZipFile(path) as wheel:
        return sum(entry.file_size for entry in wheel.infolist())


if __name__ == "__main__":
    sys.exit(main())
