// Package systemd runs weir as gateways do: the Debian package is installed with dpkg into a Debian root in which systemd is PID 1, and units, restarts, the watchdog, credentials,
// upgrades and the journal are looked at from there.
//
// A machine with two slots holds two whole systems that RAUC writes and a boot loader of shell chooses from (twoslots). It ends when it reboots, as real ones do, and the test powers it on again.
//
// The machine is a set of namespaces (mount, pid, net, uts, ipc, cgroup), not an emulator: it boots in seconds and shares the kernel with the test, whose cgroup controllers it mostly
// has not. MemoryMax, device nodes and power cuts are therefore not tested here. It has a loopback interface of its own and no other.
//
// The root is made once by mmdebstrap from Debian's archive and kept in the user's cache directory. Where it cannot be made, or the test is not root, or may make no
// namespaces, every test is skipped with a line NOT TESTED HERE that tells why.
package systemd
