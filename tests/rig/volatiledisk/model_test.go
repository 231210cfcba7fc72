package volatiledisk

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
)

// model is the disk again, as plain as can be: each sector has the number of the write that made it.
type model struct {
	sectors  int64
	versions [][]uint64 // per sector: the durable one, then those that could be on the medium instead, oldest first
	requests []modelRequest
	next     uint64
}

type modelRequest struct {
	version  uint64 // 0: zeros
	from, to int64  // sectors
}

func newModel(sectors int64) *model {
	m := &model{sectors: sectors, versions: make([][]uint64, sectors), next: 1}
	for i := range m.versions {
		m.versions[i] = []uint64{0}
	}
	return m
}

func (m *model) write(r modelRequest) {
	m.requests = append(m.requests, r)
	for s := r.from; s < r.to; s++ {
		m.versions[s] = append(m.versions[s], r.version)
	}
}

func (m *model) durable(r modelRequest) {
	for s := r.from; s < r.to; s++ {
		m.versions[s] = []uint64{r.version}
	}
	for i, old := range m.requests { // what is left of an older request has no whole to be judged by
		if old.from < r.to && r.from < old.to {
			m.requests[i].from = m.requests[i].to
		}
	}
}

func (m *model) flush() {
	for s, v := range m.versions {
		m.versions[s] = v[len(v)-1:]
	}
	m.requests = nil
}

// content is n sectors of a version. Every sector has its version all through.
func content(version uint64, n int64) []byte {
	b := make([]byte, n*SectorBytes)
	for i := 0; i < len(b); i += 8 {
		binary.LittleEndian.PutUint64(b[i:], version)
	}
	return b
}

// read gives the versions of all sectors; a sector that is not of one version is torn.
func (m *model) read(r io.ReaderAt) ([]uint64, error) {
	b := make([]byte, m.sectors*SectorBytes)
	if _, err := r.ReadAt(b, 0); err != nil {
		return nil, err
	}
	out := make([]uint64, m.sectors)
	for s := range out {
		sector := b[s*SectorBytes : (s+1)*SectorBytes]
		out[s] = binary.LittleEndian.Uint64(sector)
		if !bytes.Equal(sector, content(out[s], 1)) {
			return nil, fmt.Errorf("sector %d is torn", s)
		}
	}
	return out, nil
}

// judge says what of an image no disk may have.
func (m *model) judge(c Cut, got []uint64) error {
	for s, v := range m.versions {
		switch {
		case c.Mode == Drop && got[s] != v[0]:
			return fmt.Errorf("sector %d has version %d, %d is durable", s, got[s], v[0])
		case c.Mode == Keep && got[s] != v[len(v)-1]:
			return fmt.Errorf("sector %d has version %d, %d is the newest", s, got[s], v[len(v)-1])
		case !slices.Contains(v, got[s]):
			return fmt.Errorf("sector %d has version %d, of %d could be there", s, got[s], v)
		}
	}
	return nil
}

// seen is what cuts of a kind have shown: a disk that never loses, or never tears, tests nothing.
type seen struct {
	lost, kept, torn, reordered, tornPrefix bool
}

// note looks at the requests that nothing newer covers.
func (s *seen) note(m *model, c Cut, got []uint64) {
	lostBefore := false
	for _, r := range m.requests {
		here, gone, covered := false, false, false
		for i := r.from; i < r.to; i++ {
			v := m.versions[i]
			covered = covered || v[len(v)-1] != r.version || slices.Index(v, r.version) != len(v)-1
			here, gone = here || got[i] == r.version, gone || got[i] != r.version
		}
		if covered || r.from == r.to {
			continue
		}
		s.kept = s.kept || here && !gone
		s.lost = s.lost || gone && !here
		s.torn = s.torn || gone && here
		s.reordered = s.reordered || here && lostBefore
		s.tornPrefix = s.tornPrefix || c.Mode == Tear && here && gone
		lostBefore = lostBefore || gone
	}
}

// play does steps random things to a disk and its model, and cuts both in every way again and again.
func play(planted fault, seed uint64, steps int) (found map[Mode]*seen, err error) {
	const sectors = 45 // no whole number of pages
	random := rand.New(rand.NewPCG(seed, 2))
	d, m := New(sectors*SectorBytes), newModel(sectors)
	d.planted = planted
	found = map[Mode]*seen{}
	for range steps {
		n := 1 + random.Int64N(20)
		from := random.Int64N(sectors - n)
		switch random.IntN(12) {
		case 0:
			err = d.Flush()
			m.flush()
		case 1:
			err = d.Zero(from*SectorBytes, n*SectorBytes)
			m.write(modelRequest{0, from, from + n})
		case 2:
			_, err = d.WriteDurable(content(m.next, n), from*SectorBytes)
			m.durable(modelRequest{m.next, from, from + n})
			m.next++
		case 3, 4, 5:
			c := Cut{Modes[random.IntN(len(Modes))], random.Uint64()}
			if err = m.check(d, c, found); err == nil && random.IntN(4) == 0 {
				d, err = m.restart(d, c)
			}
		default:
			_, err = d.WriteAt(content(m.next, n), from*SectorBytes)
			m.write(modelRequest{m.next, from, from + n})
			m.next++
		}
		if err != nil {
			return found, err
		}
	}
	return found, nil
}

// check compares what reads see, and an image.
func (m *model) check(d *Disk, c Cut, found map[Mode]*seen) error {
	view, err := m.read(d)
	if err == nil {
		err = m.judge(Cut{Mode: Keep}, view)
	}
	if err != nil {
		return fmt.Errorf("reads: %w", err)
	}
	got, err := m.read(d.Image(c))
	if err == nil {
		err = m.judge(c, got)
	}
	if err != nil {
		return fmt.Errorf("cut %v: %w", c, err)
	}
	if found[c.Mode] == nil {
		found[c.Mode] = &seen{}
	}
	found[c.Mode].note(m, c, got)
	return nil
}

// restart cuts the power and goes on with what is left, which is durable from then on.
func (m *model) restart(d *Disk, c Cut) (*Disk, error) {
	again := FromImage(d.Cut(c))
	again.planted = d.planted
	got, err := m.read(again)
	if err != nil {
		return nil, err
	}
	if err := m.judge(c, got); err != nil {
		return nil, fmt.Errorf("after cut %v: %w", c, err)
	}
	for s, v := range got {
		m.versions[s] = []uint64{v}
	}
	m.requests = nil
	return again, nil
}
