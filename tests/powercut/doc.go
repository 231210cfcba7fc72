// Package powercut cuts the power of a disk beneath a real ext4 on which the real agent works, and asks whether everything is there that was promised before.
//
// The disk is tests/rig/volatiledisk, shown as a file by FUSE, which a loop device makes a block device of. mosquitto and the receiver are outside of it.
// README.md tells what is checked. It needs root, /dev/fuse and loop devices; where they are lacking the tests say so and are skipped.
package powercut
