package crash

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/wire"
)

// scatteredKind is an upstream that has no transaction over a batch, as an object store or a table of rows has none: each record is kept on
// its own, in any order. Killed within a batch it holds a run with holes behind it, which a sender that has one batch under way at a time
// could never make of the reference receiver.
const scatteredKind = "scattered"

// scatteredPause is between two records: a kill finds the receiver within a batch.
const scatteredPause = time.Millisecond

// scattered keeps one line for each record: stream, generation, line of the protocol. It knows generation 1 only; nothing in the crash run
// begins another.
type scattered struct {
	highest bool // RULES 17, planted: open, confirm and answers give the highest sequence instead of the end of the unbroken run

	mu   sync.Mutex // guards what follows; held for a whole batch
	file *os.File
	held map[string]map[uint64]wire.Line
}

// openScattered reads what is there. A line that a kill cut short was not kept.
func openScattered(name string, highest bool) (*scattered, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open receiver file: %w", err)
	}
	s := &scattered{highest: highest, file: f, held: map[string]map[uint64]wire.Line{}}
	b, err := io.ReadAll(f)
	if err == nil {
		whole := bytes.LastIndexByte(b, '\n') + 1
		err = errors.Join(f.Truncate(int64(whole)), s.read(b[:whole]))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read receiver file: %w", err), f.Close())
	}
	return s, nil
}

func (s *scattered) read(b []byte) error {
	for len(b) > 0 {
		text, rest, _ := bytes.Cut(b, []byte{'\n'})
		b = rest
		stream, raw, ok := bytes.Cut(text, []byte{' '})
		if !ok {
			return fmt.Errorf("line %.60q has no stream", text)
		}
		l, err := wire.ParseLine(raw)
		if err != nil {
			return err
		}
		s.hold(string(stream), l)
	}
	return nil
}

func (s *scattered) hold(stream string, l wire.Line) {
	if s.held[stream] == nil {
		s.held[stream] = map[uint64]wire.Line{}
	}
	s.held[stream][l.Seq] = l
}

// end is where the unbroken run ends, or the highest sequence where that fault is planted.
func (s *scattered) end(stream string) (seq uint64) {
	if s.highest {
		for _, l := range s.held[stream] {
			seq = max(seq, l.Last)
		}
		return seq
	}
	for {
		l, ok := s.held[stream][seq+1]
		if !ok {
			return seq
		}
		seq = l.Last
	}
}

// ServeHTTP answers the verbs of the protocol.
func (s *scattered) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	head, err := wire.ParseHeaders(req.Header)
	if err != nil || head.Generation != 1 {
		s.reply(w, http.StatusBadRequest, &head, fmt.Sprintf("generation %d: %v", head.Generation, err))
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if head.Verb == wire.VerbSend {
		if head.Previous > s.end(head.Stream.String()) {
			s.reply(w, http.StatusPreconditionFailed, &head, "hole")
			return
		}
		if err := s.take(&head, req.Body); err != nil {
			s.reply(w, http.StatusServiceUnavailable, &head, err.Error())
			return
		}
	}
	s.reply(w, http.StatusOK, &head, "")
}

// take keeps the records that are new, one by one and in random order.
func (s *scattered) take(head *wire.Request, in io.Reader) error {
	body, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	var lines []wire.Line
	if err := wire.Lines(body, head.First, head.Last, func(l wire.Line) error {
		lines = append(lines, l)
		return nil
	}); err != nil {
		return err
	}
	stream := head.Stream.String()
	lines = slices.DeleteFunc(lines, func(l wire.Line) bool {
		_, known := s.held[stream][l.Seq]
		return known
	})
	rand.Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
	for _, l := range lines {
		if _, err := s.file.Write(fmt.Appendf(nil, "%s %s\n", stream, l.Raw)); err != nil {
			return err
		}
		s.hold(stream, l)
		time.Sleep(scatteredPause)
	}
	return nil
}

func (s *scattered) reply(w http.ResponseWriter, status int, head *wire.Request, problem string) {
	a := wire.ProgressAnswer(uplink.Progress{Generation: 1, Incarnation: head.Incarnation, Seq: s.end(head.Stream.String())})
	a.Error = problem
	b, err := json.Marshal(&a)
	if err != nil {
		panic("BUG: answer does not encode: " + err.Error())
	}
	w.WriteHeader(status)
	_, _ = w.Write(b) // the sender is gone: it will ask again
}

// Streams names all streams, sorted.
func (s *scattered) Streams() (names []string, err error) {
	for name := range s.held {
		names = append(names, name)
	}
	slices.Sort(names)
	return names, nil
}

// Records gives what is held, whatever is missing between.
func (s *scattered) Records(stream uplink.Stream, f func(uint64, wire.Line) error) error {
	held := s.held[stream.String()]
	seqs := make([]uint64, 0, len(held))
	for seq := range held {
		seqs = append(seqs, seq)
	}
	slices.Sort(seqs)
	for _, seq := range seqs {
		if err := f(1, held[seq]); err != nil {
			return err
		}
	}
	return nil
}

// Close closes the file.
func (s *scattered) Close() error { return s.file.Close() }
