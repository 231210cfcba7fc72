package savepoints_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/weirstream/weir/agent/savepoints"
	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/state"
	"github.com/weirstream/weir/snapshot/savepoint"
	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/store/disk/disktest"
)

// tables is state by table: entries in rising order.
type tables map[string][][3][]byte

func (tables) Sinks() []pipeline.SinkMark  { return nil }
func (tables) Position() pipeline.Position { return 0 }
func (s tables) Entries(uid, name string, f func(key, sub, val []byte) error) (state.Spec, bool, error) {
	for _, e := range s[uid+"/"+name] {
		if err := f(e[0], e[1], e[2]); err != nil {
			return state.Spec{}, true, err
		}
	}
	return state.Spec{}, true, nil
}

// roundTrip draws a savepoint, exports and imports it: "" when the file is the same, byte by byte. spoil may change the text on the way.
func roundTrip(t *rapid.T, spoil func(text string) string) string {
	m := disktest.NewMem()
	if err := m.MkdirAll("/save"); err != nil {
		t.Fatal(err)
	}
	blob := rapid.SliceOfN(rapid.Byte(), 0, 40)
	h := savepoint.Head{
		Writer: rapid.String().Draw(t, "writer"), Gateway: rapid.String().Draw(t, "gateway"), Pipeline: "p<&>", UUID: make([]byte, 16), PlanHash: bytes.Repeat([]byte{7}, 32),
		Checkpoint: rapid.Uint64().Draw(t, "checkpoint"), Position: rapid.Uint64().Draw(t, "position"), ElapsedNs: rapid.Int64Range(0, 1<<62).Draw(t, "elapsed"),
		Plan: blob.Draw(t, "plan"), Ledger: blob.Draw(t, "ledger"), Trusted: rapid.Bool().Draw(t, "trusted"), Drained: rapid.Bool().Draw(t, "drained"),
	}
	content := tables{}
	for i := range rapid.IntRange(0, 3).Draw(t, "tables") {
		name := fmt.Sprintf("t%d", i)
		spec := state.Spec{Name: name, Kind: state.Map, Type: "x", Version: 1, TTL: rapid.Int64Range(0, 9).Draw(t, "ttl"), MaxKeys: rapid.IntRange(0, 9).Draw(t, "max keys")}
		h.Tables = append(h.Tables, savepoint.TableOf("u", spec))
		for n := range rapid.IntRange(0, 20).Draw(t, "entries") {
			content["u/"+name] = append(content["u/"+name], [3][]byte{append([]byte{byte(n)}, blob.Draw(t, "key")...), blob.Draw(t, "sub"), blob.Draw(t, "value")})
		}
	}
	confirmed := rapid.Uint64Range(0, 1<<40).Draw(t, "confirmed")
	results := rapid.Uint64Range(0, 5).Draw(t, "results")
	h.Sinks = []savepoint.Sink{{UID: "out", Generation: 1, Seq: confirmed + results, Confirmed: confirmed, Chain: rapid.Uint64().Draw(t, "chain")}}
	_, err := savepoint.Create(t.Context(), m, "/save/a", savepoint.Content{Head: h, State: content, Results: func(_ *savepoint.Sink, each func(*pipeline.Result) error) error {
		for n := range results {
			r := pipeline.Result{Seq: confirmed + n + 1, Last: confirmed + n + 1, Kind: pipeline.ResultData, Time: rapid.Int64().Draw(t, "time"), Chain: n, Payload: blob.Draw(t, "payload")}
			if err := each(&r); err != nil {
				return err
			}
		}
		return nil
	}}, codec, nil)
	if err != nil {
		t.Fatal(err)
	}
	a, err := disk.ReadFile(m, "/save/a")
	if err != nil {
		t.Fatal(err)
	}
	f, err := savepoint.Open(t.Context(), bytes.NewReader(a), int64(len(a)), codec, nil)
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := savepoints.Export(f, &text); err != nil {
		t.Fatal(err)
	}
	if _, err := savepoints.Import(t.Context(), m, strings.NewReader(spoil(text.String())), "/save/b", codec); err != nil {
		return err.Error()
	}
	b, err := disk.ReadFile(m, "/save/b")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(a, b) {
		return fmt.Sprintf("%x became %x", a, b)
	}
	return ""
}

// TestExportedAndImportedIsTheSameFile, whatever is in it.
func TestExportedAndImportedIsTheSameFile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		if diff := roundTrip(t, func(text string) string { return text }); diff != "" {
			t.Fatal(diff)
		}
	})
	spoilt := rapid.Custom(func(t *rapid.T) string {
		return roundTrip(t, func(text string) string { return strings.Replace(text, `"Trusted":true`, `"Trusted":false`, 1) })
	})
	for seed := range 100 {
		if spoilt.Example(seed) != "" {
			return
		}
	}
	t.Error("a line that was changed is not found")
}
