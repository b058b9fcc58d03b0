"""No test is run again without a reason: no conftest adds reruns, and whatever is marked says why."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def reruns_of(source: str) -> Iterator[tuple[int, bool]]:
    """Line of every mention of `flaky` or `reruns` in code, and whether a reason stands beside it.

    A reason is a keyword `reason` of the mark, or a comment in its lines or in the line above.
    """
    lines = source.splitlines()
    nodes = list(ast.walk(ast.parse(source)))
    calls = {node.func: node for node in nodes if isinstance(node, ast.Call)}
    for node in nodes:
        if isinstance(node, ast.Attribute) and node.attr == "flaky":
            call = calls.get(node)
            last = (call or node).end_lineno or node.lineno
            has_comment = any("#" in line for line in lines[max(0, node.lineno - 2) : last])
            has_keyword = call is not None and any(each.arg == "reason" for each in call.keywords)
            yield node.lineno, has_comment or has_keyword


def test_no_conftest_and_no_setting_runs_tests_again() -> None:
    for path in HERE.rglob("conftest.py"):
        assert not list(reruns_of(path.read_text("utf-8"))), path
        assert "reruns" not in path.read_text("utf-8"), path
    assert "reruns" not in (HERE.parent / "packaging" / "bootstrap.sh").read_text("utf-8")
    settings = (HERE.parent / "pyproject.toml").read_text("utf-8").partition("[tool.pytest.ini_options]")[2]
    assert "reruns" not in settings.partition("\n[")[0]


def test_every_test_that_is_run_again_says_why() -> None:
    without = [
        f"{path.relative_to(HERE)}:{line}"
        for path in sorted(HERE.rglob("*.py"))
        if "flaky" in path.read_text("utf-8")
        for line, has_reason in reruns_of(path.read_text("utf-8"))
        if not has_reason
    ]
    assert without == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("@pytest.mark.flaky(reruns=1)\ndef test(): ...", [False]),
        ("@pytest.mark.flaky\ndef test(): ...", [False]),
        ("# a process that the system may delay\n@pytest.mark.flaky(reruns=1)\ndef test(): ...", [True]),
        ("pytestmark = pytest.mark.flaky(reruns=1, reason='a real engine')", [True]),
        ("def test(): ...", []),
    ],
)
def test_a_mark_without_a_reason_would_be_found(source: str, found: list[bool]) -> None:
    assert [has_reason for _, has_reason in reruns_of(source)] == found
