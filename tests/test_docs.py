"""The documentation names files that exist, its links lead somewhere, and its commands are ones that there are."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.downloads.command import _build_parser as download_parser
from engine.cli.arguments import build_parser

ROOT = Path(__file__).parents[1]
PAGES = [
    ROOT / "README.md",
    *(ROOT / "resources/docs").rglob("*.md"),
    ROOT / ".github/CONTRIBUTING.md",
    ROOT / "packaging/README.md",
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_a_page_names_exist(page: Path) -> None:
    named = re.findall(r"`((?:app|engine|tests|packaging|resources)/[\w./-]*)`", page.read_text("utf-8"))
    assert [name for name in named if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_within_the_project_lead_to_files(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text("utf-8"))
    inside = [link for link in links if "://" not in link]
    assert [link for link in inside if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_to_a_heading_find_it(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]*)#([^)]+)\)", page.read_text("utf-8"))
    inside = [(page.parent / link if link else page, name) for link, name in links if "://" not in link]
    assert [name for target, name in inside if name not in anchors(target)] == []


def anchors(page: Path) -> set[str]:
    """The names that GitHub gives to the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_architecture_names_every_room() -> None:
    text = (ROOT / "resources/docs/architecture.md").read_text("utf-8")
    rooms = {path.parent.name for top in ("engine", "app") for path in (ROOT / top).glob("*/__init__.py")}
    assert {room for room in rooms if f"`{room}/`" not in text} == set()


def commands() -> Iterator[tuple[str, list[str]]]:
    """Every line of a block of code that starts one of our programs, with its words."""
    for page in (each for each in PAGES if each.parent.name != "packaging"):
        for block in re.findall(r"^```\w*\n(.*?)^```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL):
            for line in block.replace("\\\n", " ").splitlines():
                if found := re.match(r"(?:[A-Z_]+=\S+ +)*(coppice(?:-engine)? [^<>|]*)", line):
                    yield f"{page.name}: {line}", shlex.split(found[1], comments=True)


COMMANDS = dict(commands())


def test_commands_are_found() -> None:
    assert len(COMMANDS) > 10


@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_of_a_page_is_complete_and_has_no_unknown_option(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files that the reader has are there: what they hold is of no concern."""
    program, *words = COMMANDS[line]
    monkeypatch.chdir(tmp_path)
    for word in words:
        if re.fullmatch(r"[\w.]+\.jsonl?", word):
            Path(word).write_text("{}", encoding="utf-8")
    if program == "coppice" and words[0] == "download":
        assert download_parser().parse_args(words[1:]).repo
    else:
        assert program == "coppice-engine" or words[0] == "serve"
        assert build_parser().parse_args(words).command == words[0]
