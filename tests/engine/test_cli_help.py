"""What `--help` says: of every option what it does, and where it has a default, which."""

import argparse
from collections.abc import Iterator

import pytest

from engine.cli.arguments import build_parser, generate_options
from engine.protocol.options import SamplingOptions


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


def test_dry_and_xtc_reach_the_answer_under_llama_cpp_s_names() -> None:
    words = ["--dry-multiplier", "0.8", "--dry-base", "1.5", "--dry-allowed-length", "3", "--dry-penalty-last-n", "64"]
    more = ["--dry-sequence-breaker", "|", "--dry-sequence-breaker", ". ", "--xtc-probability", "0.5"]
    asked = ["generate", "--prompt", "Hi", *words, *more, "--xtc-threshold", "0.2", "--min-new-tokens", "5"]
    options = generate_options(build_parser().parse_args(asked), "auto", 0, 0)
    assert options.sampling == SamplingOptions(
        dry_multiplier=0.8, dry_base=1.5, dry_allowed_length=3, dry_penalty_last_n=64,
        dry_sequence_breakers=("|", ". "), xtc_probability=0.5, xtc_threshold=0.2,
    )  # fmt: skip
    assert options.min_new_tokens == 5
    plain = generate_options(build_parser().parse_args(["generate", "--prompt", "Hi"]), "auto", 0, 0)
    assert plain.sampling == SamplingOptions()
