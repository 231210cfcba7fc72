package flash

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"time"

	"github.com/weirstream/weir/store/disk"
)

// Sum is what was written in some time, in bytes.
type Sum struct {
	Device uint64        `json:"device"` // all that reached the disk
	Own    uint64        `json:"own"`    // of this process, as /proc/self/io counts
	Ran    time.Duration `json:"ran_ns"` // that weir was running meanwhile
}

func (s *Sum) add(o Sum) { s.Device += o.Device; s.Own += o.Own; s.Ran += o.Ran }

// Record is what a restart must not lose (FORMAT.md).
type Record struct {
	Device  string `json:"device"`  // names of the disks
	Boot    string `json:"boot"`    // at the last look
	Counter uint64 `json:"counter"` // of the disk, then
	Day     Sum    `json:"day"`     // under way
	Days    []Sum  `json:"days"`    // finished ones, the newest last
	Total   Sum    `json:"total"`   // since this disk is measured
}

const (
	// Day is how long a day is, in running time.
	Day = 24 * time.Hour
	// daysKept are enough for a mean of a week.
	daysKept = 7
	// recordVersion is raised when fields change their meaning.
	recordVersion = 1
)

// ErrCorrupt: a record is damaged. It is set aside, and measuring begins anew: nothing but the sums is lost.
var ErrCorrupt = errors.New("the record of what was written is damaged")

// ErrVersion: a newer version wrote the record.
var ErrVersion = errors.New("the record of what was written is of a newer version")

type envelope struct {
	Version int             `json:"version"`
	CRC     uint32          `json:"crc32c"` // of the bytes of record
	Record  json.RawMessage `json:"record"`
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (r *Record) encode() ([]byte, error) {
	body, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	return json.Marshal(envelope{Version: recordVersion, CRC: crc32.Checksum(body, castagnoli), Record: body})
}

func decode(data []byte) (*Record, error) {
	var e envelope
	if err := json.Unmarshal(data, &e); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if e.Version > recordVersion {
		return nil, fmt.Errorf("%w: %d, known is %d", ErrVersion, e.Version, recordVersion)
	}
	if sum := crc32.Checksum(e.Record, castagnoli); e.Version < 1 || sum != e.CRC {
		return nil, fmt.Errorf("%w: version %d, checksum %08x, stored %08x", ErrCorrupt, e.Version, sum, e.CRC)
	}
	r := &Record{}
	if err := json.Unmarshal(e.Record, r); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if r.Day.Ran < 0 || r.Day.Ran > 2*Day || len(r.Days) > daysKept {
		return nil, fmt.Errorf("%w: a day of %s, %d days", ErrCorrupt, r.Day.Ran, len(r.Days))
	}
	return r, nil
}

// readRecord reads the record, nil when there is none. A damaged one is set aside (ErrCorrupt). With any other error it is where it was and must not be written over: it is of a newer version, or
// could not be read.
func readRecord(fsys disk.FS, file string) (*Record, error) {
	data, err := disk.ReadFile(fsys, file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w; %s", file, err, leftAlone)
	}
	r, err := decode(data)
	if errors.Is(err, ErrVersion) {
		return nil, fmt.Errorf("%s: %w; %s", file, err, leftAlone)
	}
	if err != nil {
		if aside := fsys.Rename(file, file+asideSuffix); aside != nil {
			return nil, fmt.Errorf("%s: %v, and it cannot be set aside: %w; %s", file, err, aside, leftAlone)
		}
		return nil, fmt.Errorf("%s: %w; what was measured so far is not counted, the file is kept as %s", file, err, file+asideSuffix)
	}
	return r, nil
}

// leftAlone is what follows of an error that is not ErrCorrupt.
const leftAlone = "it is left as it is, and what is measured now is not kept"

const asideSuffix = ".aside"
