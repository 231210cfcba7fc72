package flash

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Counters are what the kernel says of the disks, since boot.
type Counters struct {
	Written uint64 // bytes
	Flushes uint64 // of the write cache
	// CountsFlushes: the kernel does (5.5 and later).
	CountsFlushes bool
}

// sectorBytes is the unit of /sys/block/NAME/stat, whatever the disk's own sector (Documentation/block/stat.rst).
const sectorBytes = 512

// Fields of /sys/block/NAME/stat, from 0.
const (
	statSectorsWritten = 6
	statFlushes        = 15
)

// Read adds up the counters of the disks.
func (s System) Read(disks []Disk) (c Counters, err error) {
	c.CountsFlushes = len(disks) > 0
	for _, d := range disks {
		b, err := os.ReadFile(s.sys("block", d.Name, "stat"))
		if err != nil {
			return Counters{}, fmt.Errorf("read what was written to %s: %w", d.Name, err)
		}
		one, err := parseStat(string(b))
		if err != nil {
			return Counters{}, fmt.Errorf("read what was written to %s: %w", d.Name, err)
		}
		c.Written += one.Written
		c.Flushes += one.Flushes
		c.CountsFlushes = c.CountsFlushes && one.CountsFlushes
	}
	return c, nil
}

func parseStat(text string) (c Counters, err error) {
	f := strings.Fields(text)
	if len(f) <= statSectorsWritten {
		return c, fmt.Errorf("%d fields, want at least %d", len(f), statSectorsWritten+1)
	}
	sectors, err := strconv.ParseUint(f[statSectorsWritten], 10, 64)
	if err != nil {
		return c, err
	}
	c.Written = sectors * sectorBytes
	if len(f) > statFlushes {
		if c.Flushes, err = strconv.ParseUint(f[statFlushes], 10, 64); err != nil {
			return c, err
		}
		c.CountsFlushes = true
	}
	return c, nil
}

// wrapped is one above the largest count of bytes where the kernel counts sectors in 32 bits.
const wrapped = uint64(sectorBytes) << 32

// Since is what was written between two readings of Written, pure. A counter begins at 0 at every boot, and when a device is made anew; one of 32 bits
// wraps: that shows by how near to its end it was.
func Since(last, now uint64, sameBoot bool) uint64 {
	switch {
	case !sameBoot:
		return now
	case now >= last:
		return now - last
	case last < wrapped && last > wrapped/4*3 && now < wrapped/4:
		return wrapped - last + now
	}
	return now
}

// Own is how many bytes this process had written to storage: pages of its that were made dirty, without the file system's own. ok is false where the kernel
// does not count.
func (s System) Own() (bytes uint64, ok bool) {
	b, err := os.ReadFile(s.proc("self", "io"))
	if err != nil {
		return 0, false
	}
	return parseOwn(string(b))
}

func parseOwn(text string) (bytes uint64, ok bool) {
	for l := range strings.Lines(text) {
		if v, found := strings.CutPrefix(l, "write_bytes:"); found {
			n, err := strconv.ParseUint(strings.TrimSpace(v), 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}

// Boot names the time since the machine was started, "" where that is hidden (systemd's ProcSubset=pid): then a counter that has not gone back counts as going on.
func (s System) Boot() string { return line(s.proc("sys", "kernel", "random", "boot_id")) }
