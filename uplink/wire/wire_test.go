package wire

import (
	"bytes"
	"errors"
	"net/http"
	"testing"

	"pgregory.net/rapid"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/uplink"
)

func TestHeadersRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		first := rapid.Uint64Range(1, 1<<63).Draw(t, "first")
		r := Request{Verb: rapid.SampledFrom([]string{VerbOpen, VerbConfirm, VerbSend}).Draw(t, "verb"),
			Stream: uplink.Stream{Gateway: rapid.StringMatching(`[a-z0-9._-]{1,20}`).Draw(t, "g"), Pipeline: "p", Sink: "s"}, Generation: rapid.Uint64Range(1, 1<<63).Draw(t, "gen"),
			Incarnation: uplink.Incarnation{Major: rapid.Uint32().Draw(t, "major"), Minor: rapid.Uint32().Draw(t, "minor")}, Board: rapid.StringMatching(`[a-z0-9]{0,9}`).Draw(t, "board")}
		if r.Verb == VerbSend {
			r.Previous, r.First, r.Last, r.Chain = first-1, first, first+rapid.Uint64Range(0, 500).Draw(t, "n"), rapid.Uint64().Draw(t, "chain")
		}
		h := http.Header{}
		SetHeaders(h, &r)
		for k := range h {
			if k != http.CanonicalHeaderKey(k) {
				t.Fatalf("header %s is not canonical", k)
			}
		}
		if got, err := ParseHeaders(h); err != nil || got != r {
			t.Fatalf("%+v %v, want %+v", got, err, r)
		}
	})
}

func TestHeadersRefused(t *testing.T) {
	good := Request{Verb: VerbSend, Stream: uplink.Stream{Gateway: "g", Pipeline: "p", Sink: "s"}, Generation: 1, Previous: 4, First: 5, Last: 6}
	for name, value := range map[string]string{HeaderProtocol: "2", HeaderVerb: "put", HeaderStream: "a/b", HeaderGeneration: "0", HeaderIncarnation: "1",
		HeaderPrevious: "5", HeaderFirst: "x", HeaderLast: "4", HeaderChain: "12"} {
		h := http.Header{}
		SetHeaders(h, &good)
		h.Set(name, value)
		if _, err := ParseHeaders(h); !errors.Is(err, ErrRequest) {
			t.Errorf("%s %q: %v, want ErrRequest", name, value, err)
		}
	}
}

func TestLinesMustRunWithoutAHole(t *testing.T) {
	ok := "{\"seq\":5,\"data\":1}\n{\"seq\":6,\"last\":8,\"gap\":\"x\"}\n"
	if err := Lines([]byte(ok), 5, 8, func(Line) error { return nil }); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		body        string
		first, last uint64
	}{{ok, 4, 8}, {ok, 5, 9}, {ok, 5, 7}, {ok[:len(ok)-1], 5, 8}, {"", 1, 1}, {ok + ok, 5, 8}} {
		if err := Lines([]byte(c.body), c.first, c.last, func(Line) error { return nil }); !errors.Is(err, ErrBody) {
			t.Errorf("%q as %d..%d: %v", c.body, c.first, c.last, err)
		}
	}
}

func FuzzLine(f *testing.F) {
	f.Add([]byte(`{"seq":5,"data":{"a":1}}`))
	f.Add([]byte(`{"seq":6,"last":8,"gap":"x \" y"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		l, err := ParseLine(text)
		if err != nil {
			if !errors.Is(err, ErrBody) {
				t.Fatal(err)
			}
			return
		}
		r := pipeline.Result{Seq: l.Seq, Last: l.Last, Kind: pipeline.ResultData, Payload: l.Data}
		if l.Gap {
			r.Kind, r.Payload = pipeline.ResultGap, []byte(l.Reason)
		}
		again, err := ParseLine(bytes.TrimSuffix(AppendResult(nil, &r), []byte{'\n'}))
		if err != nil || again.Seq != l.Seq || again.Last != l.Last || again.Gap != l.Gap || again.Reason != l.Reason {
			t.Fatalf("%q came back as %+v %v", text, again, err)
		}
	})
}

func FuzzHeadersAndAnswer(f *testing.F) {
	f.Add("g/p/s", "1.0", "7", "0123456789abcdef", []byte(`{"generation":1,"incarnation":"1.2","seq":5,"chain":"0123456789abcdef","rejected":[{"seq":3,"reason":"x"}]}`))
	f.Fuzz(func(t *testing.T, stream, inc, n, chain string, body []byte) {
		h := http.Header{HeaderProtocol: {Version}, HeaderVerb: {VerbSend}, HeaderStream: {stream}, HeaderIncarnation: {inc}, HeaderGeneration: {n},
			HeaderPrevious: {n}, HeaderFirst: {n}, HeaderLast: {n}, HeaderChain: {chain}}
		if _, err := ParseHeaders(h); err != nil && !errors.Is(err, ErrRequest) {
			t.Fatal(err)
		}
		if a, err := ParseAnswer(body); err == nil {
			_, _ = a.Progress()
			_ = a.Names()
		}
	})
}

func BenchmarkAppendResult(b *testing.B) {
	row := []byte(`{"device":"d-17","window_start":1767225600000,"window_end":1767225660000,"avg":21.5,"max":23.1,"n":60,"revision":0}`)
	r := pipeline.Result{Seq: 123456, Last: 123456, Kind: pipeline.ResultData, Payload: row}
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf = AppendResult(buf[:0], &r)
	}
}

func BenchmarkParseLine(b *testing.B) {
	line := []byte(`{"seq":123456,"data":{"device":"d-17","window_start":1767225600000,"window_end":1767225660000,"avg":21.5,"max":23.1,"n":60}}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParseLine(line); err != nil {
			b.Fatal(err)
		}
	}
}
