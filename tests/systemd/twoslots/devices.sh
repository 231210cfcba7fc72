# What the machine's kernel shows besides: the command line and the name of this boot, its own; loop devices, which bundles are mounted by; the slots by name.
mount --bind "$dir/volatile/cmdline" "$root/proc/cmdline"
mount --bind "$dir/flash/boot_id" "$root/proc/sys/kernel/random/boot_id"
touch "$root/dev/loop-control"
mount --bind /dev/loop-control "$root/dev/loop-control"
for n in $(seq 0 63); do mknod -m 600 "$root/dev/loop$n" b 7 "$n"; done
mkdir -p "$root/dev/disk/by-partlabel"
ln -s /flash/slot.A "$root/dev/disk/by-partlabel/rootfs-a"
ln -s /flash/slot.B "$root/dev/disk/by-partlabel/rootfs-b"
unset dir slot
