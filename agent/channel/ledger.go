package channel

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/weirstream/weir/agent/record"
	"github.com/weirstream/weir/fleet/document"
	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/uplink/bucket"
)

// The files of state_dir/fleet (FORMAT.md).
const (
	ledgerFile = "ledger.json"
	ledgerCopy = "ledger.copy" // written first: it is never older
	resultDir  = "results"
)

// ordersMost is how many commands of a scope are remembered with their results: as many as a document has.
const ordersMost = 64

// ledger is what must outlast a crash: which documents count, and what was done about them.
type ledger struct {
	Format  int              `json:"format"` // 1
	Scopes  map[string]floor `json:"scopes,omitempty"`
	Orders  []*order         `json:"orders,omitempty"`
	Rollout *handed          `json:"rollout,omitempty"`
	Lost    []string         `json:"lost,omitempty"` // scopes whose commands may have been carried out before: until their next list
}

// floor is the newest document of a scope.
type floor struct {
	Serial    uint64 `json:"serial"`
	Since     uint64 `json:"since"`          // of the role, under which Serial counts
	SHA256    string `json:"sha256"`         // of its payload, hex
	CreatedMs int64  `json:"created_ms"`     // of it
	Done      uint64 `json:"done,omitempty"` // the highest serial of a command that was taken up
}

// order is a command that was taken up.
type order struct {
	Scope   string            `json:"scope"`
	Since   uint64            `json:"since"`
	Serial  uint64            `json:"serial"`
	ID      string            `json:"id"`
	Do      string            `json:"do"`
	SHA256  string            `json:"sha256"`            // of the command as it was signed, hex
	Command *document.Command `json:"command,omitempty"` // until it has ended
	Handed  bool              `json:"handed,omitempty"`  // the upgrader has it
	Ended   bool              `json:"ended,omitempty"`   // its result is in results/
	Settled bool              `json:"settled,omitempty"` // and what follows a result is done
	Sent    bool              `json:"sent,omitempty"`    // and the result is in the store

	here bool     // this process has begun it
	told *Outcome // it could not be made durable
}

// handed is the roll-out that the upgrader was asked for last.
type handed struct {
	ID      string `json:"id"`
	Release string `json:"release"`
	Serial  uint64 `json:"serial"`            // of the document
	Asked   bool   `json:"asked,omitempty"`   // the upgrader has it
	Outcome string `json:"outcome,omitempty"` // it was not handed over, and why
	Why     string `json:"why,omitempty"`
	AtMs    int64  `json:"at_ms"`
	// Unread: what lay under the release's name did not count. Another one that lies there is looked at: that is the store's fault, and none of this gateway.
	Unread bool `json:"unread,omitempty"`
}

// ErrNewer: a later weir wrote the ledger.
var ErrNewer = errors.New("of a newer weir")

var ledgerForm = record.Form{What: "fleet/" + ledgerFile, Reads: 1, Newer: ErrNewer}

// loadLedger reads what earlier starts left. One that cannot be read is an error: without it what was done would be done again. damaged is what is wrong with the file in whose place its copy was taken.
func loadLedger(fsys disk.FS, dir string) (l *ledger, damaged error, err error) {
	l, err = readLedger(fsys, filepath.Join(dir, ledgerFile))
	if err != nil && !errors.Is(err, ErrNewer) {
		if c, cerr := readLedger(fsys, filepath.Join(dir, ledgerCopy)); cerr == nil && c.Format == 1 {
			l, damaged, err = c, err, nil
		}
	}
	if err != nil {
		return nil, nil, err
	}
	if l.Format = 1; l.Scopes == nil {
		l.Scopes = map[string]floor{}
	}
	return l, damaged, nil
}

// readLedger reads one of the files. Format is 0 when there is none.
func readLedger(fsys disk.FS, name string) (*ledger, error) {
	l := &ledger{}
	b, err := disk.ReadFile(fsys, name)
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if err == nil {
		l.Format = 1
		err = l.decode(b)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return l, nil
}

// decode finds what flash has changed: a serial that is another one would have the gateway deaf to its fleet, or listen to old documents.
func (l *ledger) decode(b []byte) error {
	if err := record.Decode(b, ledgerForm, l); err != nil {
		return err
	}
	for i, o := range l.Orders {
		if o == nil || !o.Ended && o.Command == nil {
			return fmt.Errorf("it is damaged: command %d of %d is not there", i+1, len(l.Orders))
		}
	}
	return nil
}

// write puts the copy and the ledger into dir, durable on return.
func (l *ledger) write(fsys disk.FS, dir string) error {
	for _, name := range []string{ledgerCopy, ledgerFile} {
		if err := record.Write(fsys, filepath.Join(dir, name), l); err != nil {
			return fmt.Errorf("write the fleet's ledger: %w", err)
		}
	}
	return nil
}

// save makes the ledger durable.
func (c *Channel) save() error {
	if err := c.fs.MkdirAll(filepath.Join(c.dir, resultDir)); err != nil {
		return fmt.Errorf("make %s: %w", c.dir, err)
	}
	if err := c.ledger.write(c.fs, c.dir); err != nil {
		return err
	}
	c.mu.Lock()
	c.count.saves++
	c.mu.Unlock()
	return nil
}

// verdict is what a serial says of a document.
type verdict uint8

const (
	fresh verdict = iota
	known
)

// judge compares a document with the newest that counts in its scope. since and least are the trust's for the role.
func (f floor) judge(since, least, serial uint64, sha string) (verdict, error) {
	switch {
	case serial < least:
		return 0, refuse(ReasonFloor, "serial %d is below %d, the least that the root lets count", serial, least)
	case f.Since < since: // all keys were replaced: what was remembered is forgotten
		return fresh, nil
	case serial < f.Serial:
		return 0, refuse(ReasonReplay, "serial %d, and %d was seen: it is an old document", serial, f.Serial)
	case serial > f.Serial:
		return fresh, nil
	case sha != f.SHA256:
		return 0, refuse(ReasonConflict, "serial %d is that of another document, which came before: somebody has signed two", serial)
	}
	return known, nil
}

// find is the order of a command, nil when there is none.
func (l *ledger) find(scope string, since, serial uint64) *order {
	for _, o := range l.Orders {
		if o.Scope == scope && o.Since == since && o.Serial == serial {
			return o
		}
	}
	return nil
}

// trim lets the oldest orders of a scope go that have ended, and gives them.
func (l *ledger) trim(scope string) (gone []*order) {
	n := 0
	for _, o := range l.Orders {
		if o.Scope == scope {
			n++
		}
	}
	l.Orders = slices.DeleteFunc(l.Orders, func(o *order) bool {
		if n <= ordersMost || o.Scope != scope || !o.Ended {
			return false
		}
		n--
		gone = append(gone, o)
		return true
	})
	return gone
}

// resultPath is where the signed result of an order lies.
func (c *Channel) resultPath(o *order) string {
	return filepath.Join(c.dir, resultDir, fmt.Sprintf("%s-%d-%d.json", bucket.Escape(o.Scope), o.Serial, o.Since))
}

// forget removes the results of orders that nobody remembers.
func (c *Channel) forget(gone []*order) {
	for _, o := range gone {
		if err := c.fs.Remove(c.resultPath(o)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			c.log.Warn("result of an old command could not be removed", "command", o.ID, "error", err)
		}
	}
}
