#!/usr/bin/env bash
# Builds build/coppice-VERSION-macos-MACHINE.dmg with Coppice.app in it. Needs a relocatable Python 3.11 and Xcode's tools.
# For bash 3.2, which macOS has. See ../README.md.
set -euo pipefail
unset CDPATH PYTHONHOME PYTHONPATH

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)
root=$(cd -- "$here/../.." && pwd -P)
build=$root/build
app=$build/bundle/Coppice.app
python=${PYTHON:-python3.11}
identity=${COPPICE_IDENTITY:--}
profile=${COPPICE_NOTARY_PROFILE:-}

fail() {
    printf 'coppice: error: %s\n' "$*" >&2
    exit 1
}

usage() {
    cat <<'END'
Usage: bash packaging/macos/build.sh [--no-freeze] [FREEZE OPTIONS]

  --no-freeze   package build/bundle/Coppice.app as it is; otherwise it is frozen first (freeze.py takes the options)

Environment:
  PYTHON                  the Python 3.11 to freeze; it must be relocatable, as the one of `uv python install 3.11` is
  COPPICE_IDENTITY        a "Developer ID Application" in the keychain; without one the signature is ad hoc, for this Mac only
  COPPICE_NOTARY_PROFILE  the profile that `xcrun notarytool store-credentials` made; without one nothing is notarised
END
}

# From the inside out: every program and library first, the application last, which seals them all.
sign() {
    local path runtime=()
    if [ "$identity" != - ]; then runtime=(--options runtime --timestamp); fi
    find "$app/Contents" -type f | while IFS= read -r path; do
        case $(file -b "$path") in
        Mach-O*) codesign --force --sign "$identity" ${runtime[@]+"${runtime[@]}"} --entitlements "$here/entitlements.plist" "$path" ;;
        esac
    done
    codesign --force --sign "$identity" ${runtime[@]+"${runtime[@]}"} --entitlements "$here/entitlements.plist" "$app"
    codesign --verify --strict "$app"
}

notarise() { # file
    [ -n "$profile" ] || return 0
    xcrun notarytool submit "$1" --keychain-profile "$profile" --wait
    xcrun stapler staple "$1"
}

make_dmg() {
    local tree=$build/dmg
    rm -rf "$tree" && mkdir -p "$tree"
    cp -a "$app" "$tree/"
    ln -s /Applications "$tree/Applications"
    hdiutil create -volname Coppice -srcfolder "$tree" -fs HFS+ -format UDZO -ov "$dmg"
    rm -rf "$tree"
    if [ "$identity" != - ]; then codesign --sign "$identity" --timestamp "$dmg"; fi
}

main() {
    local version dmg frozen=yes
    case ${1:-} in -h | --help) usage && exit ;; esac
    [ "$(uname -s)" = Darwin ] || fail "This needs macOS: codesign and hdiutil are Apple's."
    if [ "${1:-}" = --no-freeze ]; then frozen=no && shift; fi
    [ $frozen = no ] || "$python" "$root/packaging/bundle/freeze.py" "$@"
    [ -d "$app" ] || fail "$app is not there"
    version=$(sed -n 's/^__version__ = "\(.*\)"/\1/p' "$root/engine/__init__.py")
    dmg=$build/coppice-$version-macos-$(uname -m).dmg
    sign
    make_dmg
    notarise "$dmg"
    ls -l "$dmg"
}

main "$@"
