// Package receiver is the reference receiver of weir's delivery protocol (../PROTOCOL.md): an http.Handler that users mount
// at the far end. Records and progress are written in one bbolt transaction, or the user's function writes the records in that
// transaction; an answer is given when it is durable. Sequences are deduplicated, holes and older incarnations refused.
//
// It imports bbolt, as only store/boltkv does beside it: the transaction is part of its interface.
package receiver

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/wire"
)

// Config of a Receiver.
type Config struct {
	// MaxBodyBytes of a request, after decompression.
	MaxBodyBytes int64
	// MaxGroup requests share a transaction.
	MaxGroup int
	// Token that requests must carry as a bearer token; "" lets everyone in.
	Token string
	// Export answers GET ?stream=NAME with all records. Off unless asked for: it shows data.
	Export bool
	// CheckRows refuses rows that are not JSON, by name. It costs time per row.
	CheckRows bool
	// Discard does not keep records here: Apply has put them where they belong.
	Discard bool
}

// Default keeps records and takes bodies of up to 16 MiB.
func Default() Config { return Config{MaxBodyBytes: 16 << 20, MaxGroup: 64} }

// Validate names the first field that is out of range.
func (c *Config) Validate() error {
	if c.MaxBodyBytes < 1024 {
		return fmt.Errorf("receiver max_body_bytes is %d, allowed is 1024 or more", c.MaxBodyBytes)
	}
	if c.MaxGroup < 1 {
		return fmt.Errorf("receiver max_group is %d, allowed is 1 or more", c.MaxGroup)
	}
	return nil
}

// Delivery is what is new in a batch: lines in sequence, without what was held before.
type Delivery struct {
	Stream      uplink.Stream
	Generation  uint64
	Incarnation uplink.Incarnation
	Lines       []wire.Line
}

// Apply writes a delivery in the transaction that moves the progress. Records that it names as rejected are never taken:
// the whole batch is rolled back and sent again without them. An error rolls back as well and is temporary.
type Apply func(tx *bolt.Tx, d *Delivery) ([]uplink.Rejected, error)

// Options say where a Receiver keeps its data.
type Options struct {
	Path string // of the bbolt file; made when it does not exist
	Config
	Apply  Apply // nil: records are kept in the file
	Logger *slog.Logger
}

// ErrClosed comes after Close.
var ErrClosed = errors.New("receiver is closed")

// Receiver implements http.Handler. One goroutine, the committer, writes; Close ends it and waits for it.
type Receiver struct {
	config Config
	apply  Apply
	logger *slog.Logger
	db     *bolt.DB
	queue  chan *request
	quit   chan struct{}
	ended  sync.WaitGroup
	once   sync.Once
	stats  counters
}

type counters struct {
	requests, records, duplicates, gaps, fenced, holes, rejected, commits atomic.Uint64
}

// Stats counts since Open.
type Stats struct {
	Requests, Records, Duplicates, Gaps, Fenced, Holes, Rejected, Commits uint64
}

var (
	bucketProgress = []byte("progress")
	bucketRecords  = []byte("records")
)

// lockWait bounds the wait for another process that has the file open.
const lockWait = 5 * time.Second

// Open opens or makes the file and starts the committer.
func Open(o Options) (*Receiver, error) {
	if err := o.Config.Validate(); err != nil {
		return nil, err
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	db, err := bolt.Open(o.Path, 0o600, &bolt.Options{Timeout: lockWait, NoFreelistSync: true, FreelistType: bolt.FreelistMapType})
	if err != nil {
		return nil, fmt.Errorf("open receiver file %s: %w", o.Path, err)
	}
	err = db.Update(func(tx *bolt.Tx) error {
		for _, name := range [][]byte{bucketProgress, bucketRecords} {
			if _, err := tx.CreateBucketIfNotExists(name); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("prepare receiver file %s: %w", o.Path, err), db.Close())
	}
	r := &Receiver{config: o.Config, apply: o.Apply, logger: o.Logger, db: db, queue: make(chan *request, o.MaxGroup), quit: make(chan struct{})}
	r.ended.Go(r.commitLoop)
	return r, nil
}

// Close lets the running transaction end, refuses waiting requests and closes the file.
func (r *Receiver) Close() error {
	r.once.Do(func() { close(r.quit) })
	r.ended.Wait()
	return r.db.Close()
}

// Stats may be read at any time.
func (r *Receiver) Stats() Stats {
	c := &r.stats
	return Stats{Requests: c.requests.Load(), Records: c.records.Load(), Duplicates: c.duplicates.Load(), Gaps: c.gaps.Load(),
		Fenced: c.fenced.Load(), Holes: c.holes.Load(), Rejected: c.rejected.Load(), Commits: c.commits.Load()}
}

// Progress gives the run that is held of a stream; found is false when it was never opened.
func (r *Receiver) Progress(s uplink.Stream) (p uplink.Progress, found bool, err error) {
	err = r.db.View(func(tx *bolt.Tx) error {
		row, ok, err := readRow(tx, s.String())
		p, found = row.progress(), ok
		return err
	})
	return p, found, err
}

// Streams names all streams, sorted.
func (r *Receiver) Streams() (names []string, err error) {
	err = r.db.View(func(tx *bolt.Tx) error {
		return tx.Bucket(bucketProgress).ForEach(func(k, _ []byte) error {
			names = append(names, string(k))
			return nil
		})
	})
	return names, err
}

// Records calls f for each record and gap of a stream, in order of generation and sequence. Line.Data and Line.Raw are valid
// during the call only.
func (r *Receiver) Records(s uplink.Stream, f func(generation uint64, l wire.Line) error) error {
	return r.db.View(func(tx *bolt.Tx) error {
		b := tx.Bucket(bucketRecords).Bucket([]byte(s.String()))
		if b == nil {
			return nil
		}
		return b.ForEach(func(k, v []byte) error {
			generation, first, last, err := parseRecordKey(k)
			if err != nil {
				return err
			}
			return wire.Lines(v, first, last, func(l wire.Line) error { return f(generation, l) })
		})
	})
}
