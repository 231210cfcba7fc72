package objectsink

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/uplinktest"
)

func csvConfig(c Config) Config {
	c.Format, c.Columns = FormatCSV, []string{"n", "text"}
	return c
}

// field is one of a CSV record as a consumer reads it that tells quoted from bare.
type field struct {
	text   string
	quoted bool
}

// records takes CSV apart by RFC 4180, and nothing that is not in it.
func records(body string) (out [][]field, err error) {
	for len(body) > 0 {
		var rec []field
		for {
			var f field
			if f, body, err = nextField(body); err != nil {
				return nil, err
			}
			rec = append(rec, f)
			if rest, ok := strings.CutPrefix(body, ","); ok {
				body = rest
				continue
			}
			rest, ok := strings.CutPrefix(body, "\r\n")
			if !ok {
				return nil, fmt.Errorf("neither , nor CR LF: %.40q", body)
			}
			body = rest
			break
		}
		out = append(out, rec)
	}
	return out, nil
}

func nextField(body string) (f field, rest string, err error) {
	if !strings.HasPrefix(body, `"`) {
		n := strings.IndexAny(body, ",\r\n\"")
		if n < 0 {
			return f, body, io.ErrUnexpectedEOF
		}
		return field{text: body[:n]}, body[n:], nil
	}
	var text strings.Builder
	for body = body[1:]; ; {
		before, after, found := strings.Cut(body, `"`)
		if !found {
			return f, body, io.ErrUnexpectedEOF
		}
		text.WriteString(before)
		if body = after; !strings.HasPrefix(body, `"`) {
			return field{text.String(), true}, body, nil
		}
		text.WriteByte('"')
		body = body[1:]
	}
}

// document makes the row of a record again; its sequence too.
func document(header, rec []field) (seq, row string) {
	var members []string
	for i, f := range rec[1:] {
		v := f.text
		switch {
		case v == "" && !f.quoted:
			continue
		case f.quoted && !strings.HasPrefix(v, "[") && !strings.HasPrefix(v, "{"):
			b := &bytes.Buffer{}
			e := json.NewEncoder(b)
			e.SetEscapeHTML(false)
			_ = e.Encode(v)
			v = strings.TrimSuffix(b.String(), "\n")
		}
		members = append(members, fmt.Sprintf("%q:%s", header[i+1].text, v))
	}
	return rec[0].text, "{" + strings.Join(members, ",") + "}"
}

// heldCSV gives the records of an object; what is missing of its range is gaps.
func heldCSV(body string, n name) (all []uplinktest.Held, err error) {
	recs, err := records(body)
	if err != nil {
		return nil, err
	}
	next := n.first
	gaps := func(upTo uint64) {
		for ; next < upTo; next++ {
			all = append(all, uplinktest.Held{Generation: n.generation, Seq: next, Last: next, Gap: true})
		}
	}
	for _, rec := range recs[1:] {
		if len(rec) != len(recs[0]) {
			return nil, fmt.Errorf("%d fields under %d names", len(rec), len(recs[0]))
		}
		var seq uint64
		text, row := document(recs[0], rec)
		if _, err := fmt.Sscan(text, &seq); err != nil || seq < next || seq > n.last {
			return nil, fmt.Errorf("sequence %s where %d to %d come", text, next, n.last)
		}
		gaps(seq)
		all = append(all, uplinktest.Held{Generation: n.generation, Seq: seq, Last: seq, Payload: row})
		next++
	}
	gaps(n.last + 1)
	return all, nil
}

func newCSVFar(t testing.TB, compression string) *dirFar {
	f := newDirFar(t, compression)
	f.config = csvConfig(f.config)
	return f
}

func TestConformanceOfCSV(t *testing.T) {
	for _, compression := range []string{"none", "zstd"} {
		t.Run(compression, func(t *testing.T) {
			uplinktest.Run(t, func(t testing.TB) uplinktest.Far { return newCSVFar(t, compression) }, uplinktest.Options{})
		})
	}
}

func batchOf(first uint64, rows ...string) *uplink.Batch {
	b := &uplink.Batch{Stream: uplinktest.Stream(), Generation: 1, Incarnation: one, Previous: first - 1, First: first, Last: first + uint64(len(rows)) - 1}
	for i, r := range rows {
		seq := first + uint64(i)
		b.Results = append(b.Results, pipeline.Result{Seq: seq, Last: seq, Kind: pipeline.ResultData, Time: pipeline.NoTime, Payload: []byte(r)})
	}
	return b
}

func TestCSVForm(t *testing.T) {
	tab := newTable([]string{"n", `a "b", c`, "ok"}, &planted{})
	b := batchOf(7, `{"n":18446744073709551615,"a \"b\", c":"x","ok":true}`, `{"ok":false,"n":-1.5e-9}`, `{"n":null,"a \"b\", c":""}`,
		`{"a \"b\", c":"say \"hi\",\r\nü","n":[1,"z"],"old":{"k":1}}`, `{}`)
	b.Results[4].Kind, b.Results[4].Payload = pipeline.ResultGap, []byte("dropped")
	got, rejected := tab.encode(nil, b, 6)
	want := "_seq,n,\"a \"\"b\"\", c\",ok,old\r\n" +
		"7,18446744073709551615,\"x\",true,\r\n" +
		"8,-1.5e-9,,false,\r\n" +
		"9,,\"\",,\r\n" +
		"10,\"[1,\"\"z\"\"]\",\"say \"\"hi\"\",\r\nü\",,\"{\"\"k\"\":1}\"\r\n"
	if string(got) != want || len(rejected) > 0 {
		t.Errorf("%s%v\nwant\n%s", got, rejected, want)
	}
	again, _ := tab.encode(nil, b, 6)
	if !bytes.Equal(again, got) {
		t.Error("the same batch gives other bytes")
	}
	if rest, _ := tab.encode(nil, batchOf(12, `{"n":1}`), 11); string(rest) != "_seq,n,\"a \"\"b\"\", c\",ok\r\n12,1,,\r\n" {
		t.Errorf("the next batch: %s", rest)
	}
	for _, bad := range []string{`[1]`, `{"n":1`, "{\"n\":\"\xff\"}", "", `{"n":tru}`} {
		if _, rejected := tab.encode(nil, batchOf(1, `{"n":1}`, bad), 0); len(rejected) != 1 || rejected[0].Seq != 2 {
			t.Errorf("%q: rejected %v, want sequence 2", bad, rejected)
		}
	}
}

// roundTrip writes random rows and reads them as a consumer does; the first difference.
func roundTrip(t *rapid.T, plant planted) error {
	columns := []string{"a", "b"}
	text := rapid.StringOf(rapid.RuneFrom([]rune("ab\",;\r\n \té0{[")))
	var rows []string
	for range rapid.IntRange(1, 5).Draw(t, "rows") {
		row := map[string]any{}
		for _, name := range append(columns, "c") {
			switch rapid.IntRange(0, 3).Draw(t, "kind") {
			case 0:
				row[name] = "t" + text.Draw(t, "text")
			case 1:
				row[name] = rapid.Int64().Draw(t, "int")
			case 2:
				row[name] = []string{text.Draw(t, "element")}
			}
		}
		b := &bytes.Buffer{}
		e := json.NewEncoder(b)
		e.SetEscapeHTML(false)
		if err := e.Encode(row); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, strings.TrimSpace(b.String()))
	}
	body, rejected := newTable(columns, &plant).encode(nil, batchOf(1, rows...), 0)
	if len(rejected) > 0 {
		return fmt.Errorf("rejected %v", rejected)
	}
	held, err := heldCSV(string(body), name{generation: 1, first: 1, last: uint64(len(rows))})
	if err != nil {
		return err
	}
	return uplinktest.Exact(held, rows, nil)
}

func TestCSVRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		if err := roundTrip(t, planted{}); err != nil {
			t.Fatal(err)
		}
	})
}

func TestPlantedFaultsOfCSVAreFound(t *testing.T) {
	for name, plant := range map[string]planted{"quotes are not doubled": {unquoted: true}, "unknown members are left out": {fixedHeader: true}} {
		found := false
		rapid.Check(t, func(t *rapid.T) { found = found || roundTrip(t, plant) != nil })
		if !found {
			t.Errorf("%s: not found", name)
		}
	}
}

// TestCSVBadRow: a row without members is named, nothing of the batch is put, and the others go.
func TestCSVBadRow(t *testing.T) {
	far := newCSVFar(t, "none")
	s := far.Connect(t, "a").(*Sink)
	open(t, s, 0)
	ans, err := s.Send(t.Context(), batchOf(1, `{"n":1}`, `"text"`, `{"n":3}`))
	if err != nil || len(ans.Rejected) != 1 || ans.Rejected[0].Seq != 2 || ans.Durable != 0 {
		t.Fatalf("%+v, %v", ans, err)
	}
	b := batchOf(1, `{"n":1}`, `x`, `{"n":3}`)
	b.Results[1].Kind = pipeline.ResultGap
	if ans, err := s.Send(t.Context(), b); err != nil || ans.Durable != 3 {
		t.Fatalf("%+v, %v", ans, err)
	}
	if err := uplinktest.Exact(far.Held(t, uplinktest.Stream()), []string{`{"n":1}`, "", `{"n":3}`}, func(seq uint64) bool { return seq == 2 }); err != nil {
		t.Fatal(err)
	}
}

// TestFormatChanges: a stream whose sink gets another format goes on, and the run is found without the head.
func TestFormatChanges(t *testing.T) {
	far := newDirFar(t, "zstd")
	lines, csv := far.Connect(t, "a").(*Sink), (&dirFar{csvConfig(far.config)}).Connect(t, "a").(*Sink)
	open(t, lines, 0)
	if _, err := lines.Send(t.Context(), uplinktest.MakeBatch(uplinktest.Stream(), one, 1, 1, 3)); err != nil {
		t.Fatal(err)
	}
	open(t, csv, 3)
	if _, err := csv.Send(t.Context(), uplinktest.MakeBatch(uplinktest.Stream(), one, 1, 4, 6)); err != nil {
		t.Fatal(err)
	}
	if h, err := csv.rebuildOf(t); err != nil || h.Seq != 6 {
		t.Fatalf("without the head the run ends at %d, %v", h.Seq, err)
	}
	open(t, lines, 6)
}

func TestValidateColumns(t *testing.T) {
	for says, columns := range map[string][]string{"no columns": nil, `"_seq" twice`: {"_seq"}, `"a" twice`: {"a", "a"}} {
		if _, err := New(Config{Directory: "x", Compression: "none", Format: FormatCSV, Columns: columns}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v: %v, want it to say %s", columns, err, says)
		}
	}
	if _, err := New(Config{Directory: "x", Compression: "none", Format: "parquet"}); err == nil || !strings.Contains(err.Error(), "json, csv") {
		t.Errorf("format parquet: %v", err)
	}
}

// FuzzCSV: whatever a row is, it is named, or a reader of CSV takes the object: encoding/csv as well.
func FuzzCSV(f *testing.F) {
	f.Add([]byte(`{"n":1,"text":"a \"b\"\r\n,"}`), "n")
	f.Add([]byte(`{"x":[{"y":null}],"n":"\u0000"}`), "a,b")
	f.Fuzz(func(t *testing.T, row []byte, column string) {
		if validColumns([]string{column}) != nil {
			return
		}
		body, rejected := newTable([]string{column}, &planted{}).encode(nil, batchOf(3, string(row)), 2)
		if len(rejected) > 0 {
			return
		}
		recs, err := records(string(body))
		if err != nil || len(recs) != 2 || len(recs[0]) != len(recs[1]) || recs[1][0].text != "3" {
			t.Fatalf("%q gives %q: %v, %v", row, body, recs, err)
		}
		if all, err := csv.NewReader(bytes.NewReader(body)).ReadAll(); err != nil || len(all) != 2 {
			t.Fatalf("%q gives %q: %v", row, body, err)
		}
	})
}
