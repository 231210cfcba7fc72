#!/usr/bin/env bash
# Installs what the emulated machine needs, from Debian: qemu for arm64 (with its NBD client qemu-io), mmdebstrap. Does nothing when it is there. What cannot be installed
# is told, and the tests say by name what they leave out: this is no failure.
set -euo pipefail
wanted=()
command -v qemu-system-aarch64 >/dev/null || wanted+=(qemu-system-arm)
command -v qemu-io >/dev/null || wanted+=(qemu-utils)
command -v mmdebstrap >/dev/null || wanted+=(mmdebstrap arch-test)
[ -e /usr/share/keyrings/debian-archive-keyring.gpg ] || wanted+=(debian-archive-keyring)
[ ${#wanted[@]} -eq 0 ] && exit 0
if ! command -v apt-get >/dev/null; then
	echo "NOT TESTED HERE: this is no Debian; the machine needs ${wanted[*]}" >&2
	exit 0
fi
if [ "$(id -u)" -ne 0 ]; then
	echo "NOT TESTED HERE without: sudo apt-get install -y --no-install-recommends ${wanted[*]}" >&2
	exit 0
fi
echo "installs ${wanted[*]} (some 30 MB)"
{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${wanted[@]}" >/dev/null; } ||
	echo "NOT TESTED HERE: ${wanted[*]} cannot be installed" >&2
