#!/bin/sh
# Coppice @VERSION@ for Linux, in one file: this script, and the application after it. Run it: sh THIS-FILE [--help]
set -eu

usage() {
    cat <<'END'
Installs Coppice for this user, without root.

  sh coppice.run [--to FOLDER]   install (to ~/.local/opt/coppice), and put it into the applications menu
  sh coppice.run --extract DIR   only unpack into DIR

To take it away again: sh FOLDER/uninstall.sh
END
}

fail() {
    echo "coppice: error: $*" >&2
    exit 1
}

unpack() { # folder: everything after the last line of this script
    command -v xz >/dev/null 2>&1 || fail "xz is missing; install the package xz-utils (or xz), then start this again"
    tail -n "+$((LINES_OF_SCRIPT + 1))" "$self" | { xz -dc || : >"$1/damaged"; } | tar -C "$1" -xf - || : >"$1/damaged"
    [ ! -e "$1/damaged" ] || fail "this file is damaged; download it again"
}

LINES_OF_SCRIPT=$(awk '/^__END__$/ { print NR; exit }' "$0")
case $0 in /*) self=$0 ;; *) self=$PWD/$0 ;; esac
target=${HOME:?}/.local/opt/coppice
share=${XDG_DATA_HOME:-$HOME/.local/share}
case ${1:-} in
"") ;;
--to) target=${2:?a folder} ;;
--extract) mkdir -p "${2:?a folder}" && unpack "$2" && exit ;;
-h | --help) usage && exit ;;
*) usage >&2 && exit 2 ;;
esac
case $target in /*) ;; *) target=$PWD/$target ;; esac
while [ "$target" != / ] && [ "${target%/}" != "$target" ]; do target=${target%/}; done
if [ -d "$target" ]; then target=$(cd -- "$target" && pwd -P); fi # without links and dots: folders are made beside it
if [ -e "$target" ] && [ ! -e "$target/uninstall.sh" ] && [ "$(ls -A "$target")" != coppice-data ]; then
    fail "$target is there already and is no Coppice; give another folder with --to"
fi

# Unpacked beside its place first, so that an interrupted start leaves the former one whole.
mkdir -p "$(dirname -- "$target")" "$share"
fresh=$(mktemp -d "$target.XXXXXX")
trap 'rm -rf "$fresh"' EXIT
unpack "$fresh"
chmod 755 "$fresh"
# The former one moves aside and is deleted last, because a portable one holds chats and settings in coppice-data.
former=
if [ -e "$target" ]; then
    former=$(mktemp -d "$target.XXXXXX")
    mv "$target" "$former/coppice"
fi
mv "$fresh/coppice" "$target"
if [ -n "$former" ]; then
    if [ -e "$former/coppice/coppice-data" ]; then mv "$former/coppice/coppice-data" "$target/"; fi
    rm -rf "$former"
fi
escaped=$(printf '%s' "$target/coppice" | sed 's/[\\"`$]/\\\\&/g; s/[&|\\]/\\&/g')
sed -i "s|^Exec=coppice|Exec=\"$escaped\"|" "$fresh/share/applications/coppice.desktop"
(cd "$fresh/share" && find . -type f) >"$target/desktop-files"
printf '%s\n' "$share" >"$target/desktop-folder"
cp -R "$fresh/share/." "$share/"
if command -v update-desktop-database >/dev/null 2>&1; then update-desktop-database -q "$share/applications" || :; fi
if command -v update-mime-database >/dev/null 2>&1; then update-mime-database "$share/mime" || :; fi
echo "Coppice @VERSION@ is in $target and in the applications menu."
echo "To take it away again: sh '$target/uninstall.sh'"
exit 0
# shellcheck disable=SC2317 # the archive begins here
__END__
