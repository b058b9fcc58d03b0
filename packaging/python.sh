# Part of bootstrap.sh: finds a Python that can make the environment, or says how to get one.
# shellcheck shell=bash disable=SC2154 # $root, $venv, $py and $system are bootstrap.sh's

python_works() {
    "$1" -c 'import sys
good = (3, 11) <= sys.version_info < (3, 14) and sys.implementation.name == "cpython" and sys.maxsize > 2**32
raise SystemExit(not good)' >/dev/null 2>&1
}

has_venv() { "$1" -c 'import ensurepip, venv' >/dev/null 2>&1; }

python_version() { "$1" -c 'import platform; print(platform.python_version())' 2>/dev/null; }

python_candidates() {
    local version path
    if [ -n "${PYTHON:-}" ]; then
        printf '%s\n' "$PYTHON"
        return
    fi
    for version in 3.11 3.12 3.13; do
        type -aP "python$version" || true
        for path in "${PYENV_ROOT:-${HOME:-}/.pyenv}/versions/$version".*/bin/python; do
            [ ! -x "$path" ] || printf '%s\n' "$path"
        done
    done
    type -aP python3 python || true
}

# Prints the first candidate that runs (a pyenv shim may exist and not run), has a good version and makes environments.
find_python() {
    local candidate
    while IFS= read -r candidate; do
        if python_works "$candidate" && has_venv "$candidate"; then
            printf '%s\n' "$candidate"
            return
        fi
    done < <(python_candidates)
    return 1
}

install_python() {
    local version
    if [ -z "${PYTHON:-}" ] && can_install; then
        refresh_packages
        for version in 3.11 3.12 3.13; do
            if apt-cache show "python$version-venv" >/dev/null 2>&1; then
                say "installing Python $version"
                install_packages "python$version" "python$version-venv"
                return
            fi
        done
    fi
    fail "$(python_advice)"
}

python_advice() {
    local candidate
    while IFS= read -r candidate; do
        if python_works "$candidate"; then
            candidate=$(python_version "$candidate")
            echo "Python $candidate is here, but without its modules venv and ensurepip." \
                "On Debian and Ubuntu: sudo apt-get install python${candidate%.*}-venv"
            return
        fi
    done < <(python_candidates)
    if [ -n "${PYTHON:-}" ]; then
        echo "PYTHON=$PYTHON is not a working 64-bit Python 3.11, 3.12 or 3.13. Give another one, or none."
        return
    fi
    echo "No working 64-bit Python 3.11, 3.12 or 3.13 was found. Install one and start again;" \
        "PYTHON=/path/to/python names one that is not on the PATH."
    echo "  Debian, Ubuntu: sudo apt-get install python3 python3-venv"
    echo "  Fedora:         sudo dnf install python3.13"
    echo "  Arch, macOS:    pyenv install 3.13"
}
