package uplinktest

import (
	"errors"

	"github.com/weirstream/weir/uplink"
)

func (s *suite) incarnations() {
	s.needsProgress()
	old, e := s.far.Connect(s, "a"), s.far.Connect(s, "b")
	defer old.Close()
	defer e.Close()
	s.open(old, one, 1, 0)
	s.send(old, one, 1, 1, 5)
	two := uplink.Incarnation{Major: 1, Minor: 1}
	s.open(e, two, 1, 5) // inherits the sequence
	if _, err := old.Send(s.Context(), MakeBatch(Stream(), one, 1, 6, 6)); !errors.Is(err, uplink.ErrFenced) {
		s.Fatalf("the old incarnation sends on: %v, want ErrFenced", err)
	}
	if _, err := old.Open(s.Context(), Stream(), one, 1); !errors.Is(err, uplink.ErrFenced) {
		s.Fatalf("the old incarnation opens again: %v, want ErrFenced", err)
	}
	s.send(e, two, 1, 6, 8)
	s.exact(8, nil)
	s.far.Restart(s)
	three := uplink.Incarnation{Major: 2}
	e3 := s.far.Connect(s, "c")
	defer e3.Close()
	if _, err := e3.Open(s.Context(), Stream(), one, 1); !errors.Is(err, uplink.ErrFenced) {
		s.Fatalf("the fence is gone after a restart: %v", err)
	}
	s.open(e3, three, 1, 8)
}

func (s *suite) generation() {
	s.needsProgress()
	e := s.far.Connect(s, "a")
	defer e.Close()
	s.open(e, one, 1, 0)
	s.send(e, one, 1, 1, 9)
	two := uplink.Incarnation{Major: 2}
	p, err := e.Open(s.Context(), Stream(), two, 2)
	if err != nil {
		s.Fatal(err)
	}
	if p.Generation == 2 && p.Seq != 0 || p.Generation != 2 && p.Seq != 9 {
		s.Fatalf("open of a new generation: %+v, want the old run or an empty new one", p)
	}
	s.send(e, two, 2, 6, 7) // the restore went back to 5
	s.open(e, two, 2, 7)
	if _, err := e.Open(s.Context(), Stream(), two, 1); !errors.Is(err, uplink.ErrFenced) {
		s.Fatalf("open of the old generation: %v, want ErrFenced", err)
	}
	if _, err := e.Send(s.Context(), MakeBatch(Stream(), two, 2, 9, 9)); !errors.Is(err, uplink.ErrHole) {
		s.Fatalf("hole in the new generation: %v, want ErrHole", err)
	}
	n := map[uint64]int{}
	for _, h := range s.far.Held(s, Stream()) {
		n[h.Generation]++
	}
	if n[1] != 9 || n[2] != 2 {
		s.Fatalf("records per generation: %v", n)
	}
}

func (s *suite) boards() {
	if s.o.NoBoards || s.o.NoProgress {
		s.Skip("this sink knows no boards")
	}
	a, b := s.far.Connect(s, "a"), s.far.Connect(s, "b")
	defer a.Close()
	defer b.Close()
	s.open(a, one, 1, 0)
	s.send(a, one, 1, 1, 2)
	if _, err := b.Open(s.Context(), Stream(), one, 1); !errors.Is(err, uplink.ErrFenced) {
		s.Fatalf("another board with an equal incarnation: %v, want ErrFenced", err)
	}
	if _, err := b.Send(s.Context(), MakeBatch(Stream(), one, 1, 3, 3)); !errors.Is(err, uplink.ErrFenced) {
		s.Fatalf("another board sends: %v, want ErrFenced", err)
	}
	s.send(a, one, 1, 3, 3)
	s.exact(3, nil)
}
