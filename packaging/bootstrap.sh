#!/usr/bin/env bash
# Takes a fresh clone to a running or tested Coppice: system libraries, virtual environment, exact versions.
# Written for bash 3.2 (macOS) and later. What it says goes to stderr, so that the output of `run` can be piped.
set -euo pipefail
unset CDPATH PYTHONHOME PYTHONPATH # the environment below is ours alone

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)
venv=${COPPICE_VENV:-$root/.venv}
case $venv in /*) ;; *) venv=$PWD/$venv ;; esac
py=$venv/bin/python
system=$(uname -s)

usage() {
    cat <<'END'
Usage: bash packaging/bootstrap.sh COMMAND [ARGUMENTS]

  run    set up what is missing, then open Coppice; ARGUMENTS go to it (see: run --help)
  test   set up what is missing, then run every check; ARGUMENTS go to pytest
  check  say what is there and what is missing, one line each; changes nothing

Environment:
  PYTHON         the Python to use, 3.11 to 3.13 (otherwise the first one that works)
  COPPICE_VENV   the virtual environment (otherwise .venv in this project)
  COPPICE_TORCH  the build of PyTorch: cpu, cuda, or default for the one pip chooses
                 (otherwise cpu on a Linux machine without an NVIDIA driver)
END
}

say() { printf 'coppice: %s\n' "$*" >&2; }

fail() {
    say "error: $*"
    exit 1
}

# shellcheck source=packaging/linux/libraries.sh
. "$root/packaging/linux/libraries.sh"
# shellcheck source=packaging/python.sh
. "$root/packaging/python.sh"
# shellcheck source=packaging/packages.sh
. "$root/packaging/packages.sh"

run() {
    set_up run
    # Safe path: a folder named `app` or `engine` where the person happens to stand must not be taken for ours.
    PYTHONSAFEPATH=1 exec "$py" -m app "$@"
}

processor_seconds() { # into $used: what this script and all that it started and waited for took, user and system
    times >"$clock" # in this shell: a subshell would count its own
    used=$(tr 'ms' '  ' <"$clock" | awk '{ total += $1 * 60 + $2 + $3 * 60 + $4 } END { printf "%d", total }')
}

step() { # name, command: runs it and keeps its outcome for the summary
    local name=$1 start=$SECONDS outcome=ok before
    shift
    processor_seconds
    before=$used
    printf '\n== %s\n' "$name"
    "$@" || outcome=FAILED
    processor_seconds
    summary+=$(printf '%-8s %s (%s s, %s s of processor time)' "$outcome" "$name" $((SECONDS - start)) $((used - before)))$'\n'
}

run_tests() {
    export QT_QPA_PLATFORM=offscreen
    unset PYTHONDONTWRITEBYTECODE # else every process of the tests compiles all that it imports
    clock=$(mktemp)
    trap 'rm -f "$clock"' EXIT
    set_up dev
    cd "$root"
    trap 'exit 130' INT
    processor_seconds
    summary="ok       set-up ($SECONDS s, $used s of processor time)"$'\n'
    step "ruff check" "$py" -m ruff check
    step "ruff format" "$py" -m ruff format --check
    step "mypy --strict" "$py" -m mypy
    # What stands behind a question which system it is. What follows such a question may not be reached there.
    step "mypy --strict, Windows" "$py" -m mypy --platform win32 --no-warn-unreachable --cache-dir .mypy_cache/win32 engine app
    step "mypy --strict, macOS" "$py" -m mypy --platform darwin --no-warn-unreachable --cache-dir .mypy_cache/darwin engine app
    if [ -n "$(find packaging/demo_models -name '*.py' 2>/dev/null)" ]; then
        step "mypy --strict, model scripts" "$py" -m mypy packaging/demo_models
    fi
    step "import contracts" "$py" -c 'from importlinter.cli import lint_imports_command; lint_imports_command()'
    # More processes than that would wait for memory and for each other's windows rather than for processors.
    # A crashed process ends the run: with another one in its place it can wait for ever.
    step "pytest" "$py" -m pytest --numprocesses logical --maxprocesses 4 --max-worker-restart 0 --dist loadfile "$@"
    processor_seconds
    printf '\n== summary\n%sprocessor time in all: %s s\n' "$summary" "$used"
    case $summary in *FAILED*) return 1 ;; esac
}

item() { # outcome, sentence; a missing item makes `check` fail
    printf '%-8s %s\n' "$1" "$2"
    [ "$1" != missing ] || lacking=1
}

check() {
    local python missing model
    lacking=0
    if venv_works; then
        item ok "virtual environment: $venv, Python $(python_version "$py")"
    elif python=$(find_python); then
        item ok "Python $(python_version "$python"): $python"
        item missing "virtual environment: $venv; 'run' and 'test' make it"
    else
        item missing "$(python_advice)"
    fi
    if is_installed dev; then
        item ok "packages: installed, for running and testing"
    elif is_installed run; then
        item ok "packages: installed, for running; 'test' adds its own"
    else
        item missing "packages: 'run' and 'test' install them, up to $(gib "$(kib_needed)") more on disk"
        if [ "$(kib_free)" -lt "$(kib_needed)" ]; then item missing "disk: only $(gib "$(kib_free)") are free"; fi
    fi
    missing=$(missing_libraries xcb offscreen)
    if [ -n "$missing" ]; then item missing "$(library_advice <<<"$missing")"; else item ok "system libraries"; fi
    for model in demo-target demo-draft; do
        if [ -s "$root/resources/models/$model/model.safetensors" ]; then
            item ok "embedded model: $model"
        else
            item missing "embedded model: resources/models/$model has no weights; clone the project again"
        fi
    done
    if has_nvidia; then item ok "NVIDIA driver"; else item note "no NVIDIA driver: models compute on the CPU"; fi
    return "$lacking"
}

main() {
    local command=${1:-}
    [ $# = 0 ] || shift
    case $command in
    -h | --help | help) usage && exit ;;
    run | test | check) ;;
    *) usage >&2 && exit 2 ;;
    esac
    case $system in MINGW* | MSYS* | CYGWIN*) fail "This script is for Linux and macOS. On Windows: packaging\\bootstrap.ps1" ;; esac
    case $command in
    run) run "$@" ;;
    test) run_tests "$@" ;;
    check) check ;;
    esac
}

main "$@"
