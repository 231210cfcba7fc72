package flash

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirstream/weir/agent/flash"
	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/state"
	"github.com/weirstream/weir/snapshot"
	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/store/journal"
	"github.com/weirstream/weir/store/log"
	"github.com/weirstream/weir/store/outbox"
)

// class is a kind of board: what its profile sets, and what its storage is taken to endure.
type class struct {
	name     string
	interval time.Duration
	tbw      float64
	of       string // what the storage is taken for
}

var classes = []class{
	{"SD card", 60 * time.Second, 5e12, "32 GB, TLC"},
	{"eMMC", 30 * time.Second, 8e12, "8 GB, MLC: 3,000 erasures, write amplification 3"},
	{"NVMe", 30 * time.Second, 150e12, "256 GB"},
	{"default", 10 * time.Second, 8e12, "as eMMC"},
}

const (
	tableKeys    = 100                   // devices: each message changes the state of one
	tableValue   = 100                   // bytes of state of each
	tableLinger  = 5 * time.Millisecond  // journal.linger
	tableBudget  = 2 << 30               // flash.daily_budget
	tableWindow  = 2 * time.Minute       // of the governor, shortened: it has to come to rest before it is measured
	tableCommit  = 5 * time.Second       // how often ext4 commits by itself
	tableWarm    = 10 * time.Minute      // until segments are recycled and the governor rests, at least
	messagesMost = 3_600_000             // of one measurement: an hour at 1,000 a second
	inflight     = 20                    // flash.max_inflight: what mosquitto has when nobody said more
	inflightWide = 2000                  // of a broker that was told to
	unpaced      = 40 * time.Millisecond // there and back to the upstream
)

// plantRun is a gateway without broker and operators: journal, state, checkpoints and an outbox, on a real file system, in virtual time.
type plantRun struct {
	t       *testing.T
	dev     *device
	disk    flash.Disk
	class   class
	rate    float64
	window  int // flash.max_inflight; 0: the governor is off
	rnd     *rand.Rand
	entries []pipeline.Entry
	table   *state.Table
	c       *snapshot.Coordinator
	journal *journal.Journal
	outbox  *outbox.Outbox
	stream  *outbox.Stream
	pos     pipeline.Position
	seq     uint64
	sent    int
	setting flash.Setting
	told    string
}

// Inject freezes the state and tells the outbox, as a task does at a barrier.
func (p *plantRun) Inject(ctx context.Context, id uint64) error {
	p.table.Lock()
	defer p.table.Unlock()
	b := pipeline.Barrier{ID: id, Position: p.pos}
	if err := p.stream.Barrier(ctx, b); err != nil {
		return err
	}
	p.c.Deliver(pipeline.TaskSnapshot{Task: "t", Barrier: b, Parts: []pipeline.StatePart{{UID: "s", Spec: p.table.Spec(), Frozen: p.table.Freeze()}},
		Sinks: []pipeline.SinkMark{{UID: "out", Generation: 1, Seq: p.seq, Chain: p.seq}}})
	return nil
}

// sealing gives the coordinator the outbox in its own terms.
type sealing struct{ p *plantRun }

func (s sealing) Seal(ctx context.Context, b pipeline.Barrier) (list []snapshot.OutboxRange, err error) {
	if err := s.p.journal.Sync(ctx); err != nil {
		return nil, err
	}
	ranges, err := s.p.outbox.Seal(ctx, b)
	for _, r := range ranges {
		list = append(list, snapshot.OutboxRange{UID: r.UID, Generation: r.Generation, Confirmed: r.Confirmed, Last: r.Last, Chain: r.ChainConfirmed})
	}
	return list, err
}

func (s sealing) Released(id uint64) { s.p.outbox.Released(id) }

func (p *plantRun) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

// open makes everything in the directory of the device.
func (p *plantRun) open() {
	start, dir := time.Now(), p.dev.dir
	stamp := func() pipeline.Stamp {
		return pipeline.Stamp{Elapsed: int64(time.Since(start)), Wall: time.Now().UnixMilli(), Trusted: true}
	}
	cfg := log.Default()
	cfg.ReserveBytes, cfg.Linger = 0, tableLinger
	var err error
	p.journal, _, err = journal.Open(journal.Options{Dir: filepath.Join(dir, "journal"), Config: cfg, Stamp: stamp})
	p.must(err)
	p.t.Cleanup(func() { _ = p.journal.Close() }) // also when the test ends early: nothing may be left in the bubble
	oc := outbox.Default()
	oc.Log.ReserveBytes = 0
	p.outbox, _, err = outbox.Open(outbox.Options{FS: disk.OS, Dir: filepath.Join(dir, "outbox"), Config: oc, Stamp: stamp})
	p.must(err)
	p.t.Cleanup(func() { _ = p.outbox.Close() })
	p.stream, err = p.outbox.Stream("out", outbox.StreamOptions{MaxBytes: 64 << 20})
	p.must(err)
	p.must(p.outbox.Cut(p.t.Context(), nil, outbox.Incarnation{Major: 1, Minor: 1}))
	store, err := snapshot.OpenLog(p.t.Context(), snapshot.LogOptions{FS: disk.OS, Dir: filepath.Join(dir, "ck"), Catalog: filepath.Join(dir, "catalog.bolt"), Logger: slog.New(slog.DiscardHandler)})
	p.must(err)
	p.t.Cleanup(func() { _ = store.Close() })
	p.table = state.New(state.Spec{Name: "acc", Kind: state.Value, Type: "x", Version: 1})
	sc := snapshot.Default()
	sc.Interval = p.class.interval
	p.c, err = snapshot.NewCoordinator(snapshot.Options{Config: sc, Store: store, Engine: p, Outbox: sealing{p}, Journal: p.journal, Tasks: []string{"t"}, Holder: "p"})
	p.must(err)
	_, err = p.c.CommitInitial(p.t.Context(), snapshot.Initial{})
	p.must(err)
	p.setting = flash.Setting{Linger: tableLinger, Interval: p.class.interval}
}

// message journals one and changes the state of its device.
func (p *plantRun) message() {
	_, err := p.journal.Append(&p.entries[p.sent%len(p.entries)])
	p.must(err)
	p.sent++
	key := binary.BigEndian.AppendUint64(nil, p.rnd.Uint64N(tableKeys)*0x9e3779b97f4a7c15)
	value := make([]byte, tableValue) // about half of it is compressible
	for i := 0; i < tableValue/2; i += 8 {
		binary.LittleEndian.PutUint64(value[i:], p.rnd.Uint64())
	}
	p.table.Lock()
	p.must(p.table.Put(key, value))
	p.pos = p.journal.Last()
	p.table.Unlock()
	p.c.Records(1)
}

// results makes one per device, as windows of a minute do.
func (p *plantRun) results() {
	p.table.Lock()
	defer p.table.Unlock()
	list := make([]pipeline.Result, tableKeys)
	for i := range list {
		p.seq++
		payload := fmt.Appendf(nil, `{"device":"sensor-%03d","start":%d,"avg":%.3f,"max":%.2f,"n":60}`, i, time.Now().UnixMilli(), p.rnd.Float64()*100, p.rnd.Float64()*100)
		list[i] = pipeline.Result{Seq: p.seq, Last: p.seq, Chain: p.seq, Kind: pipeline.ResultData, Time: time.Now().UnixMilli(), Payload: payload}
	}
	p.must(p.stream.Emit(p.t.Context(), list))
}

// upstream confirms what leaves.
func (p *plantRun) upstream(ctx context.Context) {
	for {
		list, err := p.stream.Next(ctx, 500, 1<<20)
		if err != nil {
			return
		}
		last := list[len(list)-1]
		time.Sleep(unpaced)
		if err := p.stream.Confirm(last.Last, last.Chain); err != nil && ctx.Err() == nil {
			p.t.Error(err)
		}
	}
}

// pass lets so much time go by under load.
func (p *plantRun) pass(d time.Duration) {
	end, minute, commit := time.Now().Add(d), time.Now().Add(time.Minute), time.Now().Add(tableCommit)
	for at := time.Now(); ; {
		next := at.Add(time.Duration(p.rnd.ExpFloat64() / p.rate * float64(time.Second)))
		for {
			due := next
			if minute.Before(due) {
				due = minute
			}
			if commit.Before(due) {
				due = commit
			}
			if end.Before(due) {
				time.Sleep(time.Until(end))
				return
			}
			time.Sleep(time.Until(due))
			if due.Equal(minute) {
				p.results()
				minute = minute.Add(time.Minute)
			}
			if due.Equal(commit) {
				p.dev.sync(p.t)
				commit = commit.Add(tableCommit)
			}
			if due.Equal(next) {
				break
			}
		}
		at = next
		p.message()
	}
}

// govern does for a window what the agent's keeper does, until nothing changes any more.
func (p *plantRun) govern() {
	limits := flash.Limits{Base: flash.Setting{Linger: tableLinger, Interval: p.class.interval}, Most: flash.Setting{Linger: time.Second, Interval: 5 * time.Minute}}
	for range 20 {
		window := max(tableWindow, 3*p.setting.Interval)
		bytes, pages := p.dev.written(p.t), p.journal.Stats().Log.PagesWritten
		p.pass(window)
		wrote := float64(p.dev.written(p.t) - bytes)
		v := limits.Decide(p.setting, flash.Facts{Budget: tableBudget, Left: flash.Day, Rate: wrote / window.Seconds(), Own: 1,
			Journal: min(float64(p.journal.Stats().Log.PagesWritten-pages)*4096/wrote, 1)})
		if v.Setting == p.setting {
			return
		}
		p.setting = v.Setting
		p.journal.Stretch(p.setting.Linger, p.window/2)
		p.c.Stretch(p.setting.Interval)
	}
	p.t.Errorf("%s at %.0f msg/s: the governor does not come to rest", p.class.name, p.rate)
}

// measured is one cell of the table.
type measured struct {
	perDay  float64
	setting flash.Setting
	span    time.Duration
}

func measure(t *testing.T, c class, rate float64, window int) (m measured) {
	dev := mountExt4(t)
	synctest.Test(t, func(t *testing.T) {
		p := &plantRun{t: t, dev: dev, class: c, rate: rate, window: window, rnd: rand.New(rand.NewPCG(1, uint64(rate))), entries: arrivals(t)}
		p.open()
		ctx, stop := context.WithCancel(t.Context())
		var group sync.WaitGroup
		group.Go(func() {
			if err := p.c.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		group.Go(func() { p.upstream(ctx) })
		defer func() { stop(); group.Wait() }()
		p.pass(tableWarm)
		if window > 0 {
			p.govern()
		}
		m.span, m.setting = min(time.Hour, time.Duration(messagesMost/rate*float64(time.Second))), p.setting
		if short := os.Getenv("WEIR_FLASH_MINUTES"); short != "" {
			n, err := strconv.Atoi(short)
			p.must(err)
			m.span = min(m.span, time.Duration(n)*time.Minute)
		}
		m.span = max(m.span, 3*p.setting.Interval)
		before := dev.written(t)
		p.pass(m.span)
		m.perDay = float64(dev.written(t)-before) / m.span.Hours() * 24
	})
	return m
}

// sync has the file system write what it would by itself in that time.
func (d *device) sync(t *testing.T) {
	f, err := os.Open(d.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Syncfs(int(f.Fd())); err != nil {
		t.Fatal(err)
	}
}

// TestFlashTable measures the default config of each class of boards and prints the table of docs/flash.md; with WEIR_FLASH_TABLE it writes it there.
func TestFlashTable(t *testing.T) {
	if os.Getenv("WEIR_FLASH_TABLE") == "" && os.Getenv("WEIR_BENCH") == "" {
		t.Skip("takes minutes: WEIR_BENCH=1, or make flash-table")
	}
	if os.Getuid() != 0 {
		t.Skip("NOT TESTED HERE: bytes of a device: needs root for a loop device")
	}
	rates := []float64{10, 100, 1000}
	var rows strings.Builder
	same := map[string]measured{} // classes with the same config write the same
	rows.WriteString("| board class, checkpoint interval | messages/s | governor off | on, `max_inflight: 20` | linger, interval | on, `max_inflight: 2000` | linger, interval |\n|---|---|---|---|---|---|---|\n")
	for _, c := range classes {
		for _, rate := range rates {
			cells := make([]measured, 3)
			for i, window := range []int{0, inflight, inflightWide} {
				config := fmt.Sprint(c.interval, rate, window)
				if m, ok := same[config]; ok {
					cells[i] = m
					continue
				}
				t.Run(fmt.Sprintf("%s/%.0f/%d", c.name, rate, window), func(t *testing.T) { cells[i] = measure(t, c, rate, window) })
				same[config] = cells[i]
				if t.Failed() || cells[i].span == 0 {
					t.Skip("NOT TESTED HERE: bytes of a device: no loop device with ext4 can be mounted")
				}
			}
			off, on, wide := cells[0], cells[1], cells[2]
			row := fmt.Sprintf("| %s, %s | %.0f | %s | %s | %s | %s | %s |\n", c.name, span(c.interval), rate, years(c, off), years(c, on), on, years(c, wide), wide)
			t.Logf("%s minutes measured: %.0f, %.0f, %.0f", row, off.span.Minutes(), on.span.Minutes(), wide.span.Minutes())
			rows.WriteString(row)
			if on.perDay > off.perDay*1.05 || wide.perDay > on.perDay*1.05 {
				t.Errorf("%s at %.0f/s: more is written with the governor on", c.name, rate)
			}
		}
	}
	t.Log("\n" + rows.String() + caveats())
	if os.Getenv("WEIR_FLASH_TABLE") != "" {
		writeTable(t, rows.String()+caveats())
	}
}

func (m measured) String() string { return span(m.setting.Linger) + ", " + span(m.setting.Interval) }

func span(d time.Duration) string {
	if d >= time.Minute && d%time.Minute == 0 {
		return fmt.Sprintf("%d min", d/time.Minute)
	}
	return d.String()
}

func years(c class, m measured) string {
	y := c.tbw / m.perDay / 365
	if y > 100 {
		return flash.Bytes(m.perDay) + " a day, more than 100 years"
	}
	return fmt.Sprintf("%s a day, %.1f years", flash.Bytes(m.perDay), y)
}

// caveats say what the numbers are of.
func caveats() string {
	release, _ := exec.Command("uname", "-r").Output()
	var list []string
	for _, c := range classes {
		list = append(list, fmt.Sprintf("%s %s (%s)", c.name, flash.Bytes(c.tbw), c.of))
	}
	return fmt.Sprintf("\nMeasured with `make flash-table` on Linux %s, %s: ext4 in a loop device over memory, counted by the block layer, the file system's own journal included. Virtual time: an hour each, behind ten minutes of warming up and until the governor rests, which stands still then (in the agent it goes on to look at the day's sum); what ext4 commits by itself is asked for every %s of it. Journal, state of %d devices (%d bytes each; a message changes one), checkpoints and an outbox with one result per device and minute are the real ones; recorded payloads of some 70 bytes, arrivals at random. `daily_budget` %s, `max_linger` 1s, `max_checkpoint_interval` 5m. Years are TBW / (bytes a day × 365) of a new disk that endures what is assumed for it: %s. What the disk's controller adds to each write is in its TBW, and is not seen from here.\n",
		strings.TrimSpace(string(release)), runtime.GOARCH, tableCommit, tableKeys, tableValue, flash.Bytes(tableBudget), strings.Join(list, "; "))
}

var tablePlace = regexp.MustCompile(`(?s)(<!-- flash-table -->\n).*?(<!-- end -->)`)

func writeTable(t *testing.T, text string) {
	t.Helper()
	file := filepath.Join("..", "..", "..", "docs", "flash.md")
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !tablePlace.Match(page) {
		t.Fatalf("%s has no place for the table", file)
	}
	next := tablePlace.ReplaceAllString(string(page), "${1}"+strings.ReplaceAll(text, "$", "$$")+"${2}")
	if err := os.WriteFile(file, []byte(next), 0o644); err != nil { //nolint:gosec // a page of the documentation
		t.Fatal(err)
	}
}
