package uplinktest

import (
	"errors"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/uplink"
)

func (s *suite) empty() {
	e := s.far.Connect(s, "a")
	defer e.Close()
	if want := map[bool]uplink.Guarantee{true: uplink.AtLeastOnce, false: uplink.ExactlyOnce}[s.o.AtLeastOnce]; e.Guarantee() != want {
		s.Fatalf("guarantee is %s, want %s", e.Guarantee(), want)
	}
	s.open(e, one, 1, 0)
	s.open(e, one, 1, 0)
	s.exact(0, nil)
}

func (s *suite) continues() {
	e := s.far.Connect(s, "a")
	defer e.Close()
	s.open(e, one, 1, 0)
	s.send(e, one, 1, 1, 3)
	s.send(e, one, 1, 4, 4)
	s.send(e, one, 1, 5, 60)
	s.open(e, one, 1, 60)
	s.exact(60, nil)
}

func (s *suite) dedup() {
	e := s.far.Connect(s, "a")
	defer e.Close()
	s.open(e, one, 1, 0)
	s.send(e, one, 1, 1, 10)
	s.send(e, one, 1, 1, 10)  // the same batch
	s.send(e, one, 1, 3, 7)   // within
	s.send(e, one, 1, 8, 15)  // other cuts: half known
	s.send(e, one, 1, 1, 20)  // all known but the end
	s.send(e, one, 1, 20, 20) // known
	s.open(e, one, 1, 20)
	s.exact(20, nil)
}

func (s *suite) hole() {
	s.needsProgress()
	e := s.far.Connect(s, "a")
	defer e.Close()
	s.open(e, one, 1, 0)
	s.send(e, one, 1, 1, 4)
	for range 2 {
		if ans, err := e.Send(s.Context(), MakeBatch(Stream(), one, 1, 6, 9)); !errors.Is(err, uplink.ErrHole) {
			s.Fatalf("a batch behind a hole: %+v, %v, want ErrHole", ans, err)
		}
	}
	s.open(e, one, 1, 4)
	s.exact(4, nil)
	s.send(e, one, 1, 5, 9)
	s.exact(9, nil)
}

func (s *suite) gaps() {
	e := s.far.Connect(s, "a")
	defer e.Close()
	s.open(e, one, 1, 0)
	b := MakeBatch(Stream(), one, 1, 1, 9)
	whole := b.Results
	gap := func(first, last uint64) pipeline.Result {
		return pipeline.Result{Seq: first, Last: last, Kind: pipeline.ResultGap, Chain: whole[last-1].Chain, Time: pipeline.NoTime, Payload: []byte(`dropped: "full"`)}
	}
	b.Results = []pipeline.Result{whole[0], gap(2, 4), whole[4], gap(6, 9)}
	s.sendBatch(e, b)
	s.sendBatch(e, b)
	s.open(e, one, 1, 9)
	long := MakeBatch(Stream(), one, 1, 12, 12) // a gap that reaches into what is held
	long.Results = append([]pipeline.Result{gap(8, 9)}, long.Results...)
	long.Results[0].Last, long.First, long.Previous = 11, 8, 7
	s.sendBatch(e, long)
	s.open(e, one, 1, 12)
	s.exact(12, func(seq uint64) bool { return seq >= 2 && seq <= 4 || seq >= 6 && seq <= 11 })
}

func (s *suite) restart() {
	e := s.far.Connect(s, "a")
	s.open(e, one, 1, 0)
	s.send(e, one, 1, 1, 7)
	_ = e.Close()
	s.far.Restart(s)
	e = s.far.Connect(s, "a")
	defer e.Close()
	s.open(e, one, 1, 7)
	s.send(e, one, 1, 5, 9)
	s.exact(9, nil)
}

func (s *suite) payloads() {
	e := s.far.Connect(s, "a")
	defer e.Close()
	s.open(e, one, 1, 0)
	rows := []string{`{}`, `{"a":[1,2,{"b":null}]}`, `{"t":"line\nbreak } \" ,\"seq\":9"}`, `{"big":9223372036854775807,"u":18446744073709551615}`,
		`{"long":"` + string(make([]byte, 0)) + `"}`}
	b := &uplink.Batch{Stream: Stream(), Generation: 1, Incarnation: one, First: 1, Last: uint64(len(rows))}
	for i, r := range rows {
		seq := uint64(i + 1)
		b.Results = append(b.Results, pipeline.Result{Seq: seq, Last: seq, Kind: pipeline.ResultData, Time: pipeline.NoTime, Payload: []byte(r)})
	}
	s.sendBatch(e, b)
	if err := Exact(s.far.Held(s, Stream()), rows, nil); err != nil {
		s.Fatal(err)
	}
}

func (s *suite) streams() {
	if s.o.OneStream {
		s.Skip("this sink takes one stream")
	}
	e := s.far.Connect(s, "a")
	defer e.Close()
	s.open(e, one, 1, 0)
	s.send(e, one, 1, 1, 4)
	other := s.far.Connect(s, "a")
	defer other.Close()
	name := Stream()
	name.Sink = "other"
	if p, err := other.Open(s.Context(), name, one, 1); err != nil || p.Seq != 0 {
		s.Fatalf("another sink's stream: %+v, %v, want an empty one", p, err)
	}
	s.sendBatch(other, MakeBatch(name, one, 1, 1, 2))
	s.exact(4, nil)
	if n := len(s.far.Held(s, name)); n != 2 {
		s.Fatalf("another sink's stream holds %d records, want 2", n)
	}
}
