"""What `--help` says: of every option what it does, and where it has a default, which."""

import argparse
from collections.abc import Iterator

import pytest

from engine.cli.arguments import build_parser, generate_options


def commands() -> dict[str, argparse.ArgumentParser]:
    [found] = [action for action in build_parser()._actions if isinstance(action, argparse._SubParsersAction)]
    return dict(found.choices)


def options() -> Iterator[tuple[str, argparse.Action]]:
    for name, parser in commands().items():
        for action in parser._actions:
            yield f"{name} {action.option_strings[-1]}", action


@pytest.mark.parametrize(("name", "action"), [*options()], ids=lambda value: value if isinstance(value, str) else "")
def test_every_option_says_what_it_does_and_its_default(name: str, action: argparse.Action) -> None:
    assert action.help, name
    if action.nargs != 0 and action.default not in (None, []) and not action.required:
        assert "default" in action.help or name in ("generate --grow-map", "bench --grow-map"), name


def test_the_same_option_says_the_same_in_every_command() -> None:
    """But where it does something else: `serve` only keeps room for trees."""
    differ = {"--budget", "--weights", "--force", "--acceptance", "--json"}
    words: dict[str, set[str | None]] = {}
    for name, action in options():
        words.setdefault(name.split()[1], set()).add(action.help)
    assert {option for option, said in words.items() if len(said) > 1} <= differ


def test_help_is_printed_of_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    for name in commands():
        with pytest.raises(SystemExit) as ended:
            build_parser().parse_args([name, "--help"])
        assert ended.value.code == 0
        assert "usage:" in capsys.readouterr().out


def test_penalties_reach_the_answer() -> None:
    words = ["generate", "--prompt", "Hi", "--presence-penalty", "0.5", "--frequency-penalty", "0.25"]
    sampling = generate_options(build_parser().parse_args(words), "auto", 0, 0).sampling
    assert (sampling.presence_penalty, sampling.frequency_penalty) == (0.5, 0.25)
