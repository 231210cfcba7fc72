package flash

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Kind is what a disk is.
type Kind string

// The kinds. A disk of another kind is named after its driver's prefix, such as sd or vd.
const (
	EMMC Kind = "eMMC"
	SD   Kind = "SD card"
	NVMe Kind = "NVMe"
	Loop Kind = "loop device"
	RAM  Kind = "memory"
)

// Disk is a whole block device.
type Disk struct {
	Name string // below /sys/block
	Kind Kind
	Over string // of a loop device: the file
}

func (d Disk) String() string { return d.Name + " (" + string(d.Kind) + ")" }

// Device is what lies below a directory.
type Device struct {
	Mount *Mount
	Disks []Disk   // that hold it; several below LVM, RAID, and the like
	Via   []string // what stands between the directory and the disks, from top to bottom
	Why   string   // no disk: why
}

// Name is that of the disks together, "" when there is none.
func (d *Device) Name() string {
	names := make([]string, len(d.Disks))
	for i := range d.Disks {
		names[i] = d.Disks[i].Name
	}
	return strings.Join(names, "+")
}

// inMemory and onNetwork are file systems without a disk of this device.
var (
	inMemory  = []string{"tmpfs", "ramfs", "rootfs"}
	onNetwork = []string{"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "virtiofs", "ceph", "glusterfs", "afs", "fuse.sshfs", "fuse.glusterfs"}
)

// deepest bounds how many layers are followed.
const deepest = 8

// Locate finds the disk below a directory. name is one that the operator gave, "" for none. It never fails: what cannot be found out is told in Why.
func (s System) Locate(dir, name string) *Device {
	d := &Device{}
	m, err := s.MountOf(dir)
	if err != nil {
		d.Why = err.Error()
	} else {
		d.Mount = m
	}
	if name != "" {
		if _, err := os.Stat(s.sys("block", name)); err != nil {
			d.Why = fmt.Sprintf("there is no block device %s (flash.device): %v", name, err)
			return d
		}
		d.Disks, d.Why = []Disk{s.disk(name)}, ""
		return d
	}
	if m != nil {
		s.below(d, m, 0)
	}
	return d
}

// below follows a mount down to disks.
func (s System) below(d *Device, m *Mount, depth int) {
	if m.Root != "/" && m.FS != "btrfs" {
		d.Via = append(d.Via, "bind mount of "+m.Root)
	}
	switch {
	case slices.Contains(inMemory, m.FS):
		d.Why = m.FS + " is kept in memory"
		return
	case slices.Contains(onNetwork, m.FS):
		d.Why = m.FS + " is a network file system: the disk is another machine's"
		return
	case m.FS == "overlay":
		upper := m.option("upperdir")
		d.Via = append(d.Via, "overlay, written to "+upper)
		up, err := s.MountOf(upper)
		if upper == "" || err != nil || up.Point == m.Point || depth >= deepest {
			d.Why = "the upper directory of an overlay is not seen from here"
			return
		}
		if up.FS != "overlay" && (up.Point == "/" || m.Point == "/") && up.Device == m.Device {
			d.Why = "the upper directory of an overlay is not seen from here"
			return
		}
		s.below(d, up, depth+1)
		return
	}
	number := m.Device
	if strings.HasPrefix(number, "0:") { // a number of the file system's own: btrfs, zfs
		if number = s.numberOf(m.Source); number == "" {
			d.Why = fmt.Sprintf("%s on %s does not tell its disk", m.FS, m.Source)
			return
		}
	}
	node, err := filepath.EvalSymlinks(s.sys("dev", "block", number))
	if err != nil {
		d.Why = fmt.Sprintf("the kernel does not show device %s of %s: %v", number, m.Source, err)
		return
	}
	s.follow(d, node, depth)
}

// numberOf is the number of a device file, "" when it is none. Where /dev is hidden (systemd's PrivateDevices), sysfs knows it by name.
func (s System) numberOf(source string) string {
	if major, minor, ok := s.rdev(source); ok {
		return fmt.Sprintf("%d:%d", major, minor)
	}
	if name, ok := strings.CutPrefix(source, "/dev/"); ok {
		return line(s.sys("class", "block", name, "dev"))
	}
	return ""
}

// follow goes from a node of sysfs to whole disks.
func (s System) follow(d *Device, node string, depth int) {
	if _, err := os.Stat(filepath.Join(node, "partition")); err == nil {
		node = filepath.Dir(node)
	}
	name := filepath.Base(node)
	slaves, _ := os.ReadDir(filepath.Join(node, "slaves")) // none: it is no mapped device
	if len(slaves) > 0 && depth < deepest {
		d.Via = append(d.Via, mapped(node, name))
		for _, e := range slaves {
			if under, err := filepath.EvalSymlinks(s.sys("class", "block", e.Name())); err == nil {
				s.follow(d, under, depth+1)
			}
		}
		return
	}
	if disk := s.disk(name); !slices.Contains(d.Disks, disk) {
		d.Disks = append(d.Disks, disk)
	}
}

// mapped names a device that lies over others.
func mapped(node, name string) string {
	if label := line(filepath.Join(node, "dm", "name")); label != "" {
		kind, _, _ := strings.Cut(line(filepath.Join(node, "dm", "uuid")), "-")
		return strings.TrimSpace(fmt.Sprintf("%s %s (%s)", kind, label, name))
	}
	return name
}

func (s System) disk(name string) Disk {
	d := Disk{Name: name}
	switch {
	case strings.HasPrefix(name, "mmcblk"):
		d.Kind = EMMC
		if line(s.sys("block", name, "device", "type")) == "SD" {
			d.Kind = SD
		}
	case strings.HasPrefix(name, "nvme"):
		d.Kind = NVMe
	case strings.HasPrefix(name, "loop"):
		d.Kind, d.Over = Loop, line(s.sys("block", name, "loop", "backing_file"))
	case strings.HasPrefix(name, "ram"), strings.HasPrefix(name, "zram"):
		d.Kind = RAM
	default:
		d.Kind = Kind(name[:min(len(name), 2)])
	}
	return d
}
