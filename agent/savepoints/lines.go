package savepoints

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/state"
	"github.com/weirstream/weir/snapshot/savepoint"
	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/store/log"
)

// A savepoint as JSON lines, for scripts: the head, then each result, then each entry, in the order of the file. Bytes are base64.

// line is one of them; exactly one field is set.
type line struct {
	Head   *savepoint.Head `json:"head,omitempty"`
	Result *lineResult     `json:"result,omitempty"`
	Entry  *lineEntry      `json:"entry,omitempty"`
}

type lineResult struct {
	Sink    string `json:"sink"`
	Seq     uint64 `json:"seq"`
	Last    uint64 `json:"last"`
	Chain   uint64 `json:"chain"`
	Pos     uint64 `json:"position"`
	Kind    uint8  `json:"kind"`
	Time    int64  `json:"time"`
	Payload []byte `json:"payload"`
}

type lineEntry struct {
	UID   string `json:"uid"`
	Table string `json:"table"`
	Key   []byte `json:"key"`
	Sub   []byte `json:"sub,omitempty"`
	Value []byte `json:"value"`
}

// Export writes a savepoint as JSON lines.
func Export(f *savepoint.File, w io.Writer) error {
	out := bufio.NewWriter(w)
	enc := json.NewEncoder(out)
	if err := enc.Encode(line{Head: &f.Head}); err != nil {
		return fmt.Errorf("export savepoint: %w", err)
	}
	for _, s := range f.Head.Sinks {
		err := f.Results(s.UID, func(r *pipeline.Result) error {
			return enc.Encode(line{Result: &lineResult{s.UID, r.Seq, r.Last, r.Chain, uint64(r.Pos), uint8(r.Kind), r.Time, r.Payload}})
		})
		if err != nil {
			return fmt.Errorf("export savepoint: %w", err)
		}
	}
	for _, t := range f.Head.Tables {
		_, _, err := f.Entries(t.UID, t.Name, func(key, sub, val []byte) error {
			return enc.Encode(line{Entry: &lineEntry{t.UID, t.Name, key, sub, val}})
		})
		if err != nil {
			return fmt.Errorf("export savepoint: %w", err)
		}
	}
	return out.Flush()
}

// Import makes a savepoint of JSON lines in the order that Export gives. Keys of a table must rise, as bytes: a line that does not fit is named
// by its number.
func Import(ctx context.Context, fsys disk.FS, r io.Reader, path string, codec *log.Codec) (savepoint.Summary, error) {
	in := &lines{d: json.NewDecoder(bufio.NewReader(r))}
	in.d.DisallowUnknownFields()
	in.next()
	if in.err != nil || in.cur.Head == nil {
		return savepoint.Summary{}, fmt.Errorf("import savepoint: line 1 is no head: %w", in.err)
	}
	h := *in.cur.Head
	in.next()
	sum, err := savepoint.Create(ctx, fsys, path, savepoint.Content{Head: h, State: in, Results: in.results, Whole: in.rest}, codec, nil)
	if err != nil {
		return sum, fmt.Errorf("import savepoint: line %d: %w", in.n, err)
	}
	return sum, nil
}

// lines reads ahead by one.
type lines struct {
	d   *json.Decoder
	cur line
	n   int
	err error // io.EOF at the end
}

func (l *lines) next() {
	l.cur = line{}
	l.n++
	l.err = l.d.Decode(&l.cur)
}

func (l *lines) failed() error {
	if l.err != nil && l.err != io.EOF {
		return l.err
	}
	return nil
}

func (l *lines) results(s *savepoint.Sink, each func(*pipeline.Result) error) error {
	for l.err == nil && l.cur.Result != nil && l.cur.Result.Sink == s.UID {
		r := l.cur.Result
		err := each(&pipeline.Result{
			Seq: r.Seq, Last: r.Last, Chain: r.Chain, Pos: pipeline.Position(r.Pos), Kind: pipeline.ResultKind(r.Kind), Time: r.Time, Payload: r.Payload,
		})
		if err != nil {
			return err
		}
		l.next()
	}
	return l.failed()
}

// Sinks and Position are not asked for.
func (l *lines) Sinks() []pipeline.SinkMark  { return nil }
func (l *lines) Position() pipeline.Position { return 0 }

// Entries is asked for each table in the order of the head; behind the last nothing may be left.
func (l *lines) Entries(uid, name string, each func(key, sub, val []byte) error) (state.Spec, bool, error) {
	for l.err == nil && l.cur.Entry != nil && l.cur.Entry.UID == uid && l.cur.Entry.Table == name {
		e := l.cur.Entry
		if err := each(e.Key, e.Sub, e.Value); err != nil {
			return state.Spec{}, true, err
		}
		l.next()
	}
	return state.Spec{}, true, l.failed()
}

// rest names a line that belongs nowhere.
func (l *lines) rest() error {
	if l.err == io.EOF {
		return nil
	}
	if l.err != nil {
		return l.err
	}
	return fmt.Errorf("it is out of order, or of a table or sink that the head does not have")
}
