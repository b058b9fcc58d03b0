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
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and node.attr == "flaky":
            call = next((each for each in ast.walk(ast.parse(source)) if _calls(each, node)), None)
            last = (call.end_lineno if call else node.end_lineno) or node.lineno
            said = any("#" in line for line in lines[max(0, node.lineno - 2) : last])
            has_keyword = isinstance(call, ast.Call) and any(each.arg == "reason" for each in call.keywords)
            yield node.lineno, said or has_keyword


def _calls(node: ast.AST, mark: ast.Attribute) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.lineno == mark.lineno
        and (node.func.attr == "flaky")
    )


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
