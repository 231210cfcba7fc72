#!/bin/sh
# Powers a machine with two systems on; $1 is its directory: base (Debian, the same for both), flash (slot.A, slot.B, data.img, the boot loader and what it knows), and empty ones to mount at. The boot loader chooses and counts, the
# slot's image lies over Debian, changes of the system are in memory, data is shared, and the kernel is told which slot it is. A slot that holds no system ends this: the machine starts anew.
set -e
dir=$1
slot=$(sh "$dir/flash/loader" boot)
echo "$slot" >>"$dir/boots"
mount --make-rprivate /
mount -t squashfs -o loop,ro "$dir/flash/slot.$slot" "$dir/image"
mount -t tmpfs -o mode=755 volatile "$dir/volatile"
mkdir "$dir/volatile/changes" "$dir/volatile/work"
mount -t overlay -o "lowerdir=$dir/image:$dir/base,upperdir=$dir/volatile/changes,workdir=$dir/volatile/work" system "$dir/whole"
mount --bind "$dir/flash" "$dir/whole/flash"
mount -o loop,noatime "$dir/flash/data.img" "$dir/data"
while read -r data at; do
	mount --bind "$dir/data/$data" "$dir/whole$at"
done <"$dir/data/table"
echo "root=PARTLABEL=rootfs rauc.slot=$slot" >"$dir/volatile/cmdline"
cat /proc/sys/kernel/random/uuid >"$dir/flash/boot_id"
export dir slot
exec sh "$PWD/init.sh" "$dir/whole" "$PWD/twoslots/devices.sh"
