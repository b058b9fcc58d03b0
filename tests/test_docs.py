"""The documentation names files that exist, and its links lead somewhere."""

import re
from pathlib import Path

import pytest

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
