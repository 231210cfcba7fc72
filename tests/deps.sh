#!/usr/bin/env bash
# Installs what the tests need besides Go: mosquitto, PostgreSQL, mkfs.ext4 and the emulators of other processors, from Debian. Does nothing when it is there.
set -euo pipefail
missing=()
[ -x /usr/sbin/mosquitto ] || command -v mosquitto >/dev/null || missing+=(mosquitto)
command -v mkfs.ext4 >/dev/null || [ -x /sbin/mkfs.ext4 ] || missing+=(e2fsprogs)
command -v postgres >/dev/null || compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null || missing+=(postgresql)
for e in qemu-aarch64-static qemu-arm-static; do
	command -v $e >/dev/null || { missing+=(qemu-user-static); break; }
done
[ ${#missing[@]} -eq 0 ] && exit 0
if [ "$(id -u)" -ne 0 ]; then
	echo "missing: ${missing[*]}. Install with: sudo apt-get install -y --no-install-recommends ${missing[*]}" >&2
	exit 1
fi
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
# The packages start a broker and a database of their own where systemd runs; the tests bring their own on free ports.
