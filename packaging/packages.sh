# Part of bootstrap.sh: the virtual environment and the exact packages in it.
# shellcheck shell=bash disable=SC2154 # $root, $venv, $py and $system are bootstrap.sh's

stamp=$venv/coppice-installed # written when everything is in
constraints=$root/packaging/constraints.txt
cpu_index=https://download.pytorch.org/whl/cpu

has_nvidia() { [ -e /proc/driver/nvidia/version ] || nvidia-smi -L >/dev/null 2>&1; }

torch_choice() {
    case ${COPPICE_TORCH:-} in
    cpu | cuda | default) echo "$COPPICE_TORCH" ;;
    "") if [ "$system" = Linux ] && ! has_nvidia; then echo cpu; else echo default; fi ;;
    *) fail "COPPICE_TORCH=$COPPICE_TORCH is not a build of PyTorch. Give cpu, cuda or default." ;;
    esac
}

# What the installed packages depend on; the paths are in it because a moved project must be installed anew.
fingerprint() {
    { cat "$root/pyproject.toml" "$constraints" && "$py" --version && echo "$root" "$venv"; } 2>&1 | cksum | tr ' ' -
}

# The stamp holds: what was installed (run or dev), the torch choice, the fingerprint.
is_installed() {
    local kind choice print
    [ -x "$py" ] && [ -e "$stamp" ] && read -r kind choice print <"$stamp" || return 1
    [ "$print" = "$(fingerprint)" ] && [[ $kind == dev || $1 == run ]] || return 1
    [ "${COPPICE_TORCH:-$choice}" = "$choice" ] && { [ -z "${PYTHON:-}" ] || venv_works; }
}

kib_needed() {
    local all=$((3 * 1024 * 1024)) used=0
    if [ "$system" = Linux ] && [ "$(torch_choice)" != cpu ]; then all=$((9 * 1024 * 1024)); fi # the CUDA packages
    [ ! -d "$venv" ] || used=$(du -sk "$venv" | cut -f1)
    echo $((all > used ? all - used : 0))
}

kib_free() {
    local folder=$venv
    while [ ! -d "$folder" ]; do folder=$(dirname -- "$folder"); done
    df -Pk "$folder" | sed -n '2s/.* \([0-9][0-9]*\)  *[0-9][0-9]*%.*/\1/p'
}

gib() { awk -v kib="$1" 'BEGIN { printf "%.1f GiB", kib / 1048576 }'; }

ensure_disk() {
    local needed free
    needed=$(kib_needed) free=$(kib_free)
    [ "$free" -ge "$needed" ] ||
        fail "$venv needs $(gib "$needed"); $(gib "$free") are free. Make room, or set COPPICE_VENV to another disk."
}

venv_works() {
    local wanted
    python_works "$py" && "$py" -m pip --version >/dev/null 2>&1 || return 1
    if [ -z "${PYTHON:-}" ]; then return; fi
    wanted=$(python_version "$PYTHON") && [ "$wanted" = "$(python_version "$py")" ]
}

ensure_venv() {
    local python
    venv_works && return
    # Making an environment empties the folder: never one that is somebody's.
    if [ "$venv" != "$root/.venv" ] && [ ! -e "$venv/pyvenv.cfg" ] && [ -n "$(ls -A "$venv" 2>/dev/null)" ]; then
        fail "$venv is not a virtual environment and not empty. Set COPPICE_VENV to another folder."
    fi
    if ! python=$(find_python); then
        install_python
        python=$(find_python) || fail "$(python_advice)"
    fi
    say "making $venv with Python $(python_version "$python")"
    "$python" -m venv --clear "$venv" || fail "$python could not make $venv. What it says is above."
}

pip() { # in the environment, whatever the person's own settings are; large downloads stay on the disk that was checked
    (cd "$root" && PIP_USER=0 PIP_DISABLE_PIP_VERSION_CHECK=1 TMPDIR=$venv/tmp "$py" -m pip --no-input "$@")
}

pip_finds() { # torch version, then further options: asks the indexes briefly
    local found
    found=$(pip --timeout 5 --retries 0 index versions torch "${@:2}" 2>/dev/null | grep '^Available ver') || return 1
    case ", ${found#*: }," in *", $1,"*) ;; *) return 1 ;; esac
}

# Torch goes first: its index is used for it alone, and an interrupted start does not load it twice.
ensure_torch() { # the build, then options for pip
    local version installed wanted options=()
    version=$(sed -n 's/^torch==//p' "$constraints")
    installed=$("$py" -c 'from importlib.metadata import version; print(version("torch"))' 2>/dev/null) || true
    if [ "$system" != Linux ] || [ "$1" = default ]; then return; fi
    if [ -z "${COPPICE_TORCH:-}" ] && [ "${installed%%+*}" = "$version" ]; then return; fi
    wanted=torch===$version # exactly that: pip would take a `+cpu` build for newer
    if [ "$1" = cpu ]; then
        wanted=torch==$version+cpu
        [ "$installed" != "$version+cpu" ] || return 0
        if ! pip_finds "$version+cpu"; then
            if ! pip_finds "$version+cpu" --extra-index-url "$cpu_index"; then
                say "PyTorch's CPU build is out of reach ($cpu_index); taking the default one, which is larger"
                return
            fi
            options=(--extra-index-url "$cpu_index")
        fi
    fi
    say "installing $wanted"
    pip install -c packaging/constraints.txt ${options[@]+"${options[@]}"} "${@:2}" "$wanted" >&2
}

# A package that an interrupted start left half unpacked looks installed; pip names itself in it at the very end.
forget_unfinished_packages() {
    local folder
    for folder in "$venv"/lib/python3.*/site-packages/*.dist-info; do
        [ -e "$folder/INSTALLER" ] || rm -rf "$folder"
    done
}

install() { # run or dev
    local choice project=. speed=()
    choice=$(torch_choice)
    # The checks import a small part of what is installed: Python compiles that itself, in half the time.
    [ "$1" = run ] || { project=".[$1]" speed=(--no-compile); }
    ensure_disk
    ensure_venv
    forget_unfinished_packages
    rm -rf "$stamp" "$venv/tmp"
    mkdir "$venv/tmp"
    say "installing packages into $venv; this takes some minutes the first time"
    # A Python often brings an older pip, which takes three times as long to choose among the files of an index.
    pip install -c packaging/constraints.txt ${speed[@]+"${speed[@]}"} pip >&2 || true
    if ! { ensure_torch "$choice" ${speed[@]+"${speed[@]}"} &&
        pip install -c packaging/constraints.txt ${speed[@]+"${speed[@]}"} hatchling editables >&2 &&
        pip install -c packaging/constraints.txt ${speed[@]+"${speed[@]}"} --no-build-isolation -e "$project" >&2; }; then
        fail "the packages could not be installed; pip's reason is above. Start again: what is there already is kept."
    fi
    rm -rf "$venv/tmp"
    echo "$1 $choice $(fingerprint)" >"$stamp"
}

set_up() { # run or dev
    is_installed "$1" || install "$1"
    ensure_libraries
}
