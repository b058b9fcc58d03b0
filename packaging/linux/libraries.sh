# Part of bootstrap.sh: the system libraries Qt loads; finds the missing ones and installs them where it may.
# shellcheck shell=bash disable=SC2154 # $root, $venv, $py and $system are bootstrap.sh's

libraries=$root/packaging/linux/libraries.txt

can_install() {
    command -v apt-get >/dev/null && { [ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null; }
}

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

refresh_packages() {
    as_root apt-get update -qq >&2 || say "apt-get update failed; trying with the package lists that are here"
}

install_packages() {
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >&2
}

# The libraries that the named Qt platforms (xcb, offscreen) need and the system lacks. Asks the linker about the real
# plugins when they are installed, else looks for the known names.
missing_libraries() {
    local platform plugins=()
    [ "$system" = Linux ] || return 0
    for platform in "$@"; do
        plugins+=("$venv"/lib/python3.*/site-packages/PySide6/Qt/plugins/platforms/libq"$platform".so)
    done
    if [ -e "${plugins[0]}" ]; then
        LC_ALL=C ldd "${plugins[@]}" 2>/dev/null | awk '/not found/ { print $1 }' | sort -u
    else
        LC_ALL=C comm -23 <(known_libraries) <(present_libraries)
    fi
}

known_libraries() { awk '!/^#/ { print $1 }' "$libraries" | LC_ALL=C sort; }

present_libraries() { PATH=$PATH:/sbin:/usr/sbin ldconfig -p | awk '{ print $1 }' | LC_ALL=C sort -u; }

# Prints, on one line, the packages that hold the libraries on stdin; $1 is the column of their package manager.
packages_of() {
    awk -v column="$1" 'NR == FNR { package[$1] = $column; next } $1 in package { print package[$1] }' "$libraries" - |
        sort -u | xargs
}

library_advice() {
    local names
    names=$(cat)
    echo "Qt needs these system libraries, which are missing: $(xargs <<<"$names")"
    echo "  Debian, Ubuntu: sudo apt-get install $(packages_of 2 <<<"$names")"
    echo "  Fedora:         sudo dnf install $(packages_of 3 <<<"$names")"
    echo "  Arch:           sudo pacman -S $(packages_of 4 <<<"$names")"
}

ensure_libraries() {
    local missing packages
    missing=$(missing_libraries xcb offscreen)
    [ -n "$missing" ] || return 0
    packages=$(packages_of 2 <<<"$missing")
    if [ -n "$packages" ] && can_install; then
        say "installing system libraries: $packages"
        refresh_packages
        # shellcheck disable=SC2086 # one word per package
        install_packages $packages || say "apt-get could not install them"
        missing=$(missing_libraries xcb offscreen)
        [ -n "$missing" ] || return 0
    fi
    say "$(library_advice <<<"$missing")"
    # A window needs them all; a platform chosen by hand, as in the tests, may do with fewer.
    [ -n "${QT_QPA_PLATFORM:-}" ] && [ -z "$(missing_libraries offscreen)" ] || exit 1
    say "going on without them: no window is needed"
}
