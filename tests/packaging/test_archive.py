"""The self-extracting archive: it installs, updates and goes away again, wherever the home is, and harms nothing."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.links import make_link

LINUX = Path(__file__).parents[2] / "packaging" / "linux"

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="for Linux only"),
    pytest.mark.skipif(shutil.which("xz") is None, reason="xz is not installed"),
]


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """An archive made as build.sh does it, with a program that only says where it is."""
    tree = tmp_path / "tree"
    for folder in ("coppice", "share/applications"):
        (tree / folder).mkdir(parents=True)
    program = tree / "coppice" / "coppice"
    program.write_text('#!/bin/sh\necho "started from $0"\n', encoding="utf-8")
    program.chmod(0o755)
    shutil.copy(LINUX / "uninstall.sh", tree / "coppice")
    shutil.copy(LINUX / "coppice.desktop", tree / "share" / "applications")
    payload = subprocess.run(f"tar -C '{tree}' -cf - . | xz", shell=True, capture_output=True, check=True).stdout
    path = tmp_path / "coppice.run"
    path.write_bytes((LINUX / "extract.sh").read_bytes().replace(b"@VERSION@", b"1.2.3") + payload)
    return path


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home folder such as people have."""
    folder = tmp_path / "Daten für $Ännchen & Co"
    folder.mkdir()
    return folder


def run(home: Path, *command: str | Path) -> subprocess.CompletedProcess[str]:
    """Start something in that home."""
    environment = {"HOME": str(home), "PATH": "/usr/bin:/bin"}
    return subprocess.run(command, env=environment, cwd=home, capture_output=True, text=True, check=False)


def test_it_installs_for_one_user_and_goes_away_again(archive: Path, home: Path) -> None:
    done = run(home, "sh", archive)
    assert done.returncode == 0, done.stderr
    target = home / ".local" / "opt" / "coppice"
    entry = home / ".local" / "share" / "applications" / "coppice.desktop"
    line = next(line for line in entry.read_text(encoding="utf-8").splitlines() if line.startswith("Exec="))
    escaped = str(target / "coppice").replace("$", "\\\\$")
    assert line == f'Exec="{escaped}" %f'
    assert run(home, target / "coppice").stdout == f"started from {target / 'coppice'}\n"
    data = home / ".local" / "share" / "coppice" / "chats.sqlite3"
    data.parent.mkdir()
    data.touch()
    assert run(home, "sh", target / "uninstall.sh").returncode == 0
    assert not target.exists()
    assert not entry.exists()
    assert data.exists(), "what a person has made stays"


def test_an_update_leaves_nothing_of_the_former_version(archive: Path, home: Path) -> None:
    target = home / "Programme" / "coppice"
    assert run(home, "sh", archive, "--to", target).returncode == 0
    (target / "of the former version").touch()
    assert run(home, "sh", archive, "--to", target).returncode == 0
    assert not (target / "of the former version").exists()
    assert [each.name for each in target.parent.iterdir()] == ["coppice"]


@pytest.mark.parametrize("written", ["Programme/coppice/", "Programme/coppice//", "Programme/of it/../coppice/."])
def test_a_folder_may_be_written_in_other_ways(archive: Path, home: Path, written: str) -> None:
    target = home / "Programme" / "coppice"
    (home / "Programme" / "of it").mkdir(parents=True)
    for to in (f"{target}/", written):  # afresh, and as an update
        done = run(home, "sh", archive, "--to", to)
        assert done.returncode == 0, done.stderr
        assert run(home, target / "coppice").stdout == f"started from {target / 'coppice'}\n"
    assert sorted(each.name for each in target.parent.iterdir()) == ["coppice", "of it"]


def test_an_update_goes_where_a_link_leads(archive: Path, home: Path) -> None:
    make_link(home / "link", "coppice")
    assert run(home, "sh", archive, "--to", home / "coppice").returncode == 0
    (home / "coppice" / "coppice-data").mkdir()
    assert run(home, "sh", archive, "--to", home / "link").returncode == 0
    assert (home / "link").is_symlink()
    assert (home / "coppice" / "coppice-data").is_dir()


def test_what_a_portable_program_holds_stays(archive: Path, home: Path) -> None:
    """Through an update, an uninstallation and another installation."""
    target = home / ".local" / "opt" / "coppice"
    chats = target / "coppice-data" / "data" / "chats.sqlite3"
    assert run(home, "sh", archive).returncode == 0
    chats.parent.mkdir(parents=True)
    chats.write_text("kept", encoding="utf-8")
    for _ in range(2):
        assert run(home, "sh", archive).returncode == 0
        assert chats.read_text(encoding="utf-8") == "kept"
        assert [each.name for each in target.parent.iterdir()] == ["coppice"]
        done = run(home, "sh", target / "uninstall.sh")
        assert done.returncode == 0
        assert str(target / "coppice-data") in done.stdout
        assert [each.name for each in target.iterdir()] == ["coppice-data"]
        assert chats.read_text(encoding="utf-8") == "kept"


def test_somebody_elses_folder_is_not_replaced(archive: Path, home: Path) -> None:
    (home / "mine").mkdir()
    (home / "mine" / "letter.txt").touch()
    done = run(home, "sh", archive, "--to", home / "mine")
    assert done.returncode == 1
    assert "is no Coppice" in done.stderr
    assert (home / "mine" / "letter.txt").exists()


def test_a_damaged_archive_leaves_the_former_version_whole(archive: Path, home: Path) -> None:
    target = home / "coppice"
    assert run(home, "sh", archive, "--to", target).returncode == 0
    content = archive.read_bytes()
    archive.write_bytes(content[: len(content) - 40])
    assert "damaged" in run(home, "sh", archive, "--to", target).stderr
    assert run(home, target / "coppice").returncode == 0
    assert [each.name for each in home.iterdir() if each.name.startswith("coppice")] == ["coppice"]
