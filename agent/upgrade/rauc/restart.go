package rauc

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Restart asks for a reboot: the agent is not root. weir-reboot.path sees the request, and weir-reboot.service takes it away and reboots (weir-boot reboot). It returns nil when the request was taken; the caller waits to be killed. One
// that nobody takes is withdrawn.
func (b *Backend) Restart(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	tmp := filepath.Join(filepath.Dir(b.Reboot), "."+filepath.Base(b.Reboot)) // in memory: nothing to sync
	if err := os.WriteFile(tmp, []byte(b.BootID+"\n"), 0o640); err != nil {
		return fmt.Errorf("%w: %w", ErrNoReboot, err)
	}
	if err := os.Rename(tmp, b.Reboot); err != nil {
		return fmt.Errorf("%w: %w", ErrNoReboot, err)
	}
	most := takenMax
	if b.taken > 0 {
		most = b.taken
	}
	wait, stop := context.WithTimeout(ctx, most)
	defer stop()
	for {
		if _, err := os.Lstat(b.Reboot); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-wait.Done():
			if err := os.Remove(b.Reboot); errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			return errors.Join(fmt.Errorf("%w: nothing took %s within %s: is weir-reboot.path enabled?", ErrNoReboot, b.Reboot, most), ctx.Err())
		}
	}
}
