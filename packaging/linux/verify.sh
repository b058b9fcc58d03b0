#!/usr/bin/env bash
# Installs the .deb in a minimal Debian without Python, uses Coppice there as a person would, removes it, and looks what is left.
# Needs root, debootstrap, xvfb, xdotool, imagemagick, sqlite3 and, for apt inside, the network; Coppice itself gets none.
set -euo pipefail
unset CDPATH

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)
build=$(cd -- "$here/../.." && pwd -P)/build
suite=bookworm
person=anna
home="/home/$person/Daten für Ännchen" # a space and letters beyond ASCII, as homes have them
question="Tell me a story about a small bird."

usage() {
    cat <<'END'
Usage: bash packaging/linux/verify.sh --deb FILE --wheels DIR [--out DIR]

  --deb FILE     the package, as build.sh left it
  --wheels DIR   the wheels of packaging/locks/linux-x86_64/cpu.json; packaging/engine_locks.py fills such a folder
  --out DIR      takes the screenshots and logs (build/verify)

The minimal system is made once, in build/verify-base; delete that to have it made anew.
END
}

say() { printf 'verify: %s\n' "$*"; }

fail() {
    printf 'verify: FAILED: %s\n' "$*" >&2
    exit 1
}

inside() { # as root, with the network
    chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 "$@"
}

as_person() { # without any network; the window goes through the socket file of the virtual screen
    unshare --net chroot --userspec=1000:1000 "$root" env -i PATH=/usr/bin:/bin HOME="$home" USER=$person \
        LANG=C.UTF-8 DISPLAY=":$display" XDG_RUNTIME_DIR="$home" "$@"
}

make_root() {
    local base=$build/verify-base
    if [ ! -e "$base/done" ]; then
        say "making a minimal system"
        rm -rf "$base"
        debootstrap --variant=minbase "$suite" "$base/root" >"$out/debootstrap.log" || fail "debootstrap: $out/debootstrap.log"
        touch "$base/done"
    fi
    root=$(mktemp -d "$build/verify-root.XXXXXX")
    cp -a "$base/root/." "$root/"
    cp /etc/resolv.conf "$root/etc/resolv.conf"
    mount -t proc proc "$root/proc"
    mount --rbind --make-rslave /dev "$root/dev"
    mkdir -p "$root/tmp/.X11-unix" "$root/media/wheels"
    mount --bind /tmp/.X11-unix "$root/tmp/.X11-unix"
    mount --bind -o ro "$wheels" "$root/media/wheels"
    inside useradd --uid 1000 --home-dir "$home" --create-home "$person"
}

clean_up() {
    local code=$? pid
    trap - EXIT
    for pid in $(find_processes) ${xvfb:-}; do kill -KILL "$pid" 2>/dev/null || :; done
    if [ -n "${root:-}" ]; then
        cp -r "$root$home/.local/state/coppice/log" "$out/" 2>/dev/null || :
        umount -l "$root/tmp/.X11-unix" "$root/media/wheels" "$root/proc" "$root/dev" 2>/dev/null || :
        if mountpoint -q "$root/dev" || mountpoint -q "$root/media/wheels"; then
            say "$root is still mounted; it stays"
        else
            rm -rf --one-file-system "$root"
        fi
    fi
    if [ "$code" = 0 ]; then say "all is well; pictures in $out"; else say "ended with $code; see $out"; fi
    exit "$code"
}

find_processes() { # those that run inside
    local link
    [ -n "${root:-}" ] || return 0
    for link in /proc/[0-9]*/root; do
        if [ "$(readlink "$link" 2>/dev/null)" = "$root" ]; then basename "$(dirname "$link")"; fi
    done
}

start_screen() { # on a number that is free; it stays as it is when the last window is gone
    rm -f "$out/display"
    Xvfb -displayfd 3 -noreset -screen 0 1440x900x24 3>"$out/display" >"$out/xvfb.log" 2>&1 &
    xvfb=$!
    wait_for 20 "the virtual screen" test -s "$out/display"
    display=$(cat "$out/display")
}

wait_for() { # seconds, what, command
    local end=$((SECONDS + $1)) what=$2
    shift 2
    until "$@"; do
        [ $SECONDS -lt $end ] || fail "waited in vain for $what"
        sleep 0.2
    done
}

on_screen() { DISPLAY=":$display" "$@"; }

has_window() { on_screen xdotool search --onlyvisible --name "$1" >/dev/null 2>&1; }

picture() { on_screen import -window root "$out/$1.png"; }

# What a desktop would start on a double click: the Exec line, without the place of a file.
exec_line() { sed -n 's/^Exec=\(.*\)$/\1/p' "$root/usr/share/applications/coppice.desktop" | sed 's/ %[fFuU]//'; }

start_window() {
    # shellcheck disable=SC2046 # the Exec line is words
    as_person $(exec_line) >"$out/window-$1.log" 2>&1 &
    window=$!
    wait_for 60 "the window" has_window Coppice
    kill -0 "$window" || fail "the program has ended: $out/window-$1.log"
}

close_window() {
    local pid
    for pid in $(find_processes); do kill -TERM "$pid" 2>/dev/null || :; done
    wait "$window" || fail "the program did not end in order: $out/window-*.log"
    wait_for 20 "the end of every process" no_process
}

no_process() { [ -z "$(find_processes)" ]; }

answers() { # how many there are
    sqlite3 -readonly "$root$home/.local/share/coppice/chats.sqlite3" \
        "SELECT count(*) FROM messages WHERE role = 'assistant' AND ending = 'complete' AND length(text) > 20" 2>/dev/null || echo 0
}

has_answers() { [ "$(answers)" -ge "$1" ]; }

has_engine() { grep -qs 'Loaded: ' "$root$home/.local/state/coppice/log/coppice.log"; }

# Every file of the system that no package owns, less what package managers and caches keep for themselves.
strays() {
    inside sh -c 'find / -xdev \( -path /proc -o -path /dev -o -path /home -o -path /media -o -path /tmp -o -path /run \
        -o -path /var/lib -o -path /var/cache -o -path /var/log \) -prune -o \( -type f -o -type l \) -print' | sort
}

check_install() {
    say "installing $(basename "$deb")"
    cp "$deb" "$root/tmp/coppice.deb"
    inside apt-get update -qq >"$out/apt.log" 2>&1 || fail "apt-get update: $out/apt.log"
    inside apt-get install -y --no-install-recommends /tmp/coppice.deb >>"$out/apt.log" 2>&1 || fail "apt-get: $out/apt.log"
    rm "$root/tmp/coppice.deb"
    ! inside sh -c 'command -v python3 || command -v python || ls -d /usr/lib/python3*' || fail "the system has a Python"
    inside /usr/bin/coppice --version
}

focus() { # the window whose name begins so
    on_screen xdotool windowfocus --sync "$(on_screen xdotool search --onlyvisible --name "^$1" | tail -n 1)"
    sleep 0.5
}

# As a person would by keyboard: tick the wheel folder (Alt+W), name it, install (Alt+I), try the embedded model (Return).
check_first_run() {
    local begin
    say "first start: $(exec_line)"
    start_window first
    wait_for 30 "the assistant" has_window '^Engine'
    sleep 2 # for a picture of something that has been painted
    picture 1-assistant
    focus Engine
    on_screen xdotool key alt+w
    sleep 1 # the tick is a click that takes a moment; then the cursor is in the field
    on_screen xdotool type --delay 30 /media/wheels
    picture 2-wheel-folder
    begin=$SECONDS
    on_screen xdotool key alt+i
    sleep 3
    picture 3-installing
    wait_for 900 "the engine" has_engine
    say "the engine was installed, verified and loaded within $((SECONDS - begin)) s"
    sleep 2
    picture 4-ready
    focus Engine
    begin=$SECONDS
    on_screen xdotool key Return
    wait_for 180 "the first answer" has_answers 1
    say "the first answer was complete after $((SECONDS - begin)) s"
    sleep 1
    picture 5-first-answer
    close_window
    as_person coppice runtime status >"$out/runtime.log"
}

check_second_start() {
    say "second start: asking: $question"
    start_window second
    focus '.*Coppice'
    on_screen xdotool type --delay 40 "$question" # the engine may still be loading: the question waits for it
    on_screen xdotool key Return
    wait_for 180 "the second answer" has_answers 2
    sleep 1
    picture 6-second-answer
    close_window
}

check_removal() {
    say "removing it"
    inside apt-get purge -y coppice >>"$out/apt.log" 2>&1 || fail "apt-get purge: $out/apt.log"
    # Packages still say /lib where the file lies in /usr/lib.
    inside sh -c 'cat /var/lib/dpkg/info/*.list' | sed -E 's#^/(s?bin|lib[0-9]*)/#/usr/\1/#' | sort -u >"$out/owned.txt"
    strays >"$out/after.txt"
    LC_ALL=C comm -13 <(LC_ALL=C sort -u "$out/before.txt" "$out/owned.txt") <(LC_ALL=C sort "$out/after.txt") |
        grep -vE '^/(etc/(ld\.so\.cache|fonts/)|usr/(share/(mime|icons|fonts)/|lib/.*/gio/))' >"$out/left.txt" || :
    [ ! -e "$root/opt/coppice" ] || fail "/opt/coppice is still there"
    ! grep -i coppice "$out/after.txt" || fail "files of Coppice are left"
    [ ! -s "$out/left.txt" ] || fail "left behind: $(head -5 "$out/left.txt")"
    inside find "$home" -mindepth 1 -maxdepth 3 -path '*coppice*' | tee "$out/data.txt"
    grep -q coppice "$out/data.txt" || fail "the person's data are gone"
}

main() {
    deb="" wheels="" out=$build/verify root="" display=""
    while [ $# -gt 0 ]; do
        case $1 in
        --deb) deb=$(realpath -- "$2") && shift 2 ;;
        --wheels) wheels=$(realpath -- "$2") && shift 2 ;;
        --out) out=$(realpath -m -- "$2") && shift 2 ;;
        -h | --help) usage && exit ;;
        *) usage >&2 && exit 2 ;;
        esac
    done
    if [ -z "$deb" ] || [ -z "$wheels" ]; then usage >&2 && exit 2; fi
    [ "$(id -u)" = 0 ] || fail "only root can make a chroot"
    local tool
    for tool in debootstrap Xvfb xdotool import sqlite3; do
        command -v "$tool" >/dev/null || fail "there is no $tool; see the first lines of this script"
    done
    mkdir -p "$out"
    trap clean_up EXIT
    mkdir -p /tmp/.X11-unix
    make_root
    strays >"$out/before.txt"
    start_screen
    check_install
    check_first_run
    check_second_start
    check_removal
}

main "$@"
