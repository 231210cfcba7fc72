package takeover

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/weirstream/weir/agent/offsite"
	"github.com/weirstream/weir/agent/record"
	"github.com/weirstream/weir/store/disk"
)

// NoteFile in state_dir says that a replacement is under way. It is durable before anything is claimed or written, and goes last: until then no agent starts here, and the
// restore does it all again.
const NoteFile = "takeover.json"

// RefuseCutShort is the error of an agent that finds half a replacement.
func RefuseCutShort(stateDir string) error {
	if _, err := os.Stat(filepath.Join(stateDir, NoteFile)); err == nil {
		return fmt.Errorf("the restore that began in %s was cut short: run weir restore again", stateDir)
	}
	return nil
}

// harmless are names in a state_dir that nobody has worked in.
var harmless = []string{"lock", "weir.sock", "lost+found", NoteFile, NoteFile + ".tmp", "identity"}

// beginTakeover refuses a state_dir that is somebody's, and clears one of what a restore that was cut short has left.
func beginTakeover(dir, gateway string) error {
	name := filepath.Join(dir, NoteFile)
	_, err := os.Stat(name)
	again := err == nil
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("look into state_dir: %w", err)
	}
	for _, e := range entries {
		if slices.Contains(harmless, e.Name()) {
			continue
		}
		if !again {
			return fmt.Errorf("state_dir %s is not empty: it has %s; a device takes another's place with an empty one", dir, e.Name())
		}
		if err := clearOf(filepath.Join(dir, e.Name())); err != nil {
			return fmt.Errorf("clear state_dir of what a restore that was cut short has left: %w", err)
		}
	}
	if err := record.Write(disk.OS, name, map[string]string{"gateway": gateway}); err != nil {
		return fmt.Errorf("begin the restore: %w", err)
	}
	return nil
}

// clearOf removes what a restore that was cut short has made; pieces that were fetched stay: they are known by their sums.
func clearOf(name string) error {
	if filepath.Base(name) != "savepoints" {
		return os.RemoveAll(name)
	}
	entries, err := os.ReadDir(name)
	for _, e := range entries {
		if err == nil && !strings.HasSuffix(e.Name(), offsite.PartsSuffix) {
			err = os.RemoveAll(filepath.Join(name, e.Name()))
		}
	}
	return err
}

func endTakeover(dir string) error {
	err := disk.OS.Remove(filepath.Join(dir, NoteFile))
	if err == nil {
		err = disk.OS.SyncDir(dir)
	}
	if err != nil {
		return fmt.Errorf("end the restore: %w", err)
	}
	return nil
}
