//go:build !nocentral

package main

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirstream/weir/agent/offsite"
	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/snapshot/savepoint"
	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/uplink/bucket"
	"github.com/weirstream/weir/uplink/central"
)

// uploadsIn are the uploads of a gateway "gw" into a directory: of p at 10, of q at 20, and the records 11 to 30 of their journal.
func uploadsIn(t *testing.T, store string) (key string) {
	t.Helper()
	private, _, err := central.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	c := central.Default()
	c.Gateway, c.Bucket, c.Key = "gw", bucket.OpenDirectory(store), private
	up, err := central.New(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { up.Run(ctx) })
	defer running.Wait()
	defer stop()
	for i, name := range []string{"p", "q"} {
		id := central.UUID{byte(i + 1)}
		spool, err := offsite.OpenSpool(disk.OS, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		p, err := up.Add(id, name, spool)
		if err != nil {
			t.Fatal(err)
		}
		head := savepoint.Head{Gateway: "gw", Pipeline: name, UUID: id[:], PlanHash: make([]byte, 32)}
		plan := head.Encode()
		want, _ := p.Wanted(central.Sum(plan), 1)
		cut, err := p.Begin(want, central.About{Journal: "j", Major: 1, Generation: 1, Checkpoint: 1, Position: uint64(10 * (i + 1)), CreatedMs: 1, Plan: plan, At: time.Now()})
		if err == nil {
			err = cut.Commit()
		}
		for end := time.Now().Add(time.Minute); err == nil && p.Status(time.Now()).Serial == 0; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				err = fmt.Errorf("%+v", p.Status(time.Now()))
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	ship := up.Shipper("j", 1, 0)
	for first := 11; first <= 30; first += 10 {
		b := &pipeline.Block{First: pipeline.Position(first), Last: pipeline.Position(first + 9)}
		for at := b.First; at <= b.Last; at++ {
			b.Entries = append(b.Entries, pipeline.Entry{Pos: at, Kind: pipeline.EntryMessage, Topic: []byte("t"), Payload: []byte("x")})
		}
		if err := errors.Join(ship.Pack([]*pipeline.Block{b}), ship.Send(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
	return central.FormatPublic(private.Public().(ed25519.PublicKey))
}

// TestCentralKnowsShippedRecords: ls tells of them, verify reads them as a replacement would and fails when one is damaged, rm says what becomes of them.
func TestCentralKnowsShippedRecords(t *testing.T) {
	c := newCLI(t, cliConfig+"central: {url: \"file://DIR/store\"}\n")
	store := filepath.Join(c.dir, "store")
	trust := []string{"--gateway", "gw", "--key", uploadsIn(t, store)}
	call := func(code int, text string, args ...string) string {
		t.Helper()
		return c.want(code, text, append(append([]string{"central"}, args...), trust...)...)
	}
	call(0, "SHIPPED TO", "ls")
	list := call(0, `"journal":"j","shipped":30`, "ls", "-o", "json")
	if strings.Count(list, `"shipped":30`) != 2 || strings.Count(list, `"shipped_bytes"`) != 2 {
		t.Error(list)
	}
	call(0, "journal j: shipped records 11 to 30", "verify")
	call(0, "20 records, 2 pieces", "verify", "p")
	call(0, "journal j: shipped records 21 to 30", "verify", "q")

	pieces, err := filepath.Glob(filepath.Join(store, "gw", "records", "j", "*"))
	if err != nil || len(pieces) != 2 {
		t.Fatal(pieces, err)
	}
	whole, err := os.ReadFile(pieces[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(pieces[0], whole[:len(whole)-1], 0o600); err != nil {
		t.Fatal(err)
	}
	call(1, "passed over: shipped records up to 30", "verify", "p")
	call(0, "shipped records 21 to 30", "verify", "q") // needs the second alone
	if err := os.WriteFile(pieces[0], whole, 0o600); err != nil {
		t.Fatal(err)
	}

	call(0, "up to 30: those behind the uploads of q stay", "rm", "p")
	call(0, "up to 30: no upload needs them any more", "rm", "q")
	call(0, "shipped records of journal j, up to 30: no upload that can be read is of it; 2 pieces", "ls")
}
