"""The test session reaches neither the network nor the person's own folders."""

import os
import socket
from pathlib import Path

import platformdirs
import pytest

from tests.conftest import PERSONAL_FOLDERS


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


def test_personal_folders_are_temporary() -> None:
    pwd = pytest.importorskip("pwd", reason="the system keeps no list of homes")
    real_home = Path(pwd.getpwuid(os.getuid()).pw_dir)
    for folder in [*(os.environ[name] for name in PERSONAL_FOLDERS), platformdirs.user_data_dir("coppice")]:
        assert real_home not in Path(folder).parents
        assert Path(os.environ["HOME"]).parent in Path(folder).parents
