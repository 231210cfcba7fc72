package flash

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/weirstream/weir/store/disk"
)

const emmcStat = "sys/devices/platform/soc@0/30b60000.mmc/mmc_host/mmc2/mmc2:0001/block/mmcblk2/stat"

// bench is a meter on the fixture of an eMMC whose counters the test sets.
type bench struct {
	t    *testing.T
	s    System
	file string
	m    *Meter
	now  time.Duration
}

func newBench(t *testing.T) *bench {
	b := &bench{t: t, s: tree(t, "emmc"), file: filepath.Join(t.TempDir(), "flash.json")}
	b.wrote(1000, 0)
	b.open()
	return b
}

// wrote sets the counters: bytes of the disk since boot, of the process.
func (b *bench) wrote(device, own uint64) {
	b.s.rewrite(b.t, fmt.Sprintf("0 0 0 0 1 0 %d 0 0 0 0 0 0 0 0 5 0\n", device), emmcStat)
	b.s.rewrite(b.t, fmt.Sprintf("rchar: 1\nwrite_bytes: %d\n", own), "proc/self/io")
}

func (b *bench) open() {
	b.t.Helper()
	m, err := Open(Options{System: b.s, FS: disk.OS, File: b.file, Dir: "/data/weir"})
	if err != nil {
		b.t.Fatal(err)
	}
	b.m, b.now = m, 0
}

func (b *bench) look(after time.Duration) Usage {
	b.t.Helper()
	b.now += after
	if err := b.m.Look(b.now); err != nil {
		b.t.Fatal(err)
	}
	return b.m.Usage()
}

func (b *bench) keep() {
	b.t.Helper()
	if err := b.m.Keep(); err != nil {
		b.t.Fatal(err)
	}
}

// TestDayOverRestarts: what is written in a day is one sum, whoever restarts.
func TestDayOverRestarts(t *testing.T) {
	b := newBench(t)
	b.wrote(1000+100, 100*300)
	u := b.look(2 * time.Hour)
	if u.Day.Device != 100*512 || u.Day.Own != 30000 || u.Day.Ran != 2*time.Hour {
		t.Fatalf("%+v", u.Day)
	}
	b.keep()
	b.wrote(1000+150, 0) // killed; 50 more reached the disk, before and behind the end
	b.open()
	b.wrote(1000+160, 512)
	if u = b.look(time.Hour); u.Day.Device != 160*512 || u.Day.Own != 30000+512 || u.Day.Ran != 3*time.Hour {
		t.Errorf("after a restart: %+v", u.Day)
	}
	b.keep()
	b.s.rewrite(t, "another-boot\n", "proc/sys/kernel/random/boot_id")
	b.wrote(7, 0)
	b.open()
	if u = b.look(0); u.Day.Device != 167*512 {
		t.Errorf("after a boot: %+v, want %d", u.Day, 167*512)
	}
	if u.PerDay != 167*512*8 {
		t.Errorf("%f a day", u.PerDay)
	}
	b.wrote(17, 0)
	b.look(21 * time.Hour)
	if u = b.look(time.Minute); u.Day.Device != 0 || u.Day.Ran != time.Minute || u.PerDay != 177*512 || u.Total.Device != 177*512 {
		t.Errorf("the next day: %+v", u)
	}
	// Planted fault: a record that is not kept loses the day.
	b.open()
	if u = b.look(0); u.Day.Ran != 3*time.Hour {
		t.Errorf("a meter that was not kept knows more than the record: %+v", u.Day)
	}
}

// TestIdleKeepsNothing: hours without a write of weir's own are no reason to write; its own record is none either.
func TestIdleKeepsNothing(t *testing.T) {
	b := newBench(t)
	b.wrote(1000, 4096)
	b.look(59 * time.Minute)
	if b.m.Due() {
		t.Error("due before the hour is over")
	}
	b.look(time.Minute)
	if !b.m.Due() {
		t.Error("not due after an hour with writes")
	}
	b.wrote(1100, 3*4096) // what Keep itself wrote
	b.keep()
	b.wrote(9000, 3*4096) // others write
	b.look(5 * time.Hour)
	if b.m.Due() {
		t.Error("due though weir wrote nothing")
	}
	b.wrote(9000, 4*4096)
	b.look(time.Minute)
	if !b.m.Due() {
		t.Error("not due behind a write")
	}
}

// TestHiddenBoot: where the boot's name is hidden, a restart does not count the bytes since boot again.
func TestHiddenBoot(t *testing.T) {
	b := newBench(t)
	b.s.rewrite(t, "", "proc/sys/kernel/random/boot_id")
	b.open()
	b.wrote(1100, 0)
	b.look(time.Hour)
	b.keep()
	b.wrote(1105, 0)
	b.open()
	if u := b.m.Usage(); u.Total.Device != 105*512 {
		t.Errorf("%d bytes, want %d", u.Total.Device, 105*512)
	}
	b.keep()
	b.wrote(9, 0)
	b.open()
	if u := b.m.Usage(); u.Total.Device != 114*512 {
		t.Errorf("%d bytes after a boot, want %d", u.Total.Device, 114*512)
	}
}

func TestOtherDiskBeginsAnew(t *testing.T) {
	b := newBench(t)
	b.wrote(2000, 0)
	b.look(time.Hour)
	b.m.record.Device = "mmcblk0"
	b.keep()
	b.open()
	if u := b.m.Usage(); u.Total.Device != 0 {
		t.Errorf("%+v", u)
	}
}

// TestUnreadableDisk: a counter that is gone is told and ends nothing.
func TestUnreadableDisk(t *testing.T) {
	b := newBench(t)
	b.s.rewrite(t, "nothing\n", emmcStat)
	if err := b.m.Look(time.Hour); err == nil || b.m.Usage().Err == nil {
		t.Error("not told")
	}
	b.wrote(1002, 0)
	if u := b.look(time.Hour); u.Err != nil || u.Day.Device != 2*512 {
		t.Errorf("%+v", u)
	}
}

// TestDiskUnreadableAtStart: what the disk was given since the machine was started is not taken for what it was given since the record, nor since weir measures.
func TestDiskUnreadableAtStart(t *testing.T) {
	for _, known := range []bool{true, false} {
		t.Run(fmt.Sprintf("known=%v", known), func(t *testing.T) {
			b := newBench(t)
			if known {
				b.wrote(1010, 0)
				b.look(time.Hour)
				b.keep()
			}
			b.s.rewrite(t, "nothing\n", emmcStat)
			for range 2 { // twice: what is kept meanwhile is of no counter
				b.open()
				if b.m.Usage().Err == nil {
					t.Error("not told")
				}
				b.keep()
			}
			b.wrote(1015, 0)
			b.look(time.Minute)
			b.wrote(1018, 0)
			if u, want := b.look(time.Minute), map[bool]uint64{true: 18, false: 3}[known]; u.Total.Device != want*512 {
				t.Errorf("%d sectors, want %d", u.Total.Device/512, want)
			}
			b.keep()
			b.open()
			if u, want := b.m.Usage(), map[bool]uint64{true: 18, false: 3}[known]; u.Total.Device != want*512 {
				t.Errorf("%d sectors after a restart, want %d", u.Total.Device/512, want)
			}
		})
	}
}

// TestRecordOutlastsAStartWithoutDisk: one start in a container, or with a disk that is not there yet, does not throw away what is known of a card's life.
func TestRecordOutlastsAStartWithoutDisk(t *testing.T) {
	b := newBench(t)
	b.wrote(1100, 512)
	b.look(time.Hour)
	b.keep()
	m, err := Open(Options{System: b.s, FS: disk.OS, File: b.file, Dir: "/data/weir", Device: "mmcblk9"})
	if err == nil || m.Keeps() {
		t.Errorf("the record is written over: %v", err)
	}
	if err := m.Keep(); err != nil {
		t.Error(err)
	}
	b.open()
	if u := b.m.Usage(); u.Total.Device != 100*512 {
		t.Errorf("%+v", u.Total)
	}
}

// unreadable is a disk whose record cannot be read, or not be set aside.
type unreadable struct {
	disk.FS
	rename bool
}

func (u unreadable) Open(name string) (disk.File, error) {
	if !u.rename {
		return nil, syscall.EIO
	}
	return u.FS.Open(name)
}

func (u unreadable) Rename(from, to string) error {
	if u.rename && to == from+asideSuffix {
		return syscall.EACCES
	}
	return u.FS.Rename(from, to)
}

// TestUnreadableRecordStays: what cannot be read, or not be set aside, is not written over.
func TestUnreadableRecordStays(t *testing.T) {
	for _, rename := range []bool{false, true} {
		b := newBench(t)
		content := []byte("precious")
		if err := disk.WriteFileAtomic(disk.OS, b.file, content); err != nil {
			t.Fatal(err)
		}
		m, err := Open(Options{System: b.s, FS: unreadable{disk.OS, rename}, File: b.file, Dir: "/data/weir"})
		if err == nil || m.Keeps() {
			t.Errorf("set aside fails %v: %v", rename, err)
		}
		m.o.FS = disk.OS
		if err := m.Keep(); err != nil {
			t.Error(err)
		}
		if left, err := disk.ReadFile(disk.OS, b.file); err != nil || !bytes.Equal(left, content) {
			t.Errorf("set aside fails %v: %q, %v", rename, left, err)
		}
	}
}

func TestDamagedRecordIsSetAside(t *testing.T) {
	b := newBench(t)
	b.wrote(1100, 0)
	b.look(time.Hour)
	b.keep()
	data, err := disk.ReadFile(disk.OS, b.file)
	if err != nil {
		t.Fatal(err)
	}
	for i := range data {
		if r, err := decode(data[:i]); err == nil {
			t.Fatalf("cut at %d: %+v", i, r)
		}
		for bit := range 8 {
			bad := bytes.Clone(data)
			bad[i] ^= 1 << bit
			r, err := decode(bad)
			if err == nil && (r.Total != b.m.record.Total || r.Counter != b.m.record.Counter) {
				t.Fatalf("bit %d of byte %d flipped: %+v", bit, i, r)
			}
		}
	}
	newer := bytes.Replace(data, []byte(`"version":1`), []byte(`"version":2`), 1)
	for want, content := range map[error][]byte{ErrCorrupt: data[:40], ErrVersion: newer} {
		if err := disk.WriteFileAtomic(disk.OS, b.file, content); err != nil {
			t.Fatal(err)
		}
		m, err := Open(Options{System: b.s, FS: disk.OS, File: b.file, Dir: "/data/weir"})
		if !errors.Is(err, want) || m == nil || m.record.Total.Device != 0 {
			t.Errorf("%v; want %v and a meter", err, want)
		}
		where := b.file + asideSuffix
		if want == ErrVersion {
			where = b.file
			if err := m.Keep(); err != nil {
				t.Error(err)
			}
		}
		if aside, err := disk.ReadFile(disk.OS, where); err != nil || !bytes.Equal(aside, content) {
			t.Errorf("%v: not as it was in %s: %v", want, where, err)
		}
	}
}

func FuzzRecord(f *testing.F) {
	data, err := (&Record{Device: "mmcblk0", Day: Sum{1, 2, 3}, Days: []Sum{{4, 5, 6}}}).encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := decode(data)
		if err != nil {
			return
		}
		again, err := r.encode()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := decode(again); err != nil {
			t.Errorf("%q: its own encoding %q: %v", data, again, err)
		}
	})
}

func TestYearsAndBudget(t *testing.T) {
	worn := Wear{Known: true, Least: 0.2, Most: 0.3}
	u := Usage{Wear: worn, PerDay: 2 << 30, Total: Sum{Device: 1 << 40}}
	e := Endurance{TBW: 40e12, Years: 10}
	if y, ok := e.YearsLeft(u); !ok || y < 35.7 || y > 35.8 { // 40e12 × 0.7 / (2^31 × 365)
		t.Errorf("%.3f years, %v", y, ok)
	}
	if b := e.Budget(u); b < 7.671e9 || b > 7.672e9 { // 40e12 × 0.7 / 3650
		t.Errorf("a budget of %f", b)
	}
	u.Wear = Wear{}
	if y, _ := e.YearsLeft(u); y < 49.6 || y > 49.7 { // what was seen counts as used
		t.Errorf("%.3f years", y)
	}
	if _, ok := (Endurance{Years: 10}).YearsLeft(u); ok {
		t.Error("years without tbw")
	}
	if b := (Endurance{Years: 10}).Budget(u); b != 0 {
		t.Error("a budget out of nothing")
	}
	if b := (Endurance{TBW: 1e12, Years: 1, DailyBudget: 5 << 20}).Budget(u); b != 5<<20 {
		t.Error("daily_budget does not hold")
	}
	u.Wear = Wear{Known: true, Least: 1, Most: 1}
	if y, _ := e.YearsLeft(u); y != 0 {
		t.Errorf("%f years of a disk that is worn out", y)
	}
	if e.Budget(u) != leastBudget {
		t.Error("no budget is left for a disk that is worn out")
	}
	u.PerDay = -1
	if _, ok := e.YearsLeft(u); ok {
		t.Error("years of an unknown rate")
	}
}

// TestOwnIsNoMoreThanAll: a kernel that counts whole folios says more of this process than the disk was given. What is due to be kept goes by the count all the same.
func TestOwnIsNoMoreThanAll(t *testing.T) {
	b := newBench(t)
	b.wrote(1000+8, 20<<20)
	u := b.look(time.Hour)
	if u.Day.Own != 8*512 || u.Total.Own != 8*512 || u.Day.Device != 8*512 {
		t.Errorf("%+v, %+v", u.Day, u.Total)
	}
	if !b.m.Due() {
		t.Error("not due")
	}
	b.keep()
	b.wrote(1000+800, 20<<20+100) // others
	if u = b.look(time.Hour); u.Day.Own > u.Day.Device {
		t.Errorf("%+v", u.Day)
	}
}
