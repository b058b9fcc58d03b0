#!/usr/bin/env bash
# Builds the Linux packages: build/coppice_VERSION_ARCH.deb and build/coppice-VERSION-linux-MACHINE.run.
# Needs Python 3.11, dpkg-dev and binutils. See ../README.md.
set -euo pipefail
unset CDPATH PYTHONHOME PYTHONPATH

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)
root=$(cd -- "$here/../.." && pwd -P)
build=$root/build
python=${PYTHON:-python3.11}
level=${COPPICE_XZ:-6}
maintainer=${COPPICE_MAINTAINER:-The Coppice developers <packages@coppice.invalid>}

fail() {
    printf 'coppice: error: %s\n' "$*" >&2
    exit 1
}

usage() {
    cat <<'END'
Usage: bash packaging/linux/build.sh [--no-freeze] [FREEZE OPTIONS]

  --no-freeze   package the folder build/bundle/coppice as it is; otherwise it is frozen first (freeze.py takes the options)

Environment: PYTHON (the Python 3.11 to freeze), COPPICE_MAINTAINER (in the .deb), COPPICE_XZ (0 to 9: how hard to compress;
6 if not set, 0 for trying things out).
END
}

# Everything but the program's own folder, below $1: what a desktop looks for.
install_desktop_files() {
    local share=$1 size
    mkdir -p "$share"/{applications,metainfo,mime/packages,icons/hicolor/scalable/apps}
    cp "$here/coppice.desktop" "$share/applications/"
    cp "$here/org.coppice.coppice.metainfo.xml" "$share/metainfo/"
    cp "$here/coppice-mime.xml" "$share/mime/packages/coppice.xml"
    cp "$root/resources/icons/coppice.svg" "$share/icons/hicolor/scalable/apps/"
    for size in 16 24 32 48 64 128 256 512; do
        mkdir -p "$share/icons/hicolor/${size}x$size"/{apps,mimetypes}
        cp "$root/packaging/icons/coppice-$size.png" "$share/icons/hicolor/${size}x$size/apps/coppice.png"
        cp "$root/packaging/icons/coppice-recording-$size.png" \
            "$share/icons/hicolor/${size}x$size/mimetypes/application-x-coppice-recording.png"
    done
}

# The packages that hold the libraries the bundle does not, with the versions it was linked against. $1 is the package's
# tree. Only the window's: the carried Python brings its own.
dependencies() {
    local work=$build/shlibs inside=$1/opt/coppice/_internal found within name
    rm -rf "$work" && mkdir -p "$work/debian"
    printf 'Source: coppice\n\nPackage: coppice\nArchitecture: any\n' >"$work/debian/control"
    found=$(
        cd "$work"
        find "$1/opt" -type f \( -name '*.so*' -o -name coppice \) ! -path '*/runtime/*' -print0 |
            xargs -0 dpkg-shlibdeps -O --ignore-missing-info --warnings=0 -xcoppice \
                -l"$inside" -l"$inside/PySide6" -l"$inside/PySide6/Qt/lib" -l"$inside/numpy.libs" -l"$inside/shiboken6"
    ) || fail "the libraries above must be on the machine that builds: see ../README.md"
    rm -rf "$work"
    within=$(for name in "$inside"/lib*.so.*; do dpkg-query --search "*/${name##*/}" 2>/dev/null; done | cut -d: -f1 | sort -u)
    sed -n 's/^shlibs:Depends=//p' <<<"$found" | sed 's/, /\n/g' |
        awk 'NR == FNR { within[$1]; next } !($1 in within)' <(echo "$within") - | paste -sd, | sed 's/,/, /g'
}

make_deb() {
    local tree=$build/deb size depends
    rm -rf "$tree" && mkdir -p "$tree"/{DEBIAN,opt,usr/bin,usr/share/doc/coppice}
    cp -a "$bundle" "$tree/opt/coppice"
    ln -s /opt/coppice/coppice "$tree/usr/bin/coppice"
    install_desktop_files "$tree/usr/share"
    cp "$here/copyright" "$tree/usr/share/doc/coppice/copyright"
    chmod -R u=rwX,go=rX "$tree"
    size=$(du -sk "$tree/opt" "$tree/usr" | awk '{ sum += $1 } END { print sum }')
    depends=$(dependencies "$tree")
    cat >"$tree/DEBIAN/control" <<END
Package: coppice
Version: $version
Section: science
Priority: optional
Architecture: $(dpkg --print-architecture)
Installed-Size: $size
Maintainer: $maintainer
Depends: $depends, fontconfig, fonts-dejavu-core | fonts-noto-core | fonts-freefont-ttf
Recommends: xdg-desktop-portal
Description: chat with a language model that is bigger than your GPU
 A small draft model grows a tree of likely continuations; one pass of the large
 model, streamed from memory or disk, checks the whole tree at once. The engine
 is installed by the application at its first start.
END
    dpkg-deb --root-owner-group -Zxz "-z$level" --build "$tree" "$deb" >/dev/null
    rm -rf "$tree"
}

make_archive() {
    local tree=$build/archive
    rm -rf "$tree" && mkdir -p "$tree"
    cp -a "$bundle" "$tree/coppice"
    install_desktop_files "$tree/share"
    cp "$here/uninstall.sh" "$tree/coppice/uninstall.sh"
    sed "s/@VERSION@/$version/" "$here/extract.sh" >"$archive"
    tar -C "$tree" --owner=0 --group=0 -cf - . | xz -T0 "-$level" >>"$archive"
    chmod 755 "$archive"
    rm -rf "$tree"
}

main() {
    case ${1:-} in -h | --help) usage && exit ;; esac
    local bundle version deb archive frozen=yes
    if [ "${1:-}" = --no-freeze ]; then frozen=no && shift; fi
    command -v dpkg-shlibdeps >/dev/null || fail "dpkg-dev is missing: apt-get install dpkg-dev"
    [ $frozen = no ] || "$python" "$root/packaging/bundle/freeze.py" "$@"
    bundle=$build/bundle/coppice
    [ -x "$bundle/coppice" ] || fail "$bundle is not there"
    version=$(sed -n 's/^__version__ = "\(.*\)"/\1/p' "$root/engine/__init__.py")
    deb=$build/coppice_${version}_$(dpkg --print-architecture).deb
    archive=$build/coppice-$version-linux-$(uname -m).run
    make_deb
    make_archive
    ls -l "$deb" "$archive"
}

main "$@"
