package flash

import (
	"errors"
	"fmt"
	"time"

	"github.com/weirstream/weir/store/disk"
)

// keepEvery is how often a running day is made durable at most. What a power cut takes of the day's sum is what was written since, as far as the disk's counter
// does not tell it: after a crash of the agent alone nothing is missing, after one of the machine at most an hour's bytes.
const keepEvery = time.Hour

// Options of a Meter.
type Options struct {
	System System
	FS     disk.FS
	File   string // of the record
	Dir    string // whose disk it is
	Device string // "": the one that holds Dir
}

// Meter adds up what is written. One goroutine owns it.
type Meter struct {
	o      Options
	device *Device
	record Record
	kept   Sum           // Total when the record was made durable
	own    uint64        // at the last look
	leave  bool          // the record stays as it is: a newer version's, one that cannot be read, or of a disk that is not seen now
	boot   string        // of this machine, now
	counts bool          // record.Counter is of record.Device
	ownOK  bool          // the kernel counts what the process writes
	now    time.Duration // of the last look
	err    error         // why the last look failed
}

// Open finds the disk and goes on from the record. What happened to it between the two runs counts as that of others. It writes nothing. The error tells of a record
// that was set aside, cannot be read, or is left as it is; the meter works all the same.
func Open(o Options) (*Meter, error) {
	m := &Meter{o: o, device: o.System.Locate(o.Dir, o.Device), boot: o.System.Boot()}
	r, err := readRecord(o.FS, o.File)
	m.leave = err != nil && !errors.Is(err, ErrCorrupt)
	m.own, m.ownOK = o.System.Own()
	name := m.device.Name()
	switch {
	case r == nil:
	case r.Device == name:
		m.record, m.counts = *r, name != ""
	case name == "":
		m.leave = true // a start in a container, a disk that is not there yet: what is known of the other one is not thrown away for it
		err = fmt.Errorf("%s is of %s, and the disk is not seen: %s; %s", o.File, r.Device, m.device.Why, leftAlone)
	}
	c, cerr := o.System.Read(m.device.Disks)
	if m.err = cerr; cerr == nil {
		m.add(Sum{Device: m.counted(c)})
	}
	m.kept = m.record.Total
	return m, err
}

// counted is what the disk was given since its counter was read last. The first reading of a disk, and the first one behind an Open that could not read it, begins or goes on
// by what the record says, not at the machine's boot.
func (m *Meter) counted(c Counters) (written uint64) {
	if m.counts {
		written = Since(m.record.Counter, c.Written, m.record.Boot == m.boot)
	}
	m.record.Device, m.record.Boot, m.record.Counter, m.counts = m.device.Name(), m.boot, c.Written, true
	return written
}

// Device is what is measured.
func (m *Meter) Device() *Device { return m.device }

// Look reads the counters. now is running time of this process, from a monotonic clock.
func (m *Meter) Look(now time.Duration) error {
	c, err := m.o.System.Read(m.device.Disks)
	if m.err = err; err != nil {
		return err
	}
	own, ok := m.o.System.Own()
	s := Sum{Device: m.counted(c), Ran: max(now-m.now, 0)}
	if m.ownOK = ok; ok {
		s.Own = own - min(m.own, own)
	}
	m.own, m.now = own, now
	m.add(s)
	return nil
}

func (m *Meter) add(s Sum) {
	m.record.Total.add(s)
	m.record.Day.add(s)
	for m.record.Day.Ran >= Day {
		over := m.record.Day.Ran - Day
		m.record.Day.Ran = Day
		m.record.Days = append(m.record.Days, m.record.Day)
		if n := len(m.record.Days); n > daysKept {
			m.record.Days = append([]Sum(nil), m.record.Days[n-daysKept:]...)
		}
		m.record.Day = Sum{Ran: over % Day} // a machine that stood for days had no days in between
	}
}

// Due tells that Keep is worth its write: an hour has gone and weir wrote something. An agent without work writes nothing for this either.
func (m *Meter) Due() bool {
	since := m.record.Total.Ran - m.kept.Ran
	return since >= keepEvery && (m.record.Total.Own > m.kept.Own || !m.ownOK && m.record.Total.Device > m.kept.Device)
}

// Keeps tells whether Keep writes: not over a record that is to stay.
func (m *Meter) Keeps() bool { return !m.leave }

// Keep makes the record durable: about 500 bytes, with what the file system adds some 25 KB on ext4, so 0.6 MB in a day at most.
func (m *Meter) Keep() error {
	if m.leave {
		return nil
	}
	data, err := m.record.encode()
	if err != nil {
		return err
	}
	if err := disk.WriteFileAtomic(m.o.FS, m.o.File, data); err != nil {
		return fmt.Errorf("keep what was written: %w", err)
	}
	if own, ok := m.o.System.Own(); ok { // its own bytes are no reason to write again
		m.add(Sum{Own: own - min(m.own, own)})
		m.own = own
	}
	m.kept = m.record.Total
	return nil
}

// Unkept tells that there is something to keep at a stop.
func (m *Meter) Unkept() bool { return m.record.Total.Own > m.kept.Own }

// Usage is what is known.
type Usage struct {
	Device   *Device
	Wear     Wear
	Day      Sum // under way
	Total    Sum
	PerDay   float64       // bytes in a day, of the disk; -1: not known yet
	Measured time.Duration // what PerDay stands on
	OwnKnown bool
	Err      error // why the disk is not read
}

// leastMeasured is what a rate per day stands on at least.
const leastMeasured = time.Hour

// Usage asks the disk for its wear and tells all.
func (m *Meter) Usage() Usage {
	u := Usage{Device: m.device, Wear: m.o.System.Wear(m.device.Disks), Day: m.record.Day, Total: m.record.Total, OwnKnown: m.ownOK, Err: m.err}
	u.PerDay, u.Measured = perDay(&m.record)
	if u.Device.Name() != "" {
		u.Day, u.Total = u.Day.bounded(), u.Total.bounded()
	}
	return u
}

// bounded: of what the disk was given, no more is this process's. The kernel counts a page that is made dirty with all that it caches together with it (task_io_account_write of a folio): with
// large folios, which XFS and btrfs have, and ext4 from Linux 6.16 on, 100 bytes that are synced can count as 1 MiB.
func (s Sum) bounded() Sum {
	s.Own = min(s.Own, s.Device)
	return s
}

// perDay is the mean of the finished days, and of the day under way as far as there are none.
func perDay(r *Record) (bytes float64, measured time.Duration) {
	s := Sum{}
	for _, d := range r.Days {
		s.add(d)
	}
	if len(r.Days) == 0 {
		s = r.Day
	}
	if s.Ran < leastMeasured {
		return -1, s.Ran
	}
	return float64(s.Device) / s.Ran.Hours() * 24, s.Ran
}
