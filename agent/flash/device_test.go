package flash

import (
	"fmt"
	"strings"
	"testing"
)

func TestLocate(t *testing.T) {
	for _, c := range []struct{ tree, dir, name, want string }{
		{"emmc", "/data/weir", "", "mmcblk2 (eMMC)"},
		{"emmc", "/data/weir", "mmcblk9", "none: there is no block device mmcblk9"},
		{"sd", "/var/lib/weir", "", "mmcblk0 (SD card)"},
		{"sd", "/run/weir", "", "none: tmpfs is kept in memory"},
		{"sd", "/run/weir", "mmcblk0", "mmcblk0 (SD card)"}, // flash.device
		{"nvme-dm", "/var/lib/weir", "", "bind mount of /weir, LVM vg-data (dm-1), CRYPT crypt (dm-0): nvme0n1 (NVMe)"},
		{"loop", "/mnt/a b/state", "", "loop0 (loop device)"},
		{"loop", "/c/over/state", "", "overlay, written to /var/up: vda (vd)"},
		{"loop", "/c/mem/state", "", "overlay, written to /run/up: none: tmpfs is kept in memory"},
		{"loop", "/b/state", "", "vda (vd)"},
		{"loop", "/n/state", "", "none: nfs4 is a network file system"},
	} {
		d := tree(t, c.tree).Locate(c.dir, c.name)
		var parts []string
		for _, k := range d.Disks {
			parts = append(parts, k.String())
		}
		if len(parts) == 0 {
			parts = []string{"none: " + d.Why}
		}
		got := strings.Join(parts, "+")
		if len(d.Via) > 0 {
			got = strings.Join(d.Via, ", ") + ": " + got
		}
		if !strings.HasPrefix(got, c.want) || strings.HasPrefix(c.want, "none") != (len(d.Disks) == 0) && !strings.Contains(c.want, "none") {
			t.Errorf("%s, %s %s: %s, want %s", c.tree, c.dir, c.name, got, c.want)
		}
	}
}

func TestCounters(t *testing.T) {
	for name, want := range map[string]Counters{
		"emmc":    {Written: 5203874 * 512, Flushes: 21094, CountsFlushes: true},
		"sd":      {Written: 987362 * 512}, // a kernel before 5.5
		"nvme-dm": {Written: 4000 * 512, Flushes: 77, CountsFlushes: true},
	} {
		s := tree(t, name)
		dir := map[string]string{"emmc": "/data"}[name]
		if dir == "" {
			dir = "/var/lib/weir"
		}
		got, err := s.Read(s.Locate(dir, "").Disks)
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, want)
		}
	}
	if own, ok := tree(t, "emmc").Own(); own != 81920 || !ok {
		t.Errorf("own bytes: %d, %v", own, ok)
	}
	if _, ok := tree(t, "sd").Own(); ok {
		t.Error("a kernel that does not count is not told")
	}
}

func TestSince(t *testing.T) {
	for _, c := range []struct {
		last, now uint64
		same      bool
		want      uint64
	}{
		{100, 130, true, 30},
		{100, 130, false, 130},            // booted anew
		{5000, 700, true, 700},            // made anew
		{wrapped - 512, 1024, true, 1536}, // 32 bits
		{wrapped - 512, wrapped / 2, true, wrapped / 2},
		{wrapped + 512, 1024, true, 1024}, // it counts in 64 bits
	} {
		if got := Since(c.last, c.now, c.same); got != c.want {
			t.Errorf("from %d to %d, same boot %v: %d, want %d", c.last, c.now, c.same, got, c.want)
		}
	}
}

func TestWear(t *testing.T) {
	for _, c := range []struct{ tree, dir, want string }{
		{"emmc", "/data", "20 to 30 % of its life used"},
		{"sd", "/var", "not known: SD cards do not tell it"},
		{"nvme-dm", "/var/lib/weir", "not known: an NVMe disk tells it only to root (nvme smart-log)"},
		{"loop", "/mnt/a b", "not known: a disk of kind loop device does not tell it"},
	} {
		s := tree(t, c.tree)
		if got := s.Wear(s.Locate(c.dir, "").Disks).String(); got != c.want {
			t.Errorf("%s: %s, want %s", c.tree, got, c.want)
		}
	}
	for text, want := range map[string]string{
		"0x01 0x01": "0 to 10 % of its life used", "0x0a 0x02": "90 to 100 % of its life used", "0x0b 0x01": "its estimated life is over",
		"0x00 0x00": "not known: the card has not defined it", "0x0c 0x01": `not known: life_time is "0x0c 0x01"`, "x": `not known: life_time is "x"`,
	} {
		if got := parseLife(text).String(); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	if w := tree(t, "emmc"); w.Wear([]Disk{{Name: "mmcblk2", Kind: EMMC}}).Spare != SpareNormal {
		t.Error("pre_eol_info is not read")
	}
}

func TestExamine(t *testing.T) {
	for _, c := range []struct{ tree, dir, want string }{
		{"emmc", "/data/weir", ""},
		{"sd", "/nowhere", "mounted with nobarrier|mounted with data=writeback|has ext4's fast_commit"},
		{"sd", "/run/nowhere", "tmpfs, in memory"},
		{"loop", "/n/nowhere", "a network file system|nfs4 of server:/x"},
		{"loop", "/c/mem/nowhere", "an overlay that is written to tmpfs"},
		{"loop", "/c/over/nowhere", "on an overlay, of a container"},
		{"loop", "/mnt/a b/nowhere", "loop device over /srv/disk.img"},
	} {
		s := tree(t, c.tree)
		got := fmt.Sprint(s.Examine(c.dir, s.Locate(c.dir, "")))
		if c.want == "" {
			if got != "[]" {
				t.Errorf("%s %s: %s", c.tree, c.dir, got)
			}
			continue
		}
		one := false
		for w := range strings.SplitSeq(c.want, "|") {
			one = one || strings.Contains(got, w)
			if c.tree == "sd" && !strings.Contains(got, w) {
				t.Errorf("%s %s: %s; want %s", c.tree, c.dir, got, w)
			}
		}
		if !one {
			t.Errorf("%s %s: %s; want %s", c.tree, c.dir, got, c.want)
		}
	}
}

// TestProof: an fsync that flushes nothing on a disk with a write cache is found, and what cannot be proven is not said to be.
func TestProof(t *testing.T) {
	at := func(n uint64) Counters { return Counters{Flushes: n, CountsFlushes: true} }
	for _, c := range []struct {
		tree, dir     string
		before, after Counters
		proof         string
		bad           bool
	}{
		{"emmc", "/data", at(7), at(8), "flushed the write cache of mmcblk2", false},
		{"emmc", "/data", at(7), at(7), "", true},
		{"emmc", "/data", Counters{}, Counters{}, "not told by this kernel", false},
		{"sd", "/var", at(7), at(7), "writes through", false},
		{"sd", "/run", at(7), at(7), "is not known: tmpfs", false},
	} {
		s := tree(t, c.tree)
		proof, bad := s.Proof(s.Locate(c.dir, ""), c.before, c.after)
		if !strings.Contains(proof, c.proof) || (bad != nil) != c.bad {
			t.Errorf("%s %s: %q, %v", c.tree, c.dir, proof, bad)
		}
	}
}

func FuzzMountInfo(f *testing.F) {
	f.Add(`31 24 0:44 / /c/over rw - overlay overlay rw,upperdir=/a\040b`)
	f.Add(`1 2 3 4 5 6 - 7`)
	f.Add(`\\\ - - - - - - - -`)
	f.Fuzz(func(_ *testing.T, text string) {
		if m := parseMount(text); m != nil {
			_ = m.option("upperdir")
		}
	})
}

func FuzzCounters(f *testing.F) {
	f.Add("1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17", "write_bytes: 7\n", "0x01 0x02", "18 commits")
	f.Fuzz(func(t *testing.T, stat, io, life, fc string) {
		_, _ = parseStat(stat)
		_, _ = parseOwn(io)
		_ = counted(fc)
		if w := parseLife(life); w.Known && (w.Most > 1 || w.Least < 0 || w.Least > w.Most) {
			t.Errorf("%q: %+v", life, w)
		}
	})
}
