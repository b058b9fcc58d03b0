"""What a desktop looks for: entry, metainfo, MIME type and icons are valid, complete and agree with each other."""

import configparser
import re
import shutil
import struct
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest

from app.main import APP_ID
from engine import __version__

PACKAGING = Path(__file__).parents[2] / "packaging"
LINUX = PACKAGING / "linux"
ICONS = PACKAGING / "icons"
METAINFO = LINUX / "org.coppice.coppice.metainfo.xml"
PNG = b"\x89PNG\r\n\x1a\n"
PNG_SIZES = (16, 24, 32, 48, 64, 128, 256, 512)


def checked(*command: str | Path) -> str:
    """What a tool of the system says, which must be content; skips where it is not installed."""
    if shutil.which(str(command[0])) is None:
        pytest.skip(f"{command[0]} is not installed")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def entry() -> configparser.SectionProxy:
    """The desktop entry."""
    parser = configparser.ConfigParser(interpolation=None, strict=True)
    parser.optionxform = str  # type: ignore[assignment, method-assign]  # keys have capitals
    parser.read(LINUX / "coppice.desktop", encoding="utf-8")
    return parser["Desktop Entry"]


def test_the_taskbar_of_windows_knows_program_and_shortcuts_by_one_name() -> None:
    script = (PACKAGING / "windows" / "coppice.iss").read_text(encoding="utf-8")
    assert set(re.findall(r'AppUserModelID: "(.+?)"', script)) == {APP_ID}


def png_size(content: bytes) -> int:
    """The edge of a square PNG."""
    assert content.startswith(PNG)
    width, height = struct.unpack(">II", content[16:24])
    assert width == height
    return int(width)


def test_the_desktop_entry_is_valid() -> None:
    assert "error" not in checked("desktop-file-validate", LINUX / "coppice.desktop")


def test_the_metainfo_is_valid() -> None:
    checked("appstreamcli", "validate", "--no-net", METAINFO)


def test_the_metainfo_names_the_entry_the_type_and_this_version() -> None:
    root = ElementTree.parse(METAINFO).getroot()
    mime = ElementTree.parse(LINUX / "coppice-mime.xml").getroot()
    kind = mime[0].attrib["type"]
    assert root.findtext("launchable") == "coppice.desktop"
    assert root.findtext("provides/mediatype") == kind == entry()["MimeType"].rstrip(";")
    assert [each.attrib["pattern"] for each in mime.iter() if each.tag.endswith("glob")] == ["*.coppice"]
    release = root.find("releases/release")
    assert release is not None
    assert release.attrib["version"] == __version__


def test_the_entry_starts_the_program_that_the_package_links() -> None:
    build = (LINUX / "build.sh").read_text(encoding="utf-8")
    assert entry()["Exec"].split()[0] == "coppice"
    assert '"$tree/usr/bin/coppice"' in build
    assert f'apps/{entry()["Icon"]}.png"' in build


def test_the_entry_is_that_of_the_windows_application() -> None:
    source = (PACKAGING.parent / "app" / "main.py").read_text(encoding="utf-8")
    named = re.search(r'setDesktopFileName\("(.+)"\)', source)
    assert named is not None
    assert (LINUX / f"{named[1]}.desktop").is_file(), "a Wayland desktop finds the window's icon by it"


@pytest.mark.parametrize("name", ["coppice", "coppice-recording"])
@pytest.mark.parametrize("size", PNG_SIZES)
def test_a_picture_has_the_size_of_its_name(name: str, size: int) -> None:
    assert png_size((ICONS / f"{name}-{size}.png").read_bytes()) == size


@pytest.mark.parametrize("name", ["coppice", "coppice-recording"])
def test_a_windows_icon_has_every_size(name: str) -> None:
    content = (ICONS / f"{name}.ico").read_bytes()
    _, kind, count = struct.unpack("<HHH", content[:6])
    sizes = set()
    for index in range(count):
        edge, *_, length, offset = struct.unpack("<BBBBHHII", content[6 + 16 * index : 22 + 16 * index])
        assert png_size(content[offset : offset + length]) == (edge or 256)
        sizes.add(edge or 256)
    assert kind == 1
    assert sizes == {16, 24, 32, 48, 64, 256}


@pytest.mark.parametrize("name", ["coppice", "coppice-recording"])
def test_a_macos_icon_has_every_size(name: str) -> None:
    content = (ICONS / f"{name}.icns").read_bytes()
    assert content[:4] == b"icns"
    assert struct.unpack(">I", content[4:8])[0] == len(content)
    offset, sizes = 8, set()
    while offset < len(content):
        (length,) = struct.unpack(">I", content[offset + 4 : offset + 8])
        sizes.add(png_size(content[offset + 8 : offset + length]))
        offset += length
    assert sizes == {16, 32, 64, 128, 256, 512, 1024}
