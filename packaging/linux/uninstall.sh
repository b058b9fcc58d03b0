#!/bin/sh
# Takes away what the self-extracting archive installed; chats, settings, models and the engine stay.
set -eu

target=$(cd -- "$(dirname -- "$0")" && pwd -P)
if [ ! -x "$target/coppice" ] || [ ! -f "$target/desktop-files" ]; then
    echo "coppice: error: $target is no installed Coppice" >&2
    exit 1
fi
share=$(cat "$target/desktop-folder")
while IFS= read -r file; do rm -f "$share/$file"; done <"$target/desktop-files"
if command -v update-desktop-database >/dev/null 2>&1; then update-desktop-database -q "$share/applications" || :; fi
if command -v update-mime-database >/dev/null 2>&1; then update-mime-database "$share/mime" || :; fi
if [ -e "$target/coppice-data" ]; then
    find "$target" -mindepth 1 -maxdepth 1 ! -name coppice-data -exec rm -rf {} +
    echo "Coppice is gone. What you made with it is still in $target/coppice-data."
    exit 0
fi
rm -rf "$target"
echo "Coppice is gone. What you made with it is still in $share/coppice and ~/.config/coppice."
