package flash

import (
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Finding is something about the storage that the operator should know. None keeps the agent from starting.
type Finding struct {
	What string `json:"what"` // what is so, and to what
	Do   string `json:"do"`
}

func (f Finding) String() string { return f.What + ": " + f.Do }

// Examine looks at the file system that holds dir, and at its disk, without writing anything. Each check is of a thing that makes fsync worth less, or the
// journal slower or shorter lived.
func (s System) Examine(dir string, d *Device) (list []Finding) {
	if d.Mount == nil {
		return []Finding{{d.Why, "mount /proc, or nothing is known of the storage of state_dir"}}
	}
	m := d.Mount
	find := func(do, what string, args ...any) { list = append(list, Finding{fmt.Sprintf(what, args...), do}) }
	switch {
	case slices.Contains(inMemory, m.FS):
		find("put state_dir on storage", "state_dir %s is on %s, in memory: nothing survives a power cut", dir, m.FS)
	case slices.Contains(onNetwork, m.FS):
		find("put state_dir on storage of this device", "state_dir %s is on %s of %s: an outage of the network stops the journal, and locks and fsync are what the server makes of them", dir, m.FS, m.Source)
	case m.FS == "overlay":
		if up, err := s.MountOf(m.option("upperdir")); err == nil && slices.Contains(inMemory, up.FS) {
			find("mount storage on state_dir", "state_dir %s is on an overlay that is written to %s, in memory: nothing survives a power cut", dir, up.FS)
		} else {
			find("mount a volume on state_dir", "state_dir %s is on an overlay, of a container or a read-only root: it may go with the container", dir)
		}
	case m.FS == "vfat" || m.FS == "exfat" || m.FS == "msdos":
		find("use ext4, f2fs, xfs or btrfs", "state_dir %s is on %s, which has no journal: a power cut can take the file system", dir, m.FS)
	}
	if m.Has("nobarrier", "barrier=0") {
		find("mount it with barrier", "%s is mounted with %s: an fsync does not empty the disk's write cache", m.Point, given(m, "nobarrier", "barrier=0"))
	}
	if m.Has("data=writeback") {
		find("mount it with data=ordered", "%s is mounted with data=writeback: after a power cut files may hold old content of other files", m.Point)
	}
	if m.Has("ro") {
		find("mount it for writing", "%s is mounted for reading alone", m.Point)
	}
	if m.FS == "ext4" {
		list = append(list, s.fastCommit(m)...)
	}
	list = append(list, s.disks(d)...)
	return append(list, owner(dir)...)
}

func given(m *Mount, options ...string) string {
	for _, o := range options {
		if m.Has(o) {
			return o
		}
	}
	return ""
}

// Places in ext4's superblock (Documentation/filesystems/ext4/super.rst).
const (
	superAt          = 1024
	superMagicAt     = 0x38
	superCompatAt    = 0x5c
	superMagic       = 0xef53
	compatFastCommit = 0x400
)

// fastCommit asks the superblock, which only root may read; else whether the kernel counted fast commits.
func (s System) fastCommit(m *Mount) []Finding {
	on, sure := superblock(m.Source)
	if !sure {
		on = counted(line(s.proc("fs", "ext4", strings.TrimPrefix(m.Source, "/dev/"), "fc_info")))
	}
	if !on {
		return nil
	}
	return []Finding{{fmt.Sprintf("%s has ext4's fast_commit, after which files were found damaged that had been synced", m.Source), "tune2fs -O ^fast_commit, with the file system not mounted"}}
}

func superblock(device string) (fast, sure bool) {
	f, err := os.Open(device)
	if err != nil {
		return false, false
	}
	defer f.Close()
	b := make([]byte, 0x100)
	if _, err := f.ReadAt(b, superAt); err != nil || binary.LittleEndian.Uint16(b[superMagicAt:]) != superMagic {
		return false, false
	}
	return binary.LittleEndian.Uint32(b[superCompatAt:])&compatFastCommit != 0, true
}

// counted reads /proc/fs/ext4/DEVICE/fc_info: with the feature off all is 0.
func counted(text string) bool {
	for l := range strings.Lines(text) {
		f := strings.Fields(l)
		if len(f) == 2 && (f[1] == "commits" || f[1] == "ineligible") {
			if n, err := strconv.ParseUint(f[0], 10, 64); err == nil && n > 0 {
				return true
			}
		}
	}
	return false
}

// disks tells of disks that are none.
func (s System) disks(d *Device) (list []Finding) {
	for _, k := range d.Disks {
		switch k.Kind {
		case Loop:
			list = append(list, Finding{fmt.Sprintf("%s is a loop device over %s: what is counted is not what the disk below is given", k.Name, k.Over), "give flash.device the disk below"})
		case RAM:
			list = append(list, Finding{fmt.Sprintf("%s is kept in memory: nothing survives a power cut", k.Name), "put state_dir on storage"})
		}
	}
	return list
}

// owner tells of rights that let others change what is durable.
func owner(dir string) (list []Finding) {
	var st unix.Stat_t
	if unix.Stat(dir, &st) != nil {
		return nil // it is not there yet
	}
	if me := os.Geteuid(); int(st.Uid) != me && me != 0 {
		list = append(list, Finding{fmt.Sprintf("state_dir %s belongs to user %d, and weir is user %d", dir, st.Uid, me), fmt.Sprintf("chown -R %d %s", me, dir)})
	}
	if st.Mode&0o022 != 0 {
		list = append(list, Finding{fmt.Sprintf("state_dir %s can be written to by others (mode %04o)", dir, st.Mode&0o7777), "chmod go-w " + dir})
	}
	return list
}

// WritesBack tells whether a disk has a write cache that an fsync has to empty; known is false where the kernel does not say.
func (s System) WritesBack(d Disk) (cache, known bool) {
	switch line(s.sys("block", d.Name, "queue", "write_cache")) {
	case "write back":
		return true, true
	case "write through":
		return false, true
	}
	return false, false
}

// Proof tells what two readings of the counters, one before an fsync and one behind it, say of the disks. A disk that writes through gets no flush, and whether its data is then on
// the medium cannot be seen from here.
func (s System) Proof(d *Device, before, after Counters) (proof string, bad *Finding) {
	for _, k := range d.Disks {
		cache, known := s.WritesBack(k)
		switch {
		case !known, !before.CountsFlushes || !after.CountsFlushes:
			return fmt.Sprintf("whether an fsync empties the write cache of %s is not told by this kernel", k.Name), nil
		case !cache:
			return fmt.Sprintf("%s writes through (queue/write_cache): there is nothing for an fsync to flush, and what the medium does is not seen", k.Name), nil
		}
	}
	if len(d.Disks) == 0 {
		return "whether an fsync reaches a disk is not known: " + d.Why, nil
	}
	if after.Flushes > before.Flushes {
		return fmt.Sprintf("an fsync in state_dir flushed the write cache of %s", d.Name()), nil
	}
	return "", &Finding{fmt.Sprintf("an fsync in state_dir did not flush the write cache of %s: what is acknowledged can be lost in a power cut", d.Name()),
		"look for nobarrier, for a layer between that drops flushes (cache=unsafe of a virtual machine), or for write_cache set by hand"}
}
