"""`tree-shape` on the terminal: the document it promises, and one clear line for everything else."""

import json

import pytest

from engine.__main__ import main


def test_the_document_is_the_best_tree(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["tree-shape", "--acceptance", "0.6,0.2,0.1", "--budget", "6", "--max-depth", "3", "--json"]
    assert main(command) == 0
    found = json.loads(capsys.readouterr().out)
    # The root is worth 1, its children .6 and .2, what is below them .36, .12 and .12: a third child would be worth .1.
    assert found == {"expected_tokens": pytest.approx(2.4), "parents": [-1, 0, 0, 1, 1, 2], "depth": 3}


def test_people_read_a_line_per_level(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tree-shape", "--acceptance", "0.6,0.2,0.1", "--budget", "6", "--max-depth", "3"]) == 0
    assert capsys.readouterr().out == "2.4000 tokens per pass from 6 nodes in 3 levels\n2\n2 1\n0 0 0\n"


@pytest.mark.parametrize(
    ("acceptance", "budget", "depth", "words"),
    [
        ("", "6", "3", "empty"),
        ("0.6,x", "6", "3", "'x' is not a number"),
        ("0.6,nan", "6", "3", "no probability"),
        ("0.6,0.6", "6", "3", "sums to 1.2"),
        ("1.2", "6", "3", "no probability"),
        ("0.6", "0", "3", "tree of 0 nodes"),
        ("0.6", "100000", "3", "tree of 100000 nodes"),
        ("0.6", "x", "3", "--budget"),
        ("0.6", "6", "0", "depth of 0"),
        ("0.6", "6", "-1", "depth of -1"),
    ],
)
def test_bad_input_is_one_clear_line(
    acceptance: str, budget: str, depth: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["tree-shape", f"--acceptance={acceptance}", "--budget", budget, "--max-depth", depth, "--json"]
    assert main(command) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    assert line.startswith("error: ")
    assert words in line
