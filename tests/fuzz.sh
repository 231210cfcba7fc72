#!/usr/bin/env bash
# Runs every Fuzz function of the module for the given time each.
set -euo pipefail
time=${1:-30s}
for package in $(go list ./...); do
	for name in $(go test -list '^Fuzz' "$package" | grep '^Fuzz' || true); do
		echo "== $package $name"
		go test -run '^$' -fuzz "^$name\$" -fuzztime "$time" "$package"
	done
done
