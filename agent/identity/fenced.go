package identity

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/weirstream/weir/agent/record"
	"github.com/weirstream/weir/store/disk"
)

// Fenced says that another device has taken this one's place. File state_dir/fenced; it holds until the record has a higher major.
type Fenced struct {
	Version int    `json:"version"`
	Major   uint32 `json:"major"`
	Board   string `json:"board,omitempty"` // "" not told
	Where   string `json:"where"`           // who said it: the central store, or an upstream
	Ours    uint32 `json:"ours"`            // major of this device then
	WallMs  int64  `json:"wall_ms"`         // when it was learned, by this device's clock
}

const fencedFile = "fenced"

// Why is a sentence for people.
func (f *Fenced) Why() string {
	board := ""
	if f.Board != "" {
		board = ", board " + f.Board
	}
	return fmt.Sprintf("another device has taken this gateway's place: %s is at incarnation %d%s, this device is %d", f.Where, f.Major, board, f.Ours)
}

// LoadFenced gives the fence that holds for an agent; nil: none does. One that is there and not readable holds: a device that was stopped must not start by chance.
func LoadFenced(fsys disk.FS, stateDir string, r *Record) (*Fenced, error) {
	name := filepath.Join(stateDir, fencedFile)
	b, err := disk.ReadFile(fsys, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	f := &Fenced{}
	if err == nil {
		err = decodeFenced(b, f)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w; it says that another device has taken this gateway's place: remove it only if that is not so", name, err)
	}
	if f.Major < r.Major {
		return nil, nil
	}
	return f, nil
}

func decodeFenced(b []byte, f *Fenced) error {
	if err := decode(b, "note of a fence", f); err != nil {
		return err
	}
	if f.Version < 1 || f.Major == 0 {
		return fmt.Errorf("%w: it names no incarnation", ErrCorrupt)
	}
	return nil
}

// Save makes the fence durable. Repeating it is harmless.
func (f *Fenced) Save(fsys disk.FS, stateDir string) error {
	f.Version = recordVersion
	if err := record.Write(fsys, filepath.Join(stateDir, fencedFile), f); err != nil {
		return fmt.Errorf("note that this device is fenced: %w", err)
	}
	return nil
}

// Lift removes a fence that a higher major has ended. It is tidying: such a fence does not hold.
func Lift(fsys disk.FS, stateDir string) error {
	err := fsys.Remove(filepath.Join(stateDir, fencedFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = fsys.SyncDir(stateDir)
	}
	if err != nil {
		return fmt.Errorf("remove the note of an earlier fence: %w", err)
	}
	return nil
}
