// Package objectsink delivers a stream as objects in S3 or in a directory, exactly once. Each batch is an object that is put
// once under a name that was claimed before; a head object holds progress and fence. FORMAT.md has the names and why they hold.
//
// A batch is durable when Send returns: as durable as the store is, a directory is synced. After a failed or unanswered
// request the head is read again and the claim settled before anything else is sent.
package objectsink

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"

	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/bucket"
	"github.com/weirstream/weir/uplink/fence"
)

// Config of one object sink: exactly one of Directory and S3 is given.
type Config struct {
	Directory string
	S3        *bucket.S3
	// Format of the data objects: json (lines; also ""), csv.
	Format string
	// Columns of the rows, in order, for csv.
	Columns []string
	// Compression of the data objects: none, gzip, zstd.
	Compression string
	// Board is this device's serial: an equal incarnation of another board is refused (RULES 28).
	Board  string
	Logger *slog.Logger // nil: nothing is logged
}

// Validate names the first field that is out of range.
func (c *Config) Validate() error {
	if (c.Directory == "") == (c.S3 == nil) {
		return errors.New("object sink has exactly one of directory and S3")
	}
	if !validCompression(c.Compression) {
		return fmt.Errorf("object sink compression is %q, allowed is none, gzip, zstd", c.Compression)
	}
	switch c.Format {
	case "", FormatJSON:
	case FormatCSV:
		if err := validColumns(c.Columns); err != nil {
			return err
		}
	default:
		return fmt.Errorf("object sink format is %q, allowed is json, csv", c.Format)
	}
	if c.S3 != nil {
		return c.S3.Validate()
	}
	return nil
}

// Formats of the data objects.
const (
	FormatJSON = "json"
	FormatCSV  = "csv"
)

// ErrForeign says that a head object is there and is not one of weir's, or of a newer version. It is left as it is.
var ErrForeign = errors.New("head object is not one that this sink can read")

// Sink implements uplink.Endpoint for one stream. It belongs to one sender goroutine and starts none.
type Sink struct {
	config Config
	store  bucket.Bucket
	pack   *packer
	csv    *table // nil: JSON lines
	body   []byte // of the object at hand, unpacked
	writer string // random: tells this process's heads from others'
	void   []byte

	opening fence.Opening
	dir     string // of the stream, with its slash
	head    head
	version string // of the head, for the compare-and-swap

	plant planted
}

// New checks the configuration. It connects when the stream is opened.
func New(c Config) (*Sink, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Sink{config: c}
	var err error
	extension := ".jsonl"
	if c.Format == FormatCSV {
		extension, s.csv = ".csv", newTable(c.Columns, &s.plant)
	}
	if s.pack, err = newPacker(extension, c.Compression); err != nil {
		return nil, err
	}
	if s.void, err = s.pack.pack(nil); err != nil {
		return nil, err
	}
	s.void = bytes.Clone(s.void)
	var id [8]byte
	_, _ = rand.Read(id[:]) // never fails
	s.writer = hex.EncodeToString(id[:])
	if c.S3 != nil {
		s.store, err = bucket.OpenS3(c.S3)
	} else {
		s.store = bucket.OpenDirectory(c.Directory)
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Guarantee is exactly once.
func (s *Sink) Guarantee() uplink.Guarantee { return uplink.ExactlyOnce }

// Confirm gives the end of the run: everything that Send accepted is durable.
func (s *Sink) Confirm(context.Context) (uint64, error) { return s.head.Seq, nil }

// Close drops idle connections.
func (s *Sink) Close() error {
	s.opening.Close()
	return s.store.Close()
}

// Open fences lower incarnations, settles the claim that is under way, and returns the end of the unbroken run.
func (s *Sink) Open(ctx context.Context, stream uplink.Stream, inc uplink.Incarnation, generation uint64) (uplink.Progress, error) {
	s.opening.Begin(stream, inc, generation)
	s.dir = streamDir(stream)
	err := s.open(ctx, inc, generation)
	if s.opening.End(err); err != nil {
		return uplink.Progress{}, err
	}
	return s.head.Progress(), nil
}

func (s *Sink) open(ctx context.Context, inc uplink.Incarnation, generation uint64) error {
	if err := s.store.Prepare(ctx, s.dir); err != nil {
		return fmt.Errorf("open object sink: %w", err)
	}
	for range casTries {
		if err := s.take(ctx, inc, generation); !errors.Is(err, bucket.ErrChanged) { // else another one opened at the same time: look again who is higher
			return err
		}
	}
	return fmt.Errorf("open object sink: the head of %s: %w", s.dir, uplink.ErrContended)
}

// casTries bounds the tries of one Open. Behind it lies ErrContended: the sender comes again.
const casTries = 5

// take reads the head and puts this incarnation into it.
func (s *Sink) take(ctx context.Context, inc uplink.Incarnation, generation uint64) error {
	h, version, err := s.readHead(ctx)
	if err != nil {
		return err
	}
	if err := h.Admit(s.dir, inc, generation, s.config.Board); err != nil && !s.plant.noFence {
		return err
	}
	if version == "" {
		if h, err = s.rebuild(ctx); err != nil {
			return err
		}
	}
	if version == "" || !h.OpenedBy(inc, generation, s.config.Board) {
		h.Take(inc, generation, s.config.Board)
		// The fence first, with the claim as it is: from here on its writer fails.
		if err := s.swap(ctx, h, version); err != nil {
			return err
		}
		version = s.version
	}
	if err := s.settle(ctx, &h); err != nil {
		return err
	}
	s.head, s.version = h, version // the next claim writes what was settled
	return nil
}

// settle decides for good whether the claim of a head landed: a void object takes its name, or finds it taken.
func (s *Sink) settle(ctx context.Context, h *head) error {
	c := h.Claim
	if c == nil {
		return nil
	}
	h.Claim = nil
	if s.plant.trustClaim {
		h.Generation, h.Seq, h.Chain = c.Generation, c.Last, c.Chain
		return nil
	}
	if s.plant.dropClaim {
		return nil
	}
	err := s.store.Create(ctx, s.dir+c.Name, s.void)
	if err == nil {
		return nil
	}
	if !errors.Is(err, bucket.ErrExists) {
		return fmt.Errorf("settle claim %s: %w", c.Name, err)
	}
	body, _, err := s.store.Get(ctx, s.dir+c.Name)
	if err != nil {
		return fmt.Errorf("settle claim %s: %w", c.Name, err)
	}
	lines, err := unpack(c.Name, body)
	if err != nil {
		return fmt.Errorf("settle claim %s: %w", c.Name, err)
	}
	if len(lines) > 0 {
		h.Generation, h.Seq, h.Chain = c.Generation, c.Last, c.Chain
	}
	return nil
}

// swap replaces the head. When the answer says that it had changed although it holds what was written, a repeat of the
// same request found its own work.
func (s *Sink) swap(ctx context.Context, h head, version string) error {
	h.Writer = s.writer
	body, err := h.encode(s.opening.Stream)
	if err != nil {
		return err
	}
	if s.plant.deaf {
		if _, version, err = s.store.Get(ctx, s.dir+headName); err != nil && version != "" {
			return err
		}
	}
	next, err := s.store.Replace(ctx, s.dir+headName, version, body)
	if errors.Is(err, bucket.ErrChanged) {
		held, at, rerr := s.store.Get(ctx, s.dir+headName)
		if rerr != nil {
			return fmt.Errorf("read head: %w", rerr)
		}
		if !bytes.Equal(held, body) {
			return bucket.ErrChanged
		}
		next, err = at, nil
	}
	if err != nil {
		return fmt.Errorf("write head: %w", err)
	}
	s.head, s.version = h, next
	return nil
}

// Send claims the batch, puts its object and says so. What the run holds already is left out, by sequence.
func (s *Sink) Send(ctx context.Context, b *uplink.Batch) (uplink.Answer, error) {
	err := s.opening.Admit(b, func() error {
		_, err := s.Open(ctx, b.Stream, s.opening.Incarnation, s.head.Opened)
		return err
	})
	if err != nil {
		return uplink.Answer{}, err
	}
	held, err := s.head.Continues(s.dir, b)
	if errors.Is(err, uplink.ErrFenced) && s.plant.noFence {
		held, err = s.head.Seq, nil
	}
	if err != nil {
		return uplink.Answer{}, err
	}
	if b.Last <= held {
		return uplink.Answer{Durable: held}, nil
	}
	body, rejected, err := s.encode(b, held)
	if err != nil || len(rejected) > 0 {
		return uplink.Answer{Durable: held, Rejected: rejected}, err
	}
	if err := s.put(ctx, b, held, body); err != nil {
		s.opening.Doubt()
		return uplink.Answer{}, err
	}
	return uplink.Answer{Durable: b.Last}, nil
}

// put brings the results behind held into an object. After an error it is not known whether they are there.
func (s *Sink) put(ctx context.Context, b *uplink.Batch, held uint64, body []byte) error {
	h := s.head
	h.Claims++
	h.Claim = &claim{Generation: b.Generation, First: held + 1, Last: b.Last, Chain: b.Chain()}
	h.Claim.Name = objectName(h.Claim, firstTime(b, held), h.Claims, s.pack.suffix)
	if s.plant.freeNames {
		h.Claim.Name = objectName(h.Claim, firstTime(b, held), 0, s.pack.suffix)
	}
	if err := s.swap(ctx, h, s.version); errors.Is(err, bucket.ErrChanged) {
		return s.lost(ctx)
	} else if err != nil {
		return err
	}
	if err := s.land(ctx, h.Claim.Name, body); err != nil {
		return err
	}
	s.head.Generation, s.head.Seq, s.head.Chain = b.Generation, b.Last, b.Chain()
	s.head.Claim = nil // the next head says so
	return nil
}

// land puts the object of the claim. A name that is taken holds this very object (a repeat of the request by the client), or
// somebody voided the claim.
func (s *Sink) land(ctx context.Context, name string, body []byte) error {
	err := s.store.Create(ctx, s.dir+name, body)
	if !errors.Is(err, bucket.ErrExists) {
		return wrap("put object "+name, err)
	}
	there, _, err := s.store.Get(ctx, s.dir+name)
	if err != nil {
		return fmt.Errorf("read object %s back: %w", name, err)
	}
	if !bytes.Equal(there, body) {
		return s.lost(ctx)
	}
	return nil
}

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

// lost says what it means that another one changed the head or took a claimed name.
func (s *Sink) lost(ctx context.Context) error {
	h, _, err := s.readHead(ctx)
	if err != nil {
		return err
	}
	if err := h.Admit(s.dir, s.opening.Incarnation, s.head.Opened, s.config.Board); err != nil {
		return err
	}
	return fmt.Errorf("%w: the head of %s was changed by another writer", uplink.ErrHole, s.dir)
}

// planted are faults that tests must find.
type planted struct {
	noFence    bool // a lower incarnation may open
	deaf       bool // the head is replaced whatever it holds
	trustClaim bool // a claim counts as landed
	dropClaim  bool // a claim counts as not landed, and its name stays free
	highest    bool // rebuild gives the highest sequence (RULES 17)
	freeNames  bool // names without the number of the claim

	unquoted    bool // quotes in a CSV field are not doubled
	fixedHeader bool // members that the plan does not know are left out of CSV
}
