//go:build !nocentral

package agent

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/agent/offsite"
	"github.com/weirstream/weir/fleet/depot"
	"github.com/weirstream/weir/fleet/document"
	"github.com/weirstream/weir/fleet/signed"
	"github.com/weirstream/weir/tests/rig"
	"github.com/weirstream/weir/uplink/bucket"
)

// fleetBench is a bench that a fleet directs, over a directory.
type fleetBench struct {
	*bench
	slots  *slotDir
	store  *bucket.Directory
	serial uint64
	list   []document.Command
	keys   []ed25519.PublicKey // that this gateway has had
}

func newFleetBench(t *testing.T) *fleetBench {
	b, s := newUpgradeBench(t)
	dir := t.TempDir()
	b.text = strings.Replace(b.text, "fleet: {root:", "fleet: {channel: stable, poll: 10s, spread: 0s, root:", 1)
	b.text = strings.Replace(b.text, "pipelines:", fmt.Sprintf("central: {url: \"file://%s\", interval: 1h, fence_poll: 1h}\npipelines:", dir), 1)
	return &fleetBench{bench: b, slots: s, store: bucket.OpenDirectory(dir)}
}

// up starts the agent, as what starts it does when it has ended by itself.
func (b *fleetBench) up() {
	b.t.Helper()
	b.boot(b.slots)
	key, err := offsite.SigningKey(b.agent.config)
	if err != nil {
		b.t.Fatal(err)
	}
	b.keys = append(b.keys, key.Public().(ed25519.PublicKey))
}

// order publishes one more command for this gateway.
func (b *fleetBench) order(do string, change func(c *document.Command)) uint64 {
	b.t.Helper()
	b.serial++
	c := document.Command{Serial: b.serial, ID: fmt.Sprintf("c%d", b.serial), Do: do, CreatedMs: 1_780_000_000_000}
	if change != nil {
		change(&c)
	}
	b.list = append(b.list, c)
	b.publish(depot.DeviceCommands("test"), signed.TypeCommands, &document.Commands{Fleet: "plant", Scope: "device/test", Serial: b.serial, CreatedMs: 1_780_000_000_000, List: b.list}, "deploy")
	return b.serial
}

func (b *fleetBench) publish(name, typ string, d interface{ Encode() ([]byte, error) }, by string) {
	b.t.Helper()
	payload, err := d.Encode()
	if err != nil {
		b.t.Fatal(err)
	}
	e, err := signed.Seal(b.t.Context(), typ, payload, rig.FleetKey(by))
	if err == nil {
		err = b.store.Put(b.t.Context(), name, e.Bytes())
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// release puts a program into the depot, and gives the sha256 of its manifest.
func (b *fleetBench) release(version string, change func(*document.Release)) string {
	b.t.Helper()
	file, envelope := program(b.t, b.dir, version, change)
	e, err := signed.Parse(envelope)
	if err != nil {
		b.t.Fatal(err)
	}
	r, err := document.DecodeRelease(e.Payload)
	if err != nil {
		b.t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	for i, sha := range r.Artifacts[0].Chunks {
		at := int64(i) * r.Artifacts[0].ChunkBytes
		err = errors.Join(err, b.store.Put(b.t.Context(), depot.Chunk(sha), text[at:at+r.Artifacts[0].Length(i)]))
	}
	sum := sha256.Sum256(e.Payload)
	name := hex.EncodeToString(sum[:])
	if err = errors.Join(err, b.store.Put(b.t.Context(), depot.Release(name), envelope)); err != nil {
		b.t.Fatal(err)
	}
	return name
}

// read gives a payload that a key of this gateway has signed; nil: there is none yet.
func (b *fleetBench) read(name, typ string) []byte {
	b.t.Helper()
	body, _, err := b.store.Get(b.t.Context(), name)
	if errors.Is(err, bucket.ErrNotFound) {
		return nil
	}
	if err != nil {
		b.t.Fatal(err)
	}
	for _, key := range b.keys {
		if payload, err := signed.VerifyDevice(body, typ, key); err == nil {
			return payload
		}
	}
	b.t.Fatalf("%s is signed by no key of this gateway", name)
	return nil
}

func (b *fleetBench) result(serial uint64) *document.Result {
	b.t.Helper()
	payload := b.read(depot.Result("test", "device/test", 1, serial), signed.TypeResult)
	if payload == nil {
		return nil
	}
	r, err := document.DecodeResult(payload)
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

// ends waits for the result of a command.
func (b *fleetBench) ends(serial uint64, want string) *document.Result {
	b.t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if r := b.result(serial); r != nil {
			if r.Result != want {
				b.t.Fatalf("command %d, %s: %s, want %s: %s", serial, r.Do, r.Result, want, r.Detail)
			}
			return r
		}
	}
	b.t.Fatalf("command %d has no result: %+v", serial, b.agent.Status().Fleet)
	return nil
}

// file reads what the gateway has handed in.
func (b *fleetBench) file(name string) []byte {
	b.t.Helper()
	body, _, err := b.store.Get(context.Background(), name)
	if err != nil {
		b.t.Fatal(err)
	}
	return body
}
