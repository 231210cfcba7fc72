#!/bin/sh
# Becomes PID 1 of the machine whose root is $1: in namespaces of its own, that is all that it sees. systemd-nspawn does about the same. $2, if any, is read when the file systems of the root are there.
set -e
root=$1
mount --make-rprivate /
mount --rbind "$root" "$root"
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"
mountpoint -q "$root/sys/fs/cgroup" || mount -t tmpfs tmpfs "$root/sys/fs/cgroup"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for n in null zero full random urandom tty; do
	touch "$root/dev/$n"
	mount --bind "/dev/$n" "$root/dev/$n"
done
mkdir "$root/dev/pts" "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
[ -z "$2" ] || . "$2"
ip link set lo up
cd "$root"
mkdir -p .outside
pivot_root . .outside
umount -l /.outside
# systemd mounts credentials in a namespace of its own, and expects to see them outside of it.
mount --make-rshared /
exec env -i container=weir-test PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --system --show-status=false --log-target=journal </dev/null
