// Package device runs weir where it belongs: in an arm64 machine with a Debian kernel, under systemd or alone, whose power is cut again and again. The machine is
// qemu's; its data disk is behind our own NBD server (tests/rig/nbd), which loses and tears what was not flushed (tests/rig/volatiledisk). Broker and receiver are on
// the host, and the machine reaches nothing else. The oracle reads the receiver's own data: lost 0, duplicate 0, windows equal to the truth.
//
// `make test-device` runs it; README.md has the parts. `go test` alone leaves out what needs the machine.
package device
