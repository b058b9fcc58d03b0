"""The scripts and files that start the checks on each system run the same checks."""

import re
from importlib import metadata
from pathlib import Path

import pytest

from app.installation.runtime.builds import CUDA_CAPABILITY, CUDA_DRIVER

ROOT = Path(__file__).parents[1]
SHELL = "".join((ROOT / "packaging" / name).read_text("utf-8") for name in ("bootstrap.sh", "packages.sh"))
POWERSHELL = (ROOT / "packaging/bootstrap.ps1").read_text("utf-8")
WORKFLOW = (ROOT / ".github/workflows/checks.yml").read_text("utf-8")


def steps_of_shell() -> dict[str, list[str]]:
    """Each step of `bootstrap.sh test` with the words that Python gets; its `"$@"` is left out."""
    found = re.findall(r'^ +step "([^"]+)" "\$py" (.+)$', SHELL, re.MULTILINE)
    steps = {name: re.findall(r"'[^']*'|[^\s\"]+", words.replace(' "$@"', "")) for name, words in found}
    return {name: [word.strip("'") for word in words] for name, words in steps.items()}


def steps_of_powershell() -> dict[str, list[str]]:
    """The same of `bootstrap.ps1 test`."""
    found = re.findall(r"^ +'([^']+)' += @\((.+)\)(?: \+ \$Arguments)?$", POWERSHELL, re.MULTILINE)
    return {name: re.findall(r"'([^']*)'", words) for name, words in found}


def test_windows_runs_the_checks_that_the_other_systems_run() -> None:
    shell = {name: words for name, words in steps_of_shell().items() if name != "mypy --strict, model scripts"}
    assert len(shell) == 7
    assert steps_of_powershell() == shell


@pytest.mark.parametrize("command", ["run", "test", "check"])
def test_both_scripts_know_the_same_commands(command: str) -> None:
    assert re.search(rf"^\s+{command}\) ", SHELL, re.MULTILINE)
    assert re.search(rf"^\s+'{command}' \{{", POWERSHELL, re.MULTILINE)


def test_both_scripts_read_the_same_environment() -> None:
    for name in ("COPPICE_VENV", "COPPICE_TORCH"):
        assert f"${{{name}:-" in SHELL
        assert f"$env:{name}" in POWERSHELL


def test_what_pytest_is_to_get_is_not_taken_for_parameters_of_powershell() -> None:
    """A script with a parameter that has an attribute knows -Verbose, -Debug, -PipelineVariable and others besides."""
    code = POWERSHELL.partition("#>")[2]
    assert not re.search(r"^(\[CmdletBinding|param\()", code, re.MULTILINE | re.IGNORECASE)
    assert code.lstrip().splitlines()[1] == "$Command, $Arguments = $args"


def test_a_program_that_warns_works_in_the_powershell_of_windows() -> None:
    """Version 5.1 throws what goes to an error stream that is redirected, wherever errors stop a script."""
    functions = re.findall(r"^function .*?^\}", POWERSHELL, re.MULTILINE | re.DOTALL)
    quiet = [each for each in functions if "2>$null" in each]
    assert len(quiet) == 4
    for each in quiet:
        assert each.index("$ErrorActionPreference = 'Continue'") < each.index("2>$null")


def powershell_function(name: str) -> str:
    """What a function of `bootstrap.ps1` does."""
    found = re.search(rf"^function {name}\b.*?^\}}", POWERSHELL, re.MULTILINE | re.DOTALL)
    return found[0] if found else ""


def test_an_environment_that_does_not_run_is_made_anew() -> None:
    assert re.search(r"^ensure_venv\(\) \{\n.*\n +venv_works && return", SHELL, re.MULTILINE)
    assert "(Test-Python $python)" in powershell_function("Test-Environment")
    assert "import pip" in powershell_function("Test-Environment")
    assert "(Test-Environment)" in powershell_function("Test-Installed")
    making = powershell_function("Install-Environment").partition("if (-not (Test-Environment)) {")[2]
    assert "-m', 'venv', '--clear'" in making
    assert "if (Test-Environment) {" in powershell_function("Show-State")


def test_the_longest_path_of_an_environment_is_known() -> None:
    """Windows takes 260 characters, and torch's licences have more in a folder that is deep."""
    torch = metadata.distribution("torch")
    named = f"torch-{torch.version.partition('+')[0]}+cu130.dist-info"
    paths = [str(each) for each in torch.files or () if ".dist-info" in each.parts[0]]
    longest = max(len(named) + len(path) - path.index("/") for path in paths)
    found = re.search(r"^\$longestName = (\d+)", POWERSHELL, re.MULTILINE)
    assert found is not None
    assert int(found[1]) == longest
    assert powershell_function("Install-Environment").index("Test-PathLength") < 100


def test_cards_that_cuda_computes_on_are_those_of_the_packaged_program() -> None:
    major, minor = CUDA_CAPABILITY
    assert f"$cudaDriver, $cudaCapability = {CUDA_DRIVER[0]}, {10 * major + minor} #" in POWERSHELL


def test_a_double_click_runs_the_script_whatever_it_may_run() -> None:
    """Windows opens a script of PowerShell in an editor."""
    command = (ROOT / "packaging/bootstrap.cmd").read_bytes()
    assert command.count(b"\n") == command.count(b"\r\n")
    assert b'-ExecutionPolicy Bypass -File "%~dp0bootstrap.ps1" run\r\n' in command
    assert b"if errorlevel 1 pause" in command, "else what went wrong goes with its window"


def test_the_matrix_has_every_system_and_calls_the_scripts() -> None:
    systems = re.search(r"^ +system: \[(.+)\]$", WORKFLOW, re.MULTILINE)
    assert systems is not None
    assert {name.split("-")[0] for name in systems[1].split(", ")} == {"ubuntu", "windows", "macos"}
    assert "run: bash packaging/bootstrap.sh test" in WORKFLOW
    assert "run: ./packaging/bootstrap.ps1 test" in WORKFLOW
