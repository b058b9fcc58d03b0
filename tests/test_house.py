"""What the figures of the structure are read from: a package made for it."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.bench.house import PACKAGES, ROOT, called_rooms, cycles, forbidden_names, import_graph, measure, read_package

FILES = {
    "engine/__init__.py": '"""A package."""\n',
    "engine/engine.py": '"""Composes."""\n\nfrom engine import trees\nfrom engine.rooms.door import open_door\n',
    "engine/trees.py": "from typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n    import engine.engine\n",
    "engine/rooms/__init__.py": '"""Rooms."""\n',
    "engine/rooms/door.py": (
        '"""A door."""\n\n\ndef open_door(purse, wide: int) -> None:\n    """Open."""\n    import engine.rooms.wall\n'
        "\n\ndef close() -> None:\n    pass\n"
    ),
    "engine/rooms/wall.py": '"""A wall."""\n\nfrom engine.rooms import door\n',
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with the package in it."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_imports_are_found_also_in_functions_but_not_those_for_types(root: Path) -> None:
    graph = import_graph(read_package(root, "engine"))
    assert graph["engine.engine"] == {"engine.trees", "engine.rooms.door"}
    assert graph["engine.trees"] == set()
    assert cycles(graph) == [["engine.rooms.door", "engine.rooms.wall"]]


def test_the_figures_of_a_package(root: Path) -> None:
    figures = measure(root, ["engine"])
    assert figures["imports_of_engine"] == 2
    assert figures["engine"]["files"] == 4
    assert figures["engine"]["function_lines"] == {"median": 2, "p90": 3, "max": 3}
    assert figures["engine"]["annotated"] == 0.5
    assert figures["engine"]["documented"] == round(6 / 8, 3)


@pytest.mark.parametrize("package", PACKAGES)
def test_no_file_no_function_and_no_room_is_larger_than_the_house_allows(package: str) -> None:
    sources = read_package(ROOT, package)
    functions = {name: lines for source in sources.values() for name, lines in source.functions.items()}
    rooms = Counter(name.rpartition(".")[0] or name for name, source in sources.items() if source.lines > 1)
    assert {name: source.lines for name, source in sources.items() if source.lines > 500} == {}
    assert {name: lines for name, lines in functions.items() if lines > 50} == {}
    assert {room: modules for room, modules in rooms.items() if modules > 18} == {}


def test_what_puts_the_rooms_together_knows_few_of_their_modules() -> None:
    assert measure(ROOT, ["engine"])["imports_of_engine"] <= 15


def test_no_module_imports_one_that_imports_it() -> None:
    sources = {name: source for package in PACKAGES for name, source in read_package(ROOT, package).items()}
    assert cycles(import_graph(sources)) == []


def test_a_forbidden_word_is_found_wherever_something_is_named_with_it(root: Path) -> None:
    assert forbidden_names(read_package(root, "engine").values()) == ["engine.rooms.door: purse"]


def test_a_stay_is_a_run_of_calls_from_the_root_into_one_room(tmp_path: Path) -> None:
    space: dict[str, Any] = {}
    for file, code in {
        "text/tokenizer.py": "def tokens(): pass",
        "model/context.py": "def passes(): tokens()",
        "engine.py": "def generate():\n    tokens()\n    tokens()\n    passes()\n    tokens()",
    }.items():
        exec(compile(code, str(tmp_path / file), "exec"), space)  # code of this test
    with called_rooms(tmp_path) as stays:
        space["generate"]()
    assert stays == ["text", "model", "text"], "what a room calls by itself is no stay"
