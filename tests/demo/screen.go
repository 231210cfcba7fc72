package main

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
)

// screen shows the ledger: on a terminal a block that is drawn again, elsewhere a line every few seconds.
type screen struct {
	w        io.Writer
	terminal bool
	every    time.Duration
	last     time.Time
	lines    int // of the block that stands on the terminal
}

func newScreen(f *os.File, every time.Duration) *screen {
	info, err := f.Stat()
	return &screen{w: f, terminal: err == nil && info.Mode()&os.ModeCharDevice != 0, every: every}
}

func (c *screen) intro(s *stage) {
	how := "once in " + s.o.play.String()
	if s.o.forever {
		how = "again and again, " + s.o.play.String() + " each; Ctrl-C ends it"
	}
	fmt.Fprintf(c.w, `demo: %s deliveries of road sensors (NAB, Twin Cities): late, out of order and twice; played %s
  publisher -> broker (QoS 1) -> weir, killed with SIGKILL about every %s -> receiver and file
`, thousands(len(s.rec.messages)), how, s.o.killEvery)
}

// show draws the ledger when it is time.
func (c *screen) show(s *stage) {
	if !c.terminal && time.Since(c.last) < c.every {
		return
	}
	c.last = time.Now()
	l := s.ledger()
	if !c.terminal {
		fmt.Fprintf(c.w, "%5s  published %s  acknowledged %s  on flash %s | windows %s  records %s  lost %d  duplicate %d | kills %d  checkpoints %d  journal %s  device %s\n",
			clock(time.Since(s.begun)), thousands(l.published), thousands(l.acknowledged), thousands(l.taken), thousands(l.windows), thousands(l.records),
			l.lost, l.duplicate, l.kills, l.checkpoints, size(l.journal), size(l.device))
		return
	}
	var b strings.Builder
	if c.lines > 0 {
		fmt.Fprintf(&b, "\x1b[%dA\x1b[J", c.lines)
	}
	row := func(name, value, note string) { fmt.Fprintf(&b, "  %-24s %12s   %s\n", name, value, note) }
	fmt.Fprintf(&b, "\n")
	row("time", clock(time.Since(s.begun)), "")
	row("published", thousands(l.published), "")
	row("acknowledged by broker", thousands(l.acknowledged), "")
	row("acknowledged by weir", thousands(l.taken), "after they are on flash")
	row("windows delivered", thousands(l.windows), "")
	row("records delivered", thousands(l.records), "")
	row("lost", thousands(l.lost), "")
	row("duplicate", thousands(l.duplicate), "")
	row("kill -9", thousands(l.kills), "")
	row("checkpoints", thousands(l.checkpoints), "")
	row("journal written", size(l.journal), "")
	row("device written", size(l.device), s.device.String())
	text := b.String()
	c.lines = strings.Count(text, "\n")
	fmt.Fprint(c.w, text)
}

// ledger is what is shown.
type ledger struct {
	published, acknowledged, taken    int
	windows, records, lost, duplicate int
	kills, checkpoints                int
	journal, device                   uint64
}

func (s *stage) ledger() (l ledger) {
	acked, _ := s.publisher.Counts()
	b := s.broker.Session("weir-demo")
	t, windows := s.oracle.counts()
	journal, checkpoints := s.watcher.written()
	taken := int(s.broker.Accepted()) - b.Queued - b.InFlight
	l = ledger{
		published: int(s.published.Load()), acknowledged: int(acked), taken: taken, windows: windows, records: t.arrived, lost: t.lost, duplicate: t.duplicate,
		kills: s.kills, checkpoints: int(checkpoints), journal: journal, device: s.device.written(),
	}
	return l
}

// verdict prints the comparison and says whether all is well.
func (c *screen) verdict(s *stage, interrupted bool) (ok bool) {
	c.last = time.Time{}
	fmt.Fprintf(c.w, "\nwhat arrived, compared with the known answers (%s)\n", s.o.data)
	fmt.Fprintf(c.w, "  %-10s %9s %9s %6s %10s %6s   %s\n", "sink", "expected", "arrived", "lost", "duplicate", "wrong", "answer")
	ok = true
	line := func(sink string, t tally, source string, notes []string) {
		fmt.Fprintf(c.w, "  %-10s %9d %9d %6d %10d %6d   %s\n", sink, t.expected, t.arrived, t.lost, t.duplicate, t.wrong, source)
		for _, n := range notes {
			fmt.Fprintf(c.w, "    %s\n", n)
		}
		ok = ok && t.good()
	}
	for _, k := range s.oracle.streams {
		line(k.sink, k.total, k.source(), k.wrong)
	}
	if !s.o.forever {
		t, notes, err := s.compareRaw()
		if err != nil {
			t.wrong, notes = t.wrong+1, []string{err.Error()}
		}
		line("raw (file)", t, "arrivals.jsonl without duplicates.csv, in order", notes)
	}
	result := "PASS: lost 0, duplicate 0, every value as it must be"
	switch {
	case !ok:
		result = "FAIL"
	case interrupted:
		result = fmt.Sprintf("PASS up to here: %d whole passes compared, the last one broken off", s.oracle.complete())
	}
	fmt.Fprintf(c.w, "%s; %d kill -9, %s\n", result, s.kills, clock(time.Since(s.begun)))
	return ok
}

func (s *stream) source() string {
	if a := s.want(0); a != nil {
		return a.source
	}
	return ""
}

// complete is how many passes every stream has ended.
func (o *oracle) complete() int {
	n := 1 << 30
	for _, s := range o.streams {
		s.mu.Lock()
		n = min(n, s.total.passes)
		s.mu.Unlock()
	}
	return n
}

// thousands writes a number with commas.
func thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func size(n uint64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }

func clock(d time.Duration) string {
	return fmt.Sprintf("%02d:%02d", int(d.Minutes()), int(d.Seconds())%60)
}
