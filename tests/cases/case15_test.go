package cases

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/weirstream/weir/agent/api"
)

// bulkSite is the config of a site with a small journal that leaves so much of the disk free, whose pipeline hands numbers on to a sink.
func bulkSite(reserve, sink string) string {
	return `
journal: {segment: 256KiB, reserve: ` + reserve + `, max_bytes: 16MiB, compress: false}
sources:
  bulk: {mqtt: {broker: local, topic: "bulk/+"}, fields: {seq: int}}
pipelines:
  bulk:
    start: earliest
    checkpoint: {interval: 100ms}
    steps:
      - {uid: numbers, from: bulk, select: [seq]}
    sinks:
      - {uid: up, from: numbers, ` + sink + `}
`
}

// TestCase15_DiskFull: 200 messages of 900 bytes against 64 KiB of free space, then space comes back.
func TestCase15_DiskFull(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to mount a small file system")
	}
	s := newSite(t, bulkSite("16KiB", "file: {path: up.jsonl}"))
	state := filepath.Join(s.dir, "state")
	s.must(os.Mkdir(state, 0o755))
	if err := syscall.Mount("tmpfs", state, "tmpfs", 0, "size=96m"); err != nil {
		t.Skipf("no small file system: %v", err)
	}
	t.Cleanup(func() {
		s.agent.Kill()
		syscall.Unmount(state, 0)
	})
	s.startReady()
	s.publish15(1000, 200) // fills most of the first segment, whose space is reserved
	s.settled()
	ballast := filepath.Join(state, "ballast")
	fill(t, state, ballast, 64<<10)

	const messages = 200
	var before uint64
	s.eventually("there is a checkpoint", func(st api.Status) bool { before = st.Pipelines[0].Checkpoint.ID; return before > 0 })
	s.publish15(0, messages)
	s.eventually("the journal is full", func(st api.Status) bool { return st.Journal.Full && len(st.Problems) > 0 })
	held := s.broker.Session(client)
	if held.InFlight+held.Queued == 0 {
		t.Error("everything was acknowledged, though there is no room for it")
	}
	s.must(os.Remove(ballast))
	s.settled()
	s.eventually("a checkpoint follows", func(st api.Status) bool { return st.Pipelines[0].Checkpoint.ID > before })
	s.stop()
	rows := map[int]int{}
	for _, r := range s.sinkData("up.jsonl") {
		if seq := decode[struct{ Seq int }](t, r).Seq; seq < messages {
			rows[seq]++
		}
	}
	want := expect[struct {
		Distinct int `json:"distinct_seq"`
		PerSeq   int `json:"rows_per_seq"`
	}](t, "15", "after")
	if len(rows) != want.Distinct {
		t.Errorf("%d distinct rows upstream, want %d", len(rows), want.Distinct)
	}
	for seq, n := range rows {
		if n != want.PerSeq {
			t.Errorf("row %d came %d times", seq, n)
		}
	}
	if alarms := strings.Count(s.log(), "full"); alarms == 0 || alarms > 5 {
		t.Errorf("the log speaks %d times of the full disk, want it told and not repeated", alarms)
	}
}

// publish15 sends the case's messages: 900 bytes each.
func (s *site) publish15(first, n int) {
	for seq := first; seq < first+n; seq++ {
		text := fmt.Sprintf(`{"seq":%d,"pad":""}`, seq)
		s.broker.Publish("bulk/1", 1, false, []byte(strings.Replace(text, `""`, `"`+strings.Repeat("x", 900-len(text))+`"`, 1)))
	}
}

// fill leaves so many bytes free.
func fill(t *testing.T, dir, ballast string, free int64) {
	t.Helper()
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		t.Fatal(err)
	}
	size := int64(st.Bavail)*int64(st.Bsize) - free
	if size <= 0 {
		t.Fatalf("%d bytes are free already", size+free)
	}
	if err := os.WriteFile(ballast, make([]byte, size), 0o600); err != nil {
		t.Fatal(err)
	}
}
