//go:build !nocentral

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/weirstream/weir/fleet/signed"
	"github.com/weirstream/weir/store/disk"
)

// writeDocument replaces a file, durably. It holds no secret, and what carries it to others may be another user. What is no file, such as /dev/stdout, /dev/null or a pipe, is written to: root would replace the device for the whole system.
// A link stays, and what it leads to is replaced: /dev/stdout is one, to a file where a shell says so. A pipe that nobody reads is waited for, which is said, until the command is told to end.
func writeDocument(c *cobra.Command, path string, e *signed.Envelope) error {
	if path == "/dev/stdout" {
		_, err := c.OutOrStdout().Write(e.Bytes())
		return err
	}
	if to, err := filepath.EvalSymlinks(path); err == nil {
		path = to
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return writeThrough(c, path, e.Bytes())
	}
	if err := disk.WriteFileAtomic(disk.OS, path, e.Bytes()); err != nil {
		return err
	}
	return os.Chmod(path, 0o644)
}

func writeThrough(c *cobra.Command, path string, b []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|unix.O_NONBLOCK, 0)
	if errors.Is(err, unix.ENXIO) {
		fmt.Fprintf(c.ErrOrStderr(), "nobody reads %s yet: waiting for a reader\n", path)
		f, err = await(c.Context(), func() (*os.File, error) { return os.OpenFile(path, os.O_WRONLY, 0) })
	}
	if err != nil {
		return fmt.Errorf("write to %s: %w", path, err)
	}
	_, err = await(c.Context(), func() (int, error) { return f.Write(b) })
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write to %s: %w", path, err)
	}
	return nil
}

// written writes a document that others sign or publish, and tells so: on stderr, as the document may go to stdout.
func (f *fleetFlags) written(c *cobra.Command, path, what string, serial uint64, e *signed.Envelope) error {
	if err := writeDocument(c, path, e); err != nil {
		return err
	}
	told := struct {
		To     string `json:"to"`
		What   string `json:"what"`
		Serial uint64 `json:"serial,omitempty"`
	}{path, what, serial}
	return f.say(c, told, func() {
		fmt.Fprintf(c.ErrOrStderr(), "written to %s, and not published: weir keys sign adds signatures, weir fleet publish publishes it\n", path)
	})
}
