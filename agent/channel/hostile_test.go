package channel

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirstream/weir/fleet/depot"
	"github.com/weirstream/weir/fleet/document"
	"github.com/weirstream/weir/uplink/bucket"
	"github.com/weirstream/weir/uplink/bucket/buckettest"
)

// otherVersions has another version of the same bytes at each request.
type otherVersions struct {
	*buckettest.Memory
	n    int
	puts int
}

func (o *otherVersions) GetNewer(ctx context.Context, name, _ string) ([]byte, string, error) {
	b, _, err := o.Get(ctx, name)
	o.n++
	return b, fmt.Sprint("version ", o.n), err
}

func (o *otherVersions) Put(ctx context.Context, name string, body []byte) error {
	o.puts++
	return o.Memory.Put(ctx, name, body)
}

// TestAnotherVersionOfTheSame: results are returned once more when a list comes anew, not when the store gives the same list another version. Neither is the ledger written.
func TestAnotherVersionOfTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		o := &otherVersions{Memory: w.bucket}
		w.over = o
		w.commands(2, command(1, document.DoStop), command(2, document.DoStart))
		w.start()
		time.Sleep(20 * time.Minute)
		puts, saves := o.puts, w.ch.Status().LedgerSave
		time.Sleep(5 * time.Hour)
		w.stop()
		if s := w.ch.Status(); s.Polls < 60 || o.puts != puts || s.LedgerSave != saves || w.result(2) == nil {
			t.Errorf("in %d looks %d puts, and %d writes to flash", s.Polls, o.puts-puts, s.LedgerSave-saves)
		}
	})
}

// silent begins to answer, and never ends.
type silent struct{ bucket.Bucket }

func (s silent) GetNewer(ctx context.Context, _, _ string) ([]byte, string, error) {
	<-ctx.Done()
	return nil, "", context.Cause(ctx)
}

func (s silent) Put(ctx context.Context, _ string, _ []byte) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

// TestAStoreThatNeverEnds: a look ends, is counted, and is repeated ever more rarely.
func TestAStoreThatNeverEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.over = silent{w.bucket}
		w.run(4 * time.Hour)
		if s := w.ch.Status(); s.Failures < 8 || s.Failures > 20 || s.Failures != s.Polls || !s.Contact.IsZero() {
			t.Errorf("%+v", s)
		}
	})
}

// TestAnEmptyStoreIsNoWord: one that answers and has nothing, or nothing that counts, is not the fleet's.
func TestAnEmptyStoreIsNoWord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.start()
		time.Sleep(20 * time.Minute)
		if s := w.ch.Status(); s.Contact.IsZero() || !s.Spoken.IsZero() {
			t.Errorf("empty: %+v", s)
		}
		w.put(depot.DeviceCommands(gatewayName), []byte("nothing that anybody has signed"))
		time.Sleep(20 * time.Minute)
		if s := w.ch.Status(); !s.Spoken.IsZero() {
			t.Errorf("rubbish: %+v", s)
		}
		w.commands(1, command(1, document.DoStop))
		time.Sleep(20 * time.Minute)
		if s := w.ch.Status(); s.Spoken.IsZero() || s.Spoken != s.Contact {
			t.Errorf("a document: %+v", s)
		}
		w.bucket.Change(depot.DeviceCommands(gatewayName), func([]byte) []byte { return nil })
		last := w.ch.Status().Spoken
		time.Sleep(20 * time.Minute)
		if s := w.ch.Status(); s.Spoken.After(last.Add(6*time.Minute)) || s.Contact == s.Spoken {
			t.Errorf("it was removed: %+v", s)
		}
		w.stop()
	})
}
