package savepoints

import (
	"bufio"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/state"
	"github.com/weirstream/weir/snapshot/savepoint"
	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/store/log"
)

// A savepoint as JSON lines, for scripts: the head, then each result, then each entry, in the order of the file, and the end. Bytes are base64.

// line is one of them; exactly one field is set.
type line struct {
	Head   *savepoint.Head `json:"head,omitempty"`
	Result *lineResult     `json:"result,omitempty"`
	Entry  *lineEntry      `json:"entry,omitempty"`
	End    *lineEnd        `json:"end,omitempty"`
}

// lineEnd is the last line. Without it the text was cut short: what is left would be taken for all of the state.
type lineEnd struct {
	Entries *uint64 `json:"entries,omitempty"` // how many there are; nil, as who takes lines out on purpose writes it: any
	Results *uint64 `json:"results,omitempty"`
	SHA256  string  `json:"sha256,omitempty"` // of the savepoint that was exported: one that lines were changed in is another
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
	if err := enc.Encode(line{End: &lineEnd{&f.Summary.Entries, &f.Summary.Results, hex.EncodeToString(f.Summary.SHA256[:])}}); err != nil {
		return fmt.Errorf("export savepoint: %w", err)
	}
	return out.Flush()
}

// importSuffix is of what is imported, until it is known whether it is what was exported.
const importSuffix = ".import"

// Import makes a savepoint of JSON lines in the order that Export gives. Keys of a table must rise, as bytes: a line that does not fit is named
// by its number. What differs from the savepoint that was exported has the plan hash of none, as Copy's. Durable on return; there is no file when it fails.
func Import(ctx context.Context, fsys disk.FS, r io.Reader, path string, codec *log.Codec) (sum savepoint.Summary, err error) {
	if f, err := fsys.Open(path); err == nil {
		f.Close()
		return sum, fmt.Errorf("import savepoint %s: %w", path, fs.ErrExist)
	}
	in := &lines{d: json.NewDecoder(bufio.NewReader(r))}
	in.d.DisallowUnknownFields()
	in.next()
	if in.err != nil && in.err != io.EOF {
		return sum, fmt.Errorf("import savepoint: line 1 is no head: %w", in.err)
	}
	if in.cur.Head == nil {
		return sum, errors.New("import savepoint: line 1 is no head: that is the first line of what weir state export gives")
	}
	h := *in.cur.Head
	in.next()
	tmp := path + importSuffix
	if err := removeOld(fsys, tmp); err != nil {
		return sum, fmt.Errorf("import savepoint: %w", err)
	}
	sum, err = savepoint.Create(ctx, fsys, tmp, savepoint.Content{Head: h, State: in, Results: in.resultsOf, Whole: in.rest}, codec, nil)
	if err != nil {
		return sum, fmt.Errorf("import savepoint: line %d: %w", in.n, err)
	}
	if in.end.SHA256 == hex.EncodeToString(sum.SHA256[:]) {
		err = fsys.Rename(tmp, path)
		if err == nil {
			err = fsys.SyncDir(filepath.Dir(path))
		}
	} else {
		sum, err = changed(ctx, fsys, tmp, path, codec)
		err = errors.Join(err, removeOld(fsys, tmp))
	}
	if err != nil {
		return savepoint.Summary{}, fmt.Errorf("import savepoint %s: %w", path, err)
	}
	return sum, nil
}

// changed copies a savepoint that is not the one that was exported.
func changed(ctx context.Context, fsys disk.FS, from, to string, codec *log.Codec) (sum savepoint.Summary, err error) {
	r, err := fsys.Open(from)
	if err != nil {
		return sum, err
	}
	defer r.Close()
	size, err := r.Size()
	if err != nil {
		return sum, err
	}
	f, err := savepoint.Open(ctx, r, size, codec, nil)
	if err != nil {
		return sum, err
	}
	return Copy(ctx, fsys, f, to, Edit{Content: true}, codec)
}

func removeOld(fsys disk.FS, name string) error {
	if err := fsys.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// lines reads ahead by one.
type lines struct {
	d   *json.Decoder
	cur line
	n   int
	err error // io.EOF at the end
	// entries and results count what was given on; end is the last line.
	entries, results uint64
	end              lineEnd
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

func (l *lines) resultsOf(s *savepoint.Sink, each func(*pipeline.Result) error) error {
	for l.err == nil && l.cur.Result != nil && l.cur.Result.Sink == s.UID {
		r := l.cur.Result
		err := each(&pipeline.Result{
			Seq: r.Seq, Last: r.Last, Chain: r.Chain, Pos: pipeline.Position(r.Pos), Kind: pipeline.ResultKind(r.Kind), Time: r.Time, Payload: r.Payload,
		})
		if err != nil {
			return err
		}
		l.results++
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
		l.entries++
		l.next()
	}
	return state.Spec{}, true, l.failed()
}

// rest wants the end, and names a line that belongs nowhere.
func (l *lines) rest() error {
	switch {
	case l.err == io.EOF:
		return errors.New(`the end is missing: the text was cut short, or is of a weir that wrote none; if it is whole, add the line {"end":{}}`)
	case l.err != nil:
		return l.err
	case l.cur.End == nil:
		return errors.New("it is out of order, or of a table or sink that the head does not have")
	}
	l.end = *l.cur.End
	if e := l.end.Entries; e != nil && *e != l.entries {
		return fmt.Errorf(`there are %d entries, and the end tells of %d; if lines were put in or taken out on purpose, make it {"end":{}}`, l.entries, *e)
	}
	if r := l.end.Results; r != nil && *r != l.results {
		return fmt.Errorf(`there are %d results, and the end tells of %d`, l.results, *r)
	}
	switch l.next(); {
	case l.err == nil:
		return errors.New("it comes behind the end")
	case l.err != io.EOF:
		return l.err
	}
	return nil
}
