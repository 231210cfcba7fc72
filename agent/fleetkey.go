//go:build !nocentral

package agent

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/weirstream/weir/agent/channel"
	"github.com/weirstream/weir/agent/offsite"
	"github.com/weirstream/weir/fleet/document"
	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/uplink/central"
	"github.com/weirstream/weir/uplink/durable"
)

// nextKey is beside the gateway's key: it takes its place once a result that the old one has signed tells of it.
const nextKey = "key.next"

func (s *fleetSide) keyDir() string {
	return filepath.Join(s.agent.config.StateDir.Value, "identity")
}

// rotateKey makes the next key. A repeat finds it.
func (s *fleetSide) rotateKey(o *channel.Order) channel.Outcome {
	cfg := s.agent.config
	if cfg.Central.KeyFile != "" {
		return refusedBy(errors.New("central.sign.key_file is a file of the operator's: replace it on the device, and restart"))
	}
	if err := s.agent.upgrader.busy(); err != nil {
		return refusedBy(err)
	}
	now, err := offsite.SigningKey(cfg)
	if err != nil {
		return outcomeOf(err, "")
	}
	is := central.FormatPublic(now.Public().(ed25519.PublicKey))
	if o.PublicKey != "" && o.PublicKey != is {
		return refusedBy(fmt.Errorf("the command is for the key %s, and this gateway has %s", o.PublicKey, is))
	}
	file := filepath.Join(s.keyDir(), nextKey)
	b, err := disk.ReadPlain(file, offsite.KeyBytesMost)
	if errors.Is(err, fs.ErrNotExist) {
		b, err = offsite.MakeKey(file)
	}
	if err != nil {
		return outcomeOf(fmt.Errorf("make the next key: %w", err), "")
	}
	next, err := central.ParseKey(b)
	if err != nil {
		return outcomeOf(fmt.Errorf("%s: %w", file, err), "")
	}
	return channel.Outcome{Result: document.ResultDone, Detail: fmt.Sprintf("new key %s\nold key %s, which signs this result\n", central.FormatPublic(next.Public().(ed25519.PublicKey)), is)}
}

// useNewKey puts the next key in the place of the one that is used, and has this process started again with it: what it uploads, claims and reports from then on the new one signs.
func (s *fleetSide) useNewKey() error {
	dir := s.keyDir()
	s.agent.die("fleet-key-before")
	err := os.Rename(filepath.Join(dir, nextKey), filepath.Join(dir, "key"))
	if errors.Is(err, fs.ErrNotExist) { // it was done
		return nil
	}
	if err == nil {
		err = durable.SyncDir(dir)
	}
	if err != nil {
		return fmt.Errorf("use the next key: %w", err)
	}
	s.agent.die("fleet-key-after")
	s.restart("the gateway's key is another")
	return nil
}
