package clock

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weirstream/weir/pipeline"
)

// machine is one whose clocks a test sets.
type machine struct {
	Reading
	synced bool
}

func (m *machine) Read() Reading { return m.Reading }
func (m *machine) Synced() bool  { return m.synced }

// run lets time go by, asleep or awake, and sets the wall clock.
func (m *machine) run(awake, asleep, set time.Duration) {
	m.Monotonic += int64(awake)
	m.Boot += int64(awake + asleep)
	m.Wall += int64(awake + asleep + set)
}

const year = 365 * 24 * time.Hour

var (
	build = time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
	today = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
)

func TestBootIn1970(t *testing.T) {
	m := &machine{Reading: Reading{Wall: int64(20 * time.Second)}, synced: true} // a time service that is wrong
	c := New(Options{Last: pipeline.Stamp{Elapsed: 5e9, Wall: today.UnixMilli(), Trusted: true}, Build: build, Machine: m})
	if s := c.Stamp(); s.Trusted || s.Elapsed != 5e9 || s.Wall != 20_000 {
		t.Errorf("stamp %+v", s)
	}
	if at, late := c.Wall(); !late || !at.Equal(today) {
		t.Errorf("dates are judged by %s, late %v", at, late)
	}
	m.run(time.Minute, 0, today.Add(time.Hour).Sub(time.Unix(0, m.Wall)))
	if s := c.Stamp(); !s.Trusted || s.Elapsed != 5e9+int64(time.Minute) {
		t.Errorf("behind the step %+v", s)
	}
	if s := c.Steps(); s.Count != 1 || s.Last < 56*year {
		t.Errorf("steps %+v", s)
	}
	if text := c.Due(); !strings.Contains(text, "forward") {
		t.Errorf("the journal is told %q", text)
	}
	if text := c.Due(); text != "" {
		t.Errorf("it is told again %q", text)
	}
	m.synced = false
	m.run(syncCheckEvery+1, 0, 0)
	if s := c.Stamp(); s.Trusted {
		t.Error("a clock is trusted that no time service confirms")
	}
	if at, late := c.Wall(); !late || at.UnixMilli() != m.Wall/1e6 {
		t.Errorf("dates are judged by %s, late %v", at, late)
	}
}

// TestFloorOutlastsStartsWithoutTime: the second boot in 1970 finds frames of the first one at the journal's end, whose clock was not trusted.
func TestFloorOutlastsStartsWithoutTime(t *testing.T) {
	m := &machine{Reading: Reading{Wall: int64(20 * time.Second)}}
	c := New(Options{Last: pipeline.Stamp{Elapsed: 5e9, Wall: 20_000}, Trusted: today.UnixMilli(), Build: build, Machine: m})
	if at, late := c.Wall(); !late || !at.Equal(today) || c.Floor() != today.UnixMilli() {
		t.Errorf("dates are judged by %s, late %v", at, late)
	}
}

func TestSleepIsNoStep(t *testing.T) {
	m := &machine{Reading: Reading{Wall: today.UnixNano()}, synced: true}
	c := New(Options{Build: build, Machine: m})
	m.run(time.Second, 8*time.Hour, 0)
	if s := c.Stamp(); s.Elapsed != int64(time.Second) || !s.Trusted {
		t.Errorf("stamp %+v", s)
	}
	if s := c.Steps(); s.Count != 0 || s.Sleeps != 1 || s.Slept != 8*time.Hour {
		t.Errorf("steps %+v", s)
	}
	if text := c.Due(); text != "the machine slept for 8h0m0s" {
		t.Errorf("the journal is told %q", text)
	}
}

// TestAFalseTimeIsForgotten: a time server was ahead by ten years for a while; the right time is not distrusted for ten years.
func TestAFalseTimeIsForgotten(t *testing.T) {
	m := &machine{Reading: Reading{Wall: today.UnixNano()}, synced: true}
	c := New(Options{Last: pipeline.Stamp{Wall: today.Add(10 * year).UnixMilli(), Trusted: true}, Build: build, Machine: m})
	for range 9 {
		if c.Stamp().Trusted {
			t.Fatal("a step back behind the floor is believed at once")
		}
		m.run(time.Minute, 0, 0)
	}
	m.synced = false // the service wavers: it begins anew
	m.run(time.Minute, 0, 0)
	c.Stamp()
	m.synced = true
	for range 10 {
		m.run(time.Minute, 0, 0)
		if c.Stamp().Trusted {
			t.Fatal("10 minutes are counted from before the service wavered")
		}
	}
	m.run(time.Minute, 0, 0)
	if !c.Stamp().Trusted {
		t.Error("the time service is not believed after 10 minutes")
	}
	if floor := c.Floor(); floor != build {
		t.Errorf("floor %d, want the build's", floor)
	}
}

// TestTheBuildIsSurelyPast: no insisting moves the clock before it.
func TestTheBuildIsSurelyPast(t *testing.T) {
	m := &machine{Reading: Reading{Wall: int64(year)}, synced: true}
	c := New(Options{Build: build, TrustAlways: true, Machine: m})
	for range 100 {
		m.run(time.Minute, 0, 0)
		if c.Stamp().Trusted {
			t.Fatal("a clock before the build is trusted")
		}
	}
}

func TestAFlappingClockDoesNotWearTheFlash(t *testing.T) {
	m := &machine{Reading: Reading{Wall: today.UnixNano()}, synced: true}
	c := New(Options{Machine: m})
	said, last := 0, ""
	for i := range 3000 { // ten minutes of 200 ms
		m.run(200*time.Millisecond, 0, time.Duration(1-2*(i%2))*time.Hour)
		if text := c.Due(); text != "" {
			said, last = said+1, text
		}
	}
	if said > 11 {
		t.Errorf("%d records in ten minutes", said)
	}
	if !strings.Contains(last, "300 times") {
		t.Errorf("the last one is %q", last)
	}
}

// TestElapsedNeverSteps: whatever the clocks do, elapsed is the time awake, and what is counted adds up.
func TestElapsedNeverSteps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &machine{Reading: Reading{Wall: today.UnixNano()}, synced: rapid.Bool().Draw(t, "synced")}
		base := rapid.Int64Range(0, 1<<50).Draw(t, "base")
		c := New(Options{Last: pipeline.Stamp{Elapsed: base}, Machine: m})
		var awake, asleep, set time.Duration
		steps := uint64(0)
		for range rapid.IntRange(1, 40).Draw(t, "looks") {
			a := time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "awake"))
			s := time.Duration(rapid.SampledFrom([]int64{0, 0, int64(stepMin), int64(24 * time.Hour)}).Draw(t, "asleep"))
			b := time.Duration(rapid.SampledFrom([]int64{0, 0, 0, int64(year), -int64(year), int64(10 * time.Second)}).Draw(t, "set"))
			m.run(a, s, b)
			awake, asleep, set = awake+a, asleep+s, set+b
			if b != 0 {
				steps++
			}
			if got := c.Stamp(); got.Elapsed != base+int64(awake) || got.Wall != m.Wall/1e6 {
				t.Fatalf("stamp %+v, awake for %s", got, awake)
			}
		}
		if s := c.Steps(); s.Count != steps || s.Slept != asleep {
			t.Fatalf("%+v, want %d steps and %s of sleep", s, steps, asleep)
		}
	})
}

// TestPlanted: what these tests are to find.
func TestPlanted(t *testing.T) {
	before := Reading{Monotonic: 1, Boot: 1, Wall: today.UnixNano()}
	slewed := Reading{Monotonic: 1 + 3600e9, Boot: 1 + 3600e9, Wall: today.UnixNano() + 3600e9 + 1800e6} // 500 ppm over an hour
	if s := stepBetween(before, slewed); s != (step{}) {
		t.Errorf("slewing is %+v", s)
	}
	slept := Reading{Monotonic: 2, Boot: 3600e9, Wall: today.UnixNano() + 3600e9}
	withoutBoot := slept
	withoutBoot.Boot = slept.Monotonic
	if s := stepBetween(before, withoutBoot); s.wall == 0 {
		t.Error("a machine that does not tell of sleep would not be noticed by TestSleepIsNoStep")
	}
}

func TestThisMachine(t *testing.T) {
	c := New(Options{TrustAlways: true})
	a := c.Stamp()
	time.Sleep(2 * time.Millisecond)
	if b := c.Stamp(); b.Elapsed <= a.Elapsed || b.Wall < a.Wall || !b.Trusted {
		t.Errorf("%+v, then %+v", a, b)
	}
	if s := c.Steps(); s.Count != 0 || s.Sleeps != 0 {
		t.Errorf("within 2 ms: %+v", s)
	}
}

// TestTheFloorFollowsALongRun: what was surely past when the agent started is not all that is surely past a year later.
func TestTheFloorFollowsALongRun(t *testing.T) {
	m := &machine{Reading: Reading{Wall: today.UnixNano()}, synced: true}
	c := New(Options{Build: build, Machine: m})
	for range 366 {
		m.run(24*time.Hour, 0, 0)
		if !c.Stamp().Trusted {
			t.Fatal("a clock that runs on is distrusted")
		}
	}
	m.run(time.Second, 0, -30*time.Second)
	if !c.Stamp().Trusted {
		t.Error("a correction of the time service is distrusted")
	}
	at := m.Wall
	m.run(time.Second, 0, -300*24*time.Hour) // far above what the floor was at the start
	if c.Stamp().Trusted {
		t.Error("a step back by most of a year is believed at once")
	}
	if wall, late := c.Wall(); !late || wall.Before(time.Unix(0, at).Add(-2*time.Minute)) {
		t.Errorf("certificates are judged by %s, late %v: one that expired months ago holds again", wall, late)
	}
	m.run(insistFor, 0, 0)
	if !c.Stamp().Trusted || c.Floor() > m.Wall/1e6 {
		t.Error("the time service is not believed after 10 minutes")
	}
	// Planted fault: the floor of the start.
	old := floor{hard: build, soft: build}
	if !old.judge(m.Wall/1e6, 1, true) {
		t.Error("the step is below the floor of the start as well: the test shows nothing")
	}
}

// TestToldRaisesTheFloorByADay: what was signed moves the floor, never far at once, and never back.
func TestToldRaisesTheFloorByADay(t *testing.T) {
	build := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
	c := New(Options{Build: build, Machine: This})
	c.Told(build + 1000)
	if got := c.Floor(); got != build+1000 {
		t.Errorf("floor %d, want that of the document", got-build)
	}
	c.Told(build + 400*86_400_000)
	if got := c.Floor(); got != build+1000+86_400_000 {
		t.Errorf("floor %d ms behind the build, want a day further", got-build)
	}
	if c.Told(1); c.Floor() != build+1000+86_400_000 {
		t.Error("the floor fell")
	}
}
