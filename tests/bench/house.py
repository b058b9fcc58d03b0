"""Measures the structure of the code: files, functions, imports, and the modules that one round runs through.

python -m tests.bench.house [--json] [--no-round]

Sizes are lines; a function's size is that of its `def` and body, without decorators. Imports are read by syntax, also
those inside functions, but not those under `if TYPE_CHECKING`. Public is what a module or a public class defines under
a name without `_`: functions within functions, and methods of private classes, are nobody else's.

The round is one of an answer by the embedded pair: every file below `engine/` that a call entered, once with a fixed
budget and once with the default method, which tries one thing or another: of its rounds 3 to 8 the fewest and the most.
Counted is every file, even where one call comes back at once: a look whether somebody wants to stop, whether a device
has something to wait for, whether a layer keeps a state. `deciding` leaves out what a reader of the algorithm need not
open: the modules at the root of `engine/`, which put rooms together or speak with the device, and `observing`. The
stays of a prompt are the rooms (folders of `engine/`) that `engine` and `answering` call into during one answer, one
after the other; a return is a stay in a room that was left before.
"""

import ast
import json
import statistics
import sys
from argparse import ArgumentParser
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine.engine import Engine

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("engine", "app")
COMPOSITION = "engine.engine"  # whose imports are counted
COMPOSING = ("engine.py", "answering.py")  # the files of `engine/` that put rooms together

# Words for which the field has a term; no module, class, function or parameter is named with one.
FORBIDDEN = (
    "purse", "lessons", "lesson", "retreat", "witness", "nobody", "freedom", "curiosity", "prospect", "prospects",
    "hiding", "sprout", "shelf", "shelving", "passage", "burden", "brink", "workshop", "equipment", "deed", "steering",
    "afterwards", "keeper", "twin", "skeleton", "blueprint", "appraisal", "appraiser", "verdicts", "chance", "drawn",
)  # fmt: skip


@dataclass(slots=True)
class Source:
    """What one file holds."""

    module: str
    lines: int
    imports: set[tuple[str, str]] = field(default_factory=set)  # module, and the name that is taken from it, if any
    functions: dict[str, int] = field(default_factory=dict)  # name -> lines
    names: list[str] = field(default_factory=list)
    arguments: list[bool] = field(default_factory=list)  # of each: whether it is annotated
    documented: list[bool] = field(default_factory=list)  # of each public definition


def read_package(root: Path, package: str) -> dict[str, Source]:
    """Every module of a package by its name; tests and generated files are not in it."""
    return {each.module: each for path in sorted((root / package).rglob("*.py")) for each in [read_file(root, path)]}


def read_file(root: Path, path: Path) -> Source:
    """What a file holds. Raises `SyntaxError`."""
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    parts = path.relative_to(root).with_suffix("").parts
    source = Source(".".join(parts[:-1] if parts[-1] == "__init__" else parts), text.count("\n"))
    source.documented.append(bool(ast.get_docstring(tree)))
    source.names.append(source.module.rsplit(".", 1)[-1])
    hidden = {id(inner) for node in ast.walk(tree) if _hides(node) for inner in ast.walk(node) if inner is not node}
    for node in _executed(tree):
        _note(node, source, is_seen=id(node) not in hidden)
    return source


def _hides(node: ast.AST) -> bool:
    """Whether what is defined inside is nobody else's."""
    is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    return is_function or (isinstance(node, ast.ClassDef) and node.name.startswith("_"))


def _executed(tree: ast.AST) -> Iterator[ast.AST]:
    """Every node but those under `if TYPE_CHECKING`."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        yield node
        yield from _executed(node)


def _note(node: ast.AST, source: Source, is_seen: bool) -> None:
    match node:
        case ast.ImportFrom(module=str(module), level=0):
            source.imports |= {(module, each.name) for each in node.names}
        case ast.Import():
            source.imports |= {(each.name, "") for each in node.names}
        case ast.ClassDef():
            source.names.append(node.name)
            _note_docstring(node, source, is_seen)
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            source.names.append(node.name)
            source.functions[f"{source.module}.{node.name}"] = (node.end_lineno or node.lineno) - node.lineno + 1
            arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            source.arguments += [each.annotation is not None for each in arguments if each.arg not in ("self", "cls")]
            source.names += [each.arg for each in arguments]
            _note_docstring(node, source, is_seen)


def _note_docstring(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef, source: Source, is_seen: bool) -> None:
    if is_seen and not node.name.startswith("_"):
        source.documented.append(bool(ast.get_docstring(node)))


def import_graph(sources: dict[str, Source]) -> dict[str, set[str]]:
    """Which module imports which others among `sources`; `from package import module` imports the module alone."""
    return {
        name: {_target(module, taken, sources) for module, taken in source.imports} - {name, ""}
        for name, source in sources.items()
    }


def _target(module: str, taken: str, sources: dict[str, Source]) -> str:
    return next((each for each in (f"{module}.{taken}", module) if each in sources), "")


def cycles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Groups of modules that reach each other by imports."""
    reached = {name: _reachable(graph, name) for name in graph}
    groups = {
        tuple(sorted({name} | {other for other in reached[name] if name in reached[other]}))
        for name in graph
        if name in reached[name]
    }
    return [list(group) for group in sorted(groups)]


def _reachable(graph: dict[str, set[str]], start: str) -> set[str]:
    found: set[str] = set()
    waiting = list(graph[start])
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += graph[name]
    return found


def forbidden_names(sources: Iterable[Source]) -> list[str]:
    """Names with a word of `FORBIDDEN` in them, with the module that they stand in."""
    found = {f"{source.module}: {name}" for source in sources for name in source.names if set(_words(name)) & _BAD}
    return sorted(found)


_BAD = frozenset(FORBIDDEN)


def _words(name: str) -> list[str]:
    spaced = "".join(f"_{letter}" if letter.isupper() else letter for letter in name)
    return [each.lower() for each in spaced.split("_")]


def figures_of(sources: dict[str, Source]) -> dict[str, Any]:
    """The figures of one package."""
    graph = import_graph(sources)
    importers = Counter(each for targets in graph.values() for each in targets)
    functions = {name: lines for source in sources.values() for name, lines in source.functions.items()}
    files = {name: source.lines for name, source in sources.items() if source.lines > 1}
    folders: dict[str, int] = defaultdict(int)
    for name in files:
        folders[name.rpartition(".")[0] or name] += 1
    return {
        "files": len(files),
        "lines": sum(files.values()),
        "file_lines": _spread(files.values()),
        "longest_file": max(files, key=files.__getitem__),
        "function_lines": _spread(functions.values()),
        "longest_function": max(functions, key=functions.__getitem__),
        "modules_by_folder": dict(sorted(folders.items(), key=lambda each: -each[1])[:6]),
        "one_importer": sum(count == 1 for count in importers.values()),
        "import_cycles": cycles(graph),
        "annotated": _share([each for source in sources.values() for each in source.arguments]),
        "documented": _share([each for source in sources.values() for each in source.documented]),
        "forbidden_names": forbidden_names(sources.values()),
    }


def _spread(lines: Iterable[int]) -> dict[str, int]:
    ordered = sorted(lines)
    return {"median": round(statistics.median(ordered)), "p90": ordered[int(0.9 * len(ordered))], "max": ordered[-1]}


def _share(values: list[bool]) -> float:
    return round(sum(values) / len(values), 3) if values else 1.0


@contextmanager
def entered_files(package: Path) -> Iterator[list[str]]:
    """While it is open: the files below `package` that calls entered, in this thread, in their order."""
    seen: list[str] = []
    prefix = str(package)

    def follow(frame: FrameType, event: str, argument: Any) -> None:
        file = frame.f_code.co_filename
        if event == "call" and file.startswith(prefix) and (not seen or seen[-1] != file):
            seen.append(file)

    with _profiled(follow):
        yield seen


@contextmanager
def _profiled(follow: Callable[[FrameType, str, Any], None]) -> Iterator[None]:
    before = sys.getprofile()
    sys.setprofile(follow)
    try:
        yield
    finally:
        sys.setprofile(before)


@contextmanager
def called_rooms(package: Path) -> Iterator[list[str]]:
    """While it is open: the folders of `package` that the composing modules call into, runs of calls as one."""
    stays: list[str] = []
    composing = {str(package / name) for name in COMPOSING}

    def follow(frame: FrameType, event: str, argument: Any) -> None:
        caller = frame.f_back
        if event != "call" or caller is None or caller.f_code.co_filename not in composing:
            return
        file = Path(frame.f_code.co_filename)
        if package in file.parents and file.parent != package:
            room = file.relative_to(package).parts[0]
            if not stays or stays[-1] != room:
                stays.append(room)

    with _profiled(follow):
        yield stays


def embedded_engine() -> "Engine":
    """The embedded pair, resident on the processor however little memory is free."""
    from engine.engine import load
    from engine.errors import Cancellation  # torch: only where a round is asked for
    from engine.loading.pair import open_pair
    from engine.protocol.options import LoadOptions

    steps = load(1, open_pair(LoadOptions("embedded", "auto", device="cpu", place="device")), Cancellation())
    while True:
        try:
            next(steps)
        except StopIteration as end:
            engine: Engine = end.value
            return engine


def stays_of_a_prompt(engine: "Engine") -> dict[str, Any]:
    """The rooms that the composition of an answer of a few rounds calls into, in their order."""
    from engine.observing.watcher import Watcher
    from engine.protocol.messages import ChatMessage
    from engine.protocol.options import GenerateOptions

    watcher, options = Watcher(), GenerateOptions(max_new_tokens=20)
    prompt = engine.prompt((ChatMessage("user", "Tell me a story about a dragon."),))
    with called_rooms(ROOT / "engine") as stays:
        for _ in engine.generate(1, prompt, options, watcher):
            pass
    return {"stays": len(stays), "rooms": len(set(stays)), "returns": len(stays) - len(set(stays)), "names": stays}


def files_of_rounds(engine: "Engine", budget: int, rounds: range) -> dict[str, Any]:
    """Files and rooms that these rounds of an answer enter, by their numbers; `budget` 0 is the default method.

    `fewest` and `most` files of one round, and the `names` of that with the most.
    """
    from engine.protocol.messages import ChatMessage, Round
    from engine.protocol.options import GenerateOptions, SpeculationOptions

    speculation = SpeculationOptions(method="specexec", budget=budget, lookup=False) if budget else SpeculationOptions()
    prompt = engine.prompt((ChatMessage("user", "Tell me a story about a dragon."),))
    events = engine.generate(2, prompt, GenerateOptions(max_new_tokens=400, speculation=speculation, ignore_eos=True))
    for _ in range(rounds.start - 1):
        next(each for each in events if isinstance(each, Round))
    found = []
    for _ in rounds:
        with entered_files(ROOT / "engine") as seen:
            next(each for each in events if isinstance(each, Round))
        found.append(sorted({Path(each).relative_to(ROOT) for each in seen}))
    del events
    most = max(found, key=len)
    return {
        "fewest": min(map(len, found)),
        "most": len(most),
        "deciding": sum(path.parent.name not in ("engine", "observing") for path in most),
        "rooms": len({path.parent for path in most}),
        "names": list(map(str, most)),
    }


def measure(root: Path, packages: Iterable[str] = PACKAGES) -> dict[str, Any]:
    """The figures of the packages below a folder."""
    sources = {package: read_package(root, package) for package in packages}
    found: dict[str, Any] = {package: figures_of(each) for package, each in sources.items()}
    together = {name: source for each in sources.values() for name, source in each.items()}
    if COMPOSITION in together:
        found["imports_of_engine"] = len(import_graph(together)[COMPOSITION])
    return found


def main() -> int:
    """Measure and print."""
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--no-round", action="store_true", help="leave out the round, which loads the embedded pair")
    options = parser.parse_args()
    found = measure(ROOT)
    if not options.no_round:
        engine = embedded_engine()
        found["round_fixed"] = files_of_rounds(engine, 64, range(3, 4))
        found["round_default"] = files_of_rounds(engine, 0, range(3, 9))
        found["prompt"] = stays_of_a_prompt(engine)
        engine.close()
    if options.json:
        print(json.dumps(found))
        return 0
    for name, figures in found.items():
        print(name if isinstance(figures, dict) else f"{name}: {figures}")
        for key, value in figures.items() if isinstance(figures, dict) else ():
            print(f"  {key}: {len(value) if isinstance(value, list) else value}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
