package upgrade

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/weirstream/weir/store/disk"
)

var (
	// ErrDamaged: neither file holds a whole record. The helper keeps what is linked; the agent runs no pipeline, for nobody knows which program made what is on flash.
	ErrDamaged = errors.New("the record of the upgrade is damaged")
	// ErrVersion: a newer program wrote it.
	ErrVersion = errors.New("the record of the upgrade is of a newer version")
)

// FORMAT.md has the fields.
const (
	fileMagic   = "WURC"
	fileVersion = 1
	fileHeader  = 24
	// fileBytesMost bounds a file, its header within: the helper reads what another user may have written.
	fileBytesMost = 64 << 10
	// fileBytesRoom is written when a file is made: a record that fits needs no more space on a full disk.
	fileBytesRoom = 16 << 10
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Store is the directory that keeps the record. One process at a time uses it; the helper's runs end before the agent's begins. Who may more than the one that the directory belongs to gives it disk.Beneath(state_dir), which follows
// no link.
type Store struct {
	FS  disk.FS
	Dir string
}

func (s Store) name(i int) string { return filepath.Join(s.Dir, fmt.Sprintf("rec.%d", i)) }

// found is what lies in the directory.
type found struct {
	record Record
	seq    uint64
	at     int // which file has it; -1: none
	bytes  []byte
}

// Read gives the record and writes nothing: what it gives may be gone after a power cut, when the process that wrote it was killed. Without files it is the zero Record.
func (s Store) Read() (Record, error) {
	f, err := s.find()
	return f.record, err
}

// Load gives the record, durable: a process that was killed may have left it in the page cache alone, so that it is written once more, in place, and synced. The same bytes: a cut in between
// harms nothing. Whoever saves has loaded before. Without files it is the zero Record.
func (s Store) Load() (Record, error) {
	f, err := s.find()
	if err != nil || f.at < 0 {
		return f.record, err
	}
	err = s.write(f.at, f.bytes)
	if err == nil {
		err = s.FS.SyncDir(s.Dir)
	}
	if err != nil {
		return f.record, fmt.Errorf("make the record of the upgrade durable: %w", err)
	}
	return f.record, nil
}

// Save replaces the record. Durable on return. When it fails, either record may be the one that counts: nothing is done that only one of them tells of.
func (s Store) Save(r *Record) error {
	f, err := s.find()
	if err == nil {
		err = s.put(f, r)
	}
	if err != nil {
		return fmt.Errorf("record the upgrade: %w", err)
	}
	return nil
}

// find reads both files. The highest whole record counts.
func (s Store) find() (f found, err error) {
	f.at = -1
	var damaged error
	blank := 0
	for i := range 2 {
		b, err := s.readFile(i)
		if err != nil {
			return found{at: -1}, err
		}
		if len(b) < fileHeader || bytes.Equal(b[:fileHeader], make([]byte, fileHeader)) {
			blank++
			continue
		}
		r, seq, err := decodeRecord(b)
		switch {
		case errors.Is(err, ErrVersion):
			return found{at: -1}, fmt.Errorf("%s: %w", s.name(i), err)
		case err != nil:
			damaged = errors.Join(damaged, fmt.Errorf("%s: %w", s.name(i), err))
		case f.at < 0 || seq > f.seq:
			f = found{record: r, seq: seq, at: i, bytes: b[:fileHeader+int(binary.LittleEndian.Uint32(b[16:]))]}
		}
	}
	// A blank file beside a damaged one: the very first write was cut short. There was no record before it.
	if f.at < 0 && blank == 0 {
		return f, fmt.Errorf("%w: %w (when both are moved away, the program that is linked runs on as if there had been no upgrade: results of the one before may be missing or there twice)", ErrDamaged, damaged)
	}
	return f, nil
}

// readFile reads what there is of a file, and no more than a record may be long.
func (s Store) readFile(i int) ([]byte, error) {
	f, err := s.FS.Open(s.name(i))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if errors.Is(err, disk.ErrNoFile) || errors.Is(err, fs.ErrPermission) { // no start to come finds it otherwise: whoever starts must not be started for ever
		return nil, fmt.Errorf("%w: %w; nobody but weir writes there: move it away, or have it belong to weir's user again", ErrDamaged, err)
	}
	if err != nil {
		return nil, fmt.Errorf("open the record of the upgrade: %w", err)
	}
	defer f.Close()
	b := make([]byte, fileBytesMost)
	n, err := f.ReadAt(b, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read %s: %w", s.name(i), err)
	}
	return b[:n], nil
}

// put writes r behind f, into the other file: that which counts is never touched.
func (s Store) put(f found, r *Record) error {
	b, err := encodeRecord(r, f.seq+1)
	if err != nil {
		return err
	}
	if err := s.FS.MkdirAll(s.Dir); err != nil {
		return fmt.Errorf("make %s: %w", s.Dir, err)
	}
	if f.at < 0 { // both are made at once, and their names durable with them
		for i := range 2 {
			if err := s.make(i); err != nil {
				return err
			}
		}
	}
	into := (f.at + 1) % 2
	if err := s.make(into); err != nil {
		return err
	}
	if err := s.write(into, b); err != nil {
		return err
	}
	return s.FS.SyncDir(s.Dir)
}

// write puts bytes at the front of a file, durably. What could not be synced is blanked: it must not count for this process, which would then write over the only one that is durable.
func (s Store) write(i int, b []byte) error {
	file, err := s.FS.Open(s.name(i))
	if errors.Is(err, fs.ErrNotExist) { // made it was: what has the name is a link that leads nowhere
		if err = s.FS.Remove(s.name(i)); err == nil {
			file, err = s.FS.Create(s.name(i))
		}
	}
	if err != nil {
		return fmt.Errorf("open %s: %w", s.name(i), err)
	}
	if _, err = file.WriteAt(b, 0); err == nil {
		err = file.Sync()
	}
	if err != nil {
		_, _ = file.WriteAt(make([]byte, fileHeader), 0) // when not even that can be written, nothing of it was
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("write %s: %w", s.name(i), err)
	}
	return nil
}

// make makes a file with room in it. One that is there stays.
func (s Store) make(i int) error {
	f, err := s.FS.Create(s.name(i))
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("create %s: %w", s.name(i), err)
	}
	if err := errors.Join(disk.Preallocate(f, fileBytesRoom), f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", s.name(i), err)
	}
	return nil
}

func encodeRecord(r *Record, seq uint64) ([]byte, error) {
	w := *r
	w.Format = recordFormat
	if err := w.Check(); err != nil {
		return nil, fmt.Errorf("BUG: the record cannot be: %w", err)
	}
	body, err := json.Marshal(&w)
	if err != nil {
		return nil, err
	}
	if fileHeader+len(body) > fileBytesMost {
		return nil, fmt.Errorf("it has %d bytes, more than %d", len(body), fileBytesMost-fileHeader)
	}
	b := make([]byte, fileHeader, fileHeader+len(body))
	copy(b, fileMagic)
	binary.LittleEndian.PutUint32(b[4:], fileVersion)
	binary.LittleEndian.PutUint64(b[8:], seq)
	binary.LittleEndian.PutUint32(b[16:], uint32(len(body)))
	b = append(b, body...)
	binary.LittleEndian.PutUint32(b[20:], sum(b))
	return b, nil
}

// sum covers all but itself.
func sum(b []byte) uint32 {
	return crc32.Update(crc32.Checksum(b[:20], castagnoli), castagnoli, b[fileHeader:])
}

// decodeRecord reads a file's bytes. What lies behind the record is of an earlier, longer one.
func decodeRecord(b []byte) (r Record, seq uint64, err error) {
	if len(b) < fileHeader || string(b[:4]) != fileMagic {
		return r, 0, errors.New("it is no record")
	}
	version, length := binary.LittleEndian.Uint32(b[4:]), binary.LittleEndian.Uint32(b[16:])
	if seq = binary.LittleEndian.Uint64(b[8:]); uint64(length) > uint64(len(b)-fileHeader) {
		return r, 0, fmt.Errorf("its length is %d, and %d bytes are there", length, len(b)-fileHeader)
	}
	b = b[:fileHeader+int(length)]
	if sum(b) != binary.LittleEndian.Uint32(b[20:]) {
		return r, 0, errors.New("its checksum is wrong")
	}
	var form struct {
		Format uint64 `json:"format"`
	}
	body := b[fileHeader:]
	if version == fileVersion {
		err = json.Unmarshal(body, &form)
	}
	if version > fileVersion || form.Format > recordFormat {
		return r, 0, fmt.Errorf("%w: %d.%d, and this program reads up to %d.%d", ErrVersion, version, form.Format, fileVersion, recordFormat)
	}
	if err == nil {
		err = json.Unmarshal(body, &r)
	}
	if err == nil {
		err = r.Check()
	}
	if err != nil {
		return Record{}, 0, err
	}
	return r, seq, nil
}
