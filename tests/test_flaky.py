"""No test is run again after a failure: no test asks for it, no setting does, and no plugin for it is installed."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parent


def reruns_of(source: str) -> Iterator[int]:
    """Line of every mark `flaky` and of every argument `reruns` in code."""
    for node in ast.walk(ast.parse(source)):
        is_mark = isinstance(node, ast.Attribute) and node.attr == "flaky"
        if is_mark or (isinstance(node, ast.keyword) and node.arg in ("reruns", "reruns_delay")):
            assert isinstance(node, ast.Attribute | ast.keyword)
            yield node.lineno


def test_no_test_is_run_again() -> None:
    found = [
        f"{path.relative_to(HERE)}:{line}"
        for path in sorted(HERE.rglob("*.py"))
        if "flaky" in (source := path.read_text("utf-8")) or "reruns" in source
        for line in reruns_of(source)
    ]
    assert found == []


@pytest.mark.parametrize("name", ["pyproject.toml", "packaging/constraints.txt", "packaging/bootstrap.sh"])
def test_no_setting_and_no_plugin_runs_tests_again(name: str) -> None:
    text = (ROOT / name).read_text("utf-8")
    assert [word for word in ("rerun", "flaky") if word in text] == []


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("@pytest.mark.flaky(reason='a real engine')\ndef test(): ...", [1]),
        ("import pytest\npytestmark = pytest.mark.flaky", [2]),
        ("pytest.main(args, reruns=1)", [1]),
        ("def test(): ...", []),
    ],
)
def test_a_test_that_is_run_again_would_be_found(source: str, lines: list[int]) -> None:
    assert list(reruns_of(source)) == lines
