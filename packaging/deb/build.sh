#!/bin/sh
# Makes DIR/weir_VERSION_ARCH.deb of the binaries WEIR and BOOT (weir-boot); RUNNABLE is the same program for this machine, which is asked for completions and help.
# The same inputs give the same bytes: times are those of SOURCE_DATE_EPOCH.
set -eu
arch=$1 weir=$2 boot=$3 runnable=$4 dir=$5
umask 022
export LC_ALL=C TZ=UTC
built=$(mktemp -d)
trap 'rm -rf "$built"' EXIT
"${NFPM:=bin/nfpm}" --version >/dev/null
"$runnable" completion bash >"$built/weir.bash"
"$runnable" completion zsh >"$built/_weir"
go run ./packaging/manpage "$runnable" >"$built/weir.1"
go run ./packaging/licences "$weir" >"$built/licences"
gzip -9n "$built/weir.1" "$built/licences"
gzip -9nc CHANGELOG.md >"$built/changelog.gz"
export ARCH="$arch" VERSION="$DEB_VERSION" WEIR="$weir" BOOT="$boot" BUILT="$built"
mkdir -p "$dir"
"$NFPM" package --config packaging/deb/nfpm.yaml --packager deb --target "$dir/weir_${DEB_VERSION}_$arch.deb" >/dev/null
echo "  $dir/weir_${DEB_VERSION}_$arch.deb"
