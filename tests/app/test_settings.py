"""Settings: kept, checked when read, and never lost to a damaged file."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from app.settings.generation import RANDOM_SEED, GenerationSettings
from app.settings.preferences import TINT_CHANCE, TINT_OFF, TINT_ORIGIN
from app.settings.store import Settings, SettingsFile
from engine.errors import InputError
from engine.protocol.options import GenerateOptions


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the settings lie."""
    return tmp_path / "settings.json"


def test_a_change_is_there_in_the_next_session(path: Path) -> None:
    generation = GenerationSettings(method="none", budget=128, temperature=0.0, seed=7, system_prompt="Be brief.")
    SettingsFile(path).change(target="/models/big", generation=generation)
    assert SettingsFile(path).current == Settings(target="/models/big", generation=generation)


def test_nothing_is_written_where_nothing_changes(path: Path) -> None:
    SettingsFile(path).change(target=Settings().target)
    assert not path.exists()


@pytest.mark.parametrize("content", ["", "{", "\x00\xff", "[1, 2", pytest.param("[" * 100_000, id="deep")])
def test_a_damaged_file_is_set_aside(path: Path, content: str) -> None:
    path.write_text(content, encoding="latin-1")
    settings = SettingsFile(path)
    assert settings.current == Settings()
    assert path.with_suffix(".damaged.json").read_text(encoding="latin-1") == content
    settings.change(draft="none")
    assert SettingsFile(path).current.draft == "none"


@pytest.mark.parametrize("content", [[], 5, {"target": 5}, {"generation": []}, {"generation": {"budget": True}}])
def test_values_of_the_wrong_type_are_defaults(path: Path, content: object) -> None:
    path.write_text(json.dumps(content), encoding="utf-8")
    assert SettingsFile(path).current == Settings()


@pytest.mark.parametrize("wrong", [{"temperature": -1}, {"top_p": 0}, {"seed": -7}, {"method": "magic"}])
def test_values_out_of_range_are_defaults(path: Path, wrong: dict[str, object]) -> None:
    path.write_text(json.dumps({"target": "/kept", "generation": wrong}), encoding="utf-8")
    assert SettingsFile(path).current == Settings(target="/kept")


def test_a_folder_of_somebody_whom_this_computer_does_not_know_is_the_default(path: Path) -> None:
    path.write_text(json.dumps({"target": "/kept", "prepared_folder": "~nobody-of-this-name/models"}), encoding="utf-8")
    assert SettingsFile(path).current == Settings(target="/kept")


def test_whole_numbers_that_no_decimal_can_hold_are_defaults(path: Path) -> None:
    content = {"target": "/kept", "vram_limit_gb": 10**400, "generation": {"temperature": -(10**400)}}
    path.write_text(json.dumps(content), encoding="utf-8")
    assert SettingsFile(path).current == Settings(target="/kept")


def test_unknown_names_and_whole_numbers_for_decimals_are_understood(path: Path) -> None:
    path.write_text(json.dumps({"from_the_future": 1, "generation": {"temperature": 1, "top_k": 40}}), encoding="utf-8")
    assert SettingsFile(path).current.generation == GenerationSettings(temperature=1.0, top_k=40)


def test_a_folder_that_cannot_be_written_is_no_crash(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    settings = SettingsFile(tmp_path / "missing" / "settings.json")
    settings.change(draft="none")
    assert settings.current.draft == "none"
    assert "could not be written" in caplog.text


def test_a_random_seed_differs_and_a_given_one_does_not() -> None:
    random = GenerationSettings(seed=RANDOM_SEED)
    assert len({random.options().sampling.seed for _ in range(20)}) > 1
    given = replace(random, seed=42)
    assert given.options() == given.options()
    assert given.options().sampling.seed == 42


def test_every_setting_reaches_the_engine() -> None:
    options = GenerationSettings("none", 32, 0.5, 0.8, 40, 0.1, 1.1, 3, 99).options()
    assert options.speculation.method == "none"
    assert options.speculation.budget == 32
    sampling = options.sampling
    assert (sampling.temperature, sampling.top_p, sampling.top_k, sampling.min_p) == (0.5, 0.8, 40, 0.1)
    assert (sampling.repetition_penalty, sampling.seed, options.max_new_tokens) == (1.1, 3, 99)


def test_the_defaults_are_legal() -> None:
    GenerationSettings().check()
    assert isinstance(GenerationSettings().options(), GenerateOptions)
    with pytest.raises(InputError, match="Temperature"):
        GenerationSettings(temperature=-0.1).check()


@pytest.mark.parametrize("version", [0, 7])
def test_settings_of_another_version_are_copied_and_what_only_they_have_is_kept(path: Path, version: int) -> None:
    theirs = {"version": version, "target": "/kept", "of_tomorrow": {"a": [1]}}
    path.write_text(json.dumps(theirs), encoding="utf-8")
    settings = SettingsFile(path)
    assert settings.current == Settings(target="/kept")
    settings.change(draft="none")
    assert json.loads(path.with_suffix(f".v{version}.json").read_text("utf-8")) == theirs
    assert json.loads(path.read_text("utf-8"))["of_tomorrow"] == theirs["of_tomorrow"]
    assert SettingsFile(path).current == Settings(target="/kept", draft="none")


@pytest.mark.parametrize(
    ("theirs", "tint"),
    [
        ({"chat_tint": True}, TINT_ORIGIN),
        ({"chat_tint": False}, TINT_OFF),
        ({"chat_tint": "yes"}, TINT_OFF),
        ({"chat_tint": True, "token_tint": TINT_CHANCE}, TINT_CHANCE),
    ],
)
def test_the_one_tint_of_old_is_the_one_by_origin(path: Path, theirs: dict[str, object], tint: str) -> None:
    path.write_text(json.dumps(theirs), encoding="utf-8")
    settings = SettingsFile(path)
    assert settings.current.token_tint == tint
    settings.change(draft="none")
    assert "chat_tint" not in json.loads(path.read_text("utf-8"))
    settings.change(token_tint=TINT_OFF)
    assert SettingsFile(path).current.token_tint == TINT_OFF
