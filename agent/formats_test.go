package agent

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/uplink/filesink"
)

const formatsPipeline = `
  p:
    start: earliest
    checkpoint: {interval: 50ms}
    steps:
      - {uid: all, from: s, select: [id, k]}
    sinks:
      - {uid: table, from: all, objects: {directory: tables, format: csv, compression: none}}
      - {uid: lines, from: all, file: {path: lines.jsonl, rotate: {bytes: 4KiB, keep: 0}}}
      - {uid: few, from: all, file: {path: few.jsonl, rotate: {bytes: 4KiB, keep: 2}}}
`

// TestCSVAndRotation: over a restart each row is once in the CSV objects and in the files, the closed ones and the open one; keep bounds them.
func TestCSVAndRotation(t *testing.T) {
	b := newBench(t, formatsPipeline)
	for _, last := range []int{150, 300, 450, 600} {
		b.start()
		b.put(last-149, last)
		b.await("all is delivered", func(s *api.Status) bool {
			for _, k := range s.Pipelines[0].Sinks {
				if k.UID != "$dead" && (k.Emitted < uint64(last) || k.Pending > 0) {
					return false
				}
			}
			return s.Pipelines[0].State == "running"
		})
		b.halt()
	}
	files := func(pattern string) (found []string) {
		found, err := filepath.Glob(filepath.Join(b.dir, "files", pattern))
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	read := func(file string) []byte {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	ids := map[int]int{}
	for _, file := range files("tables/*/*/*/dt=*/hr=*/*.csv") {
		rows, err := csv.NewReader(bytes.NewReader(read(file))).ReadAll()
		if err != nil || rows[0][0] != "_seq" || rows[0][1] != "id" || rows[0][2] != "k" {
			t.Fatalf("%s: %v, %v", file, rows, err)
		}
		for _, row := range rows[1:] {
			id, err := strconv.Atoi(row[1])
			if err != nil {
				t.Fatal(err)
			}
			ids[id]++
		}
	}
	wantEachOnce(t, "CSV", ids, 600)
	ids = map[int]int{}
	for _, file := range files("lines.jsonl*") {
		for text := range bytes.Lines(read(file)) {
			row, is, err := filesink.Row(text)
			if err != nil || !is {
				continue
			}
			var v struct{ ID int }
			if err := json.Unmarshal(row.Data, &v); err != nil {
				t.Fatal(err)
			}
			ids[v.ID]++
		}
	}
	wantEachOnce(t, "the files", ids, 600)
	if all, few := len(files("lines.jsonl.*")), len(files("few.jsonl.*")); all < 3 || few != 2 {
		t.Errorf("%d closed files, and %d where two are kept", all, few)
	}
}

func wantEachOnce(t *testing.T, where string, ids map[int]int, last int) {
	t.Helper()
	for id := 1; id <= last; id++ {
		if ids[id] != 1 {
			t.Errorf("%s holds id %d %d times", where, id, ids[id])
		}
	}
	if len(ids) != last {
		t.Errorf("%s holds %d ids, want %d", where, len(ids), last)
	}
}
