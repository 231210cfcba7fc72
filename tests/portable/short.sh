#!/usr/bin/env bash
# Tests of formats, state and numbers on other processors. What cannot run here is named, and skipped: "NOT TESTED".
# Usage: short.sh "PACKAGES for all" (GO says which go)
set -euo pipefail
go=${GO:-go}
read -ra formats <<<"$1"

emulated() { # GOARCH GOARM emulator packages
	local arch=$1 arm=$2 emulator=$3
	shift 3
	if ! command -v "$emulator" >/dev/null; then
		echo "NOT TESTED on $arch: $emulator is missing (package qemu-user-static)"
		return
	fi
	echo "on $arch:"
	GOARCH=$arch GOARM=$arm "$go" test -short -timeout 20m -exec "$emulator" "$@"
}

emulated arm64 "" qemu-aarch64-static "${formats[@]}" ./pipeline/codec ./pipeline/window
emulated arm 7 qemu-arm-static "${formats[@]}"

probe=$(mktemp -d)
trap 'rm -rf "$probe"' EXIT
printf 'package main\nfunc main() {}\n' >"$probe/main.go"
GOARCH=386 "$go" build -o "$probe/probe" "$probe/main.go"
if ! "$probe/probe"; then
	echo "NOT TESTED on 386: this machine runs no 32-bit programs"
	exit 0
fi
echo "on 386:"
GOARCH=386 "$go" test -short -timeout 20m "${formats[@]}" ./pipeline/codec ./pipeline/window ./pipeline/exec ./pipeline/ops ./pipeline/join ./store/log
