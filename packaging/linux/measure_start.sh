#!/usr/bin/env bash
# Measures a start as a person sees it: from starting the program to its window, and to the engine being ready for questions.
# Needs xvfb and xdotool, a packaged Coppice, and the engine's runtime in a data folder (made there with --wheels).
set -euo pipefail
unset CDPATH

usage() {
    cat <<'END'
Usage: bash packaging/linux/measure_start.sh PROGRAM DATA-DIR [--wheels DIR] [--times N]

  PROGRAM      such as build/bundle/coppice/coppice
  DATA-DIR     a folder for Coppice's data; the engine is installed there where --wheels is given
  --times N    starts to measure (5), after one that is not counted

Prints one line per start, then the medians. Bounds: 1.0 s to the window, 6.0 s to the engine. Ends with 1 where one is missed.
END
}

milliseconds() { echo $(($(date +%s%N) / 1000000)); }

fail() {
    printf 'measure: %s\n' "$*" >&2
    exit 1
}

clean_up() {
    trap - EXIT
    if [ -n "${program_pid:-}" ]; then kill "$program_pid" 2>/dev/null || :; fi
    if [ -n "${screen_pid:-}" ]; then kill "$screen_pid" 2>/dev/null || :; fi
}

start_screen() {
    local display
    for display in $(seq 90 120); do [ -e "/tmp/.X11-unix/X$display" ] || break; done
    Xvfb ":$display" -noreset -screen 0 1440x900x24 >/dev/null 2>&1 & # it stays between two starts
    screen_pid=$!
    export DISPLAY=":$display"
    until xdotool getdisplaygeometry >/dev/null 2>&1; do sleep 0.05; done
}

until_within() { # seconds, command
    local end=$((SECONDS + $1))
    shift
    until "$@" >/dev/null 2>&1; do
        [ $SECONDS -lt $end ] && kill -0 "$program_pid" 2>/dev/null || return 1
        sleep 0.002 # a look takes 18 ms itself, nearly all of it asleep
    done
}

has_window() { xdotool search --onlyvisible --pid "$program_pid" --name Coppice; }

is_ready() { [ "$(grep -c 'Loaded: ' "$data/logs/coppice.log")" -gt "$before" ]; }

measure() { # sets window and engine, in milliseconds
    local begin before
    before=$(grep -c 'Loaded: ' "$data/logs/coppice.log" 2>/dev/null) || before=${before:-0} # no log yet: none
    begin=$(milliseconds)
    "$program" --data-dir "$data" >/dev/null 2>&1 &
    program_pid=$!
    until_within 60 has_window || fail "no window: the program has ended, or takes longer than 60 s"
    window=$(($(milliseconds) - begin))
    until_within 60 is_ready || fail "no engine: the program has ended, or takes longer than 60 s"
    engine=$(($(milliseconds) - begin))
    kill "$program_pid"
    wait "$program_pid" 2>/dev/null || :
    program_pid=""
}

median() { sort -n | awk '{ value[NR] = $1 } END { print value[int((NR + 1) / 2)] }'; }

main() {
    local times=5 wheels="" number windows=() engines=() window engine
    case ${1:-} in -h | --help | "") usage && exit ;; esac
    program=$(realpath -- "$1") data=$(realpath -m -- "${2:?a data folder}")
    shift 2
    while [ $# -gt 0 ]; do
        case $1 in
        --wheels) wheels=$2 && shift 2 ;;
        --times) times=$2 && shift 2 ;;
        *) usage >&2 && exit 2 ;;
        esac
    done
    trap clean_up EXIT
    if [ -n "$wheels" ]; then "$program" runtime install --build cpu --wheels "$wheels" --data-dir "$data"; fi
    start_screen
    for number in $(seq 0 "$times"); do
        measure
        printf 'start %s: window after %s ms, engine ready after %s ms\n' "$number" "$window" "$engine"
        [ "$number" != 0 ] || continue # the first one reads from the disk
        windows+=("$window") engines+=("$engine")
    done
    window=$(printf '%s\n' "${windows[@]}" | median)
    engine=$(printf '%s\n' "${engines[@]}" | median)
    printf 'median: window after %s ms, engine ready after %s ms\n' "$window" "$engine"
    [ "$window" -le 1000 ] && [ "$engine" -le 6000 ]
}

main "$@"
