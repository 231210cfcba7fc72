#!/usr/bin/env bash
# Installs what the tests need besides Go: mosquitto, PostgreSQL, mkfs.ext4, the emulators of other processors, mmdebstrap and RAUC, from Debian. Does nothing when it is there.
set -euo pipefail
missing=()
[ -x /usr/sbin/mosquitto ] || command -v mosquitto >/dev/null || missing+=(mosquitto)
command -v mkfs.ext4 >/dev/null || [ -x /sbin/mkfs.ext4 ] || missing+=(e2fsprogs)
command -v postgres >/dev/null || compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null || missing+=(postgresql)
# The emulators are wanted, not needed: without them the tests of other processors say that they are skipped.
wanted=()
for e in qemu-aarch64-static qemu-arm-static; do
	command -v $e >/dev/null || { wanted+=(qemu-user-static); break; }
done
# So is mmdebstrap, which makes the Debian root in which tests/systemd boots.
command -v mmdebstrap >/dev/null || wanted+=(mmdebstrap)
# And RAUC with what makes its bundles and its bus (agent/upgrade/rauc).
command -v rauc >/dev/null || wanted+=(rauc)
command -v mksquashfs >/dev/null || wanted+=(squashfs-tools)
command -v dbus-daemon >/dev/null || wanted+=(dbus-daemon)
[ ${#missing[@]} -eq 0 ] && [ ${#wanted[@]} -eq 0 ] && exit 0
if [ "$(id -u)" -ne 0 ]; then
	echo "missing: ${missing[*]} ${wanted[*]}. Install with: sudo apt-get install -y --no-install-recommends ${missing[*]} ${wanted[*]}" >&2
	[ ${#missing[@]} -eq 0 ] && exit 0
	exit 1
fi
install() { DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null; }
if [ ${#missing[@]} -gt 0 ]; then
	apt-get update -qq
	install "${missing[@]}"
fi
if [ ${#wanted[@]} -gt 0 ] && ! { apt-get update -qq && install "${wanted[@]}"; }; then
	echo "${wanted[*]} cannot be installed: what runs on other processors, under systemd, or with RAUC is skipped" >&2
fi
# The packages start a broker and a database of their own where systemd runs; the tests bring their own on free ports.
