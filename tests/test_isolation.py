"""The test session reaches neither the network nor the person's own folders."""

import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import platformdirs
import pytest

from tests.conftest import PERSONAL_FOLDERS, TEMPORARY_FOLDERS


@pytest.mark.parametrize("address", [("192.0.2.1", 443), ("2001:db8::1", 443, 0, 0), ("example.org", 80)])
def test_a_connection_to_another_machine_is_refused(address: tuple[object, ...]) -> None:
    family = socket.AF_INET6 if len(address) == 4 else socket.AF_INET
    with socket.socket(family) as client, pytest.raises(AssertionError, match="without the network"):
        client.connect(address)


def test_a_connection_to_this_machine_works() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        accepted, _ = server.accept()
        with accepted:
            client.sendall(b"leaf")
            assert accepted.recv(4) == b"leaf"


@pytest.mark.parametrize("host", ["example.org", "192.0.2.1", "127.0.0.1.example.org"])
def test_a_name_is_not_looked_up(host: str) -> None:
    with pytest.raises(AssertionError, match="without the network"):
        socket.getaddrinfo(host, 443)


@pytest.mark.parametrize(
    "program",
    [
        "import socket; socket.socket().connect(('192.0.2.1', 443))",
        "import socket; socket.getaddrinfo('example.org', 443)",
        "import urllib.request; urllib.request.urlopen('https://example.org')",
        "import socket; socket.socket(type=socket.SOCK_DGRAM).sendto(b'leaf', ('192.0.2.1', 53))",
    ],
)
def test_a_child_process_is_refused_too(program: str) -> None:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert "tests do without the network" in done.stderr


def test_a_child_process_reaches_this_machine() -> None:
    with socket.create_server(("localhost", 0)) as server:
        program = f"import socket; socket.create_connection(('localhost', {server.getsockname()[1]})).close()"
        subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_temporary_folders_and_sockets_are_this_run_s() -> None:
    home = Path(os.environ["HOME"]).parent
    assert Path(tempfile.gettempdir()).parent == home
    for name in TEMPORARY_FOLDERS:
        assert Path(os.environ[name]).parent == home
        assert os.name == "nt" or Path(os.environ[name]).stat().st_mode & 0o77 == 0
    assert len(str(home)) < 60, "too long for the path of a socket"


def test_personal_folders_are_temporary() -> None:
    pwd = pytest.importorskip("pwd", reason="the system keeps no list of homes")
    real_home = Path(pwd.getpwuid(os.getuid()).pw_dir)
    for folder in [*(os.environ[name] for name in PERSONAL_FOLDERS), platformdirs.user_data_dir("coppice")]:
        assert real_home not in Path(folder).parents
        assert Path(os.environ["HOME"]).parent in Path(folder).parents
