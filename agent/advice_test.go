package agent

import (
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"
)

// TestAdviceOnRights: a file that may not be opened has the advice; a port has not.
func TestAdviceOnRights(t *testing.T) {
	err := fmt.Errorf("open journal: %w", &fs.PathError{Op: "open", Path: "/var/lib/weir/journal", Err: syscall.EACCES})
	if text := advise(err).Error(); !strings.Contains(text, "chown -R") {
		t.Error(text)
	}
	if err := fmt.Errorf("listen on :80: %w", os.NewSyscallError("bind", syscall.EACCES)); advise(err) != err { //nolint:errorlint // the very same
		t.Error(advise(err))
	}
}
