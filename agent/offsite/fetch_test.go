package offsite

import (
	"context"
	"crypto/ed25519"
	"errors"
	"io/fs"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/state"
	"github.com/weirstream/weir/snapshot/savepoint"
	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/uplink/bucket/buckettest"
	"github.com/weirstream/weir/uplink/central"
)

var testID = central.UUID{1}

// uploaded is an upload with a plan and an entry in each of the tables that are named by number, and the key that it is signed with.
func uploaded(t *testing.T, plan savepoint.Head, tables ...uint64) *central.Fetcher {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	c := central.Default()
	c.Gateway, c.Bucket, c.Key = "gw", &buckettest.Memory{}, private
	up, err := central.New(c)
	if err != nil {
		t.Fatal(err)
	}
	spool, err := OpenSpool(disk.OS, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	p, err := up.Add(testID, "p", spool)
	if err != nil {
		t.Fatal(err)
	}
	text := plan.Encode()
	want, _ := p.Wanted(central.Sum(text), 1)
	cut, err := p.Begin(want, central.About{Journal: "j", Major: 1, Generation: 1, Checkpoint: 7, Position: 70, CreatedMs: 1, Plan: text, At: time.Now(),
		Sinks: []central.Sink{{UID: "out", Generation: 1, Seq: 2, Confirmed: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	err = cut.Result(0, &pipeline.Result{Seq: 2, Last: 2, Pos: 70, Kind: pipeline.ResultData, Payload: []byte("r")})
	for _, n := range tables {
		err = errors.Join(err, cut.Entry(n, []byte{byte(n)}, nil, []byte("v"), false))
	}
	if err := errors.Join(err, cut.Commit()); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { up.Run(ctx) })
	defer running.Wait()
	defer stop()
	for end := time.Now().Add(time.Minute); p.Status(time.Now()).Serial == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%+v", p.Status(time.Now()))
		}
	}
	return &central.Fetcher{Gateway: "gw", Bucket: c.Bucket, Trust: central.Trust{public}}
}

// TestFetchMakesASavepointOrNothing: plan and state have to be of one pipeline, and each entry of a table of the plan; a signature alone does not say so.
func TestFetchMakesASavepointOrNothing(t *testing.T) {
	plan := savepoint.Head{Gateway: "gw", Pipeline: "p", UUID: testID[:], PlanHash: make([]byte, 32)}
	for _, n := range []string{"a", "b"} {
		plan.Tables = append(plan.Tables, savepoint.TableOf(n, state.Spec{Name: "last", Kind: state.Value, Type: "t", Version: 1}))
	}
	otherGateway, otherPipeline := plan, plan
	otherGateway.Gateway, otherPipeline.UUID = "other", make([]byte, 16)
	for name, c := range map[string]struct {
		plan   savepoint.Head
		tables []uint64
		want   error
	}{
		"whole":                    {plan, []uint64{0, 1}, nil},
		"a table without entries":  {plan, []uint64{1}, nil},
		"no entries":               {plan, nil, nil},
		"the plan of a gateway":    {otherGateway, nil, central.ErrForeign},
		"the plan of a pipeline":   {otherPipeline, nil, central.ErrForeign},
		"a table that no plan has": {plan, []uint64{0, 2}, central.ErrDamaged},
		"only tables of no plan's": {plan, []uint64{5}, central.ErrDamaged},
	} {
		t.Run(name, func(t *testing.T) {
			f := uploaded(t, c.plan, c.tables...)
			file := filepath.Join(t.TempDir(), "p.savepoint")
			r, err := Fetch(t.Context(), f, testID, disk.OS, file)
			if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
				t.Fatal(err)
			}
			if c.want != nil {
				if _, err := disk.ReadFile(disk.OS, file); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("a file is there: %v", err)
				}
				return
			}
			if r.Summary.Entries != uint64(len(c.tables)) || r.Summary.Results != 1 || r.Head.Checkpoint != 7 || r.Head.Position != 70 || r.Head.Journal != "j" {
				t.Errorf("%+v, %+v", r.Head, r.Summary)
			}
			if names, err := filepath.Glob(file + "*"); err != nil || len(names) != 1 {
				t.Errorf("left are %v, %v", names, err)
			}
		})
	}
}
