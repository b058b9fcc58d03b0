"""The constraint of an answer, given on a command line."""

from pathlib import Path

import pytest

from engine.cli.arguments import build_parser, generate_options
from engine.errors import InputError
from engine.protocol.options import Constraint


def constraint_of(*words: str) -> Constraint | None:
    arguments = build_parser().parse_args(["generate", "--prompt", "Hello", *words])
    return generate_options(arguments, arguments.method, arguments.budget, arguments.seed).constraint


def test_a_schema_a_grammar_or_a_pattern(tmp_path: Path) -> None:
    file = tmp_path / "constraint"
    file.write_text('{"const": "ä"}', "utf-8")
    assert constraint_of() is None
    assert constraint_of("--schema", str(file)) == Constraint("json_schema", '{"const": "ä"}')
    assert constraint_of("--grammar", str(file)) == Constraint("gbnf", '{"const": "ä"}')
    file.write_text('{"const": "ä"}', "utf-8-sig")
    assert constraint_of("--schema", str(file)) == Constraint("json_schema", '{"const": "ä"}')
    assert constraint_of("--regex", "a+") == Constraint("regex", "a+")


def test_two_constraints_and_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not allowed with"):
        constraint_of("--regex", "a", "--grammar", __file__)
    latin = tmp_path / "latin"
    latin.write_bytes(b"\xff")
    for path in (tmp_path / "none", latin):
        with pytest.raises(InputError, match="cannot be read"):
            constraint_of("--schema", str(path))


@pytest.mark.parametrize("text", ["", "{", '{"a": nope}', "[" * 100_000])
def test_a_schema_that_is_no_json_is_refused_before_a_model_is_loaded(tmp_path: Path, text: str) -> None:
    file = tmp_path / "schema.json"
    file.write_text(text, "utf-8")
    with pytest.raises(InputError, match=r"schema\.json is not valid JSON"):
        constraint_of("--schema", str(file))
