package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// fake is an agent with one pipeline, p.
type fake struct {
	calls   []string
	sick    error
	upgrade *UpgradeStatus
}

func (f *fake) note(verb, name string) error {
	if name != "p" {
		return fmt.Errorf("%w: %q", ErrNotFound, name)
	}
	if verb != "" {
		f.calls = append(f.calls, verb)
	}
	return nil
}

func (f *fake) Status() Status {
	return Status{Gateway: "g", Problems: []string{"one"}, Upgrade: f.upgrade}
}
func (f *fake) Health() error            { return f.sick }
func (f *fake) Ready() error             { return f.sick }
func (f *fake) WriteMetrics(w io.Writer) { io.WriteString(w, "weir_info 1\n") }
func (f *fake) TriggerCheckpoint(_ context.Context, p string) (CheckpointInfo, error) {
	return CheckpointInfo{ID: 7}, f.note("trigger", p)
}
func (f *fake) Checkpoints(p string) ([]CheckpointInfo, error) {
	return []CheckpointInfo{{ID: 1}, {ID: 2}}, f.note("list", p)
}
func (f *fake) StopPipeline(_ context.Context, p string) error    { return f.note("stop", p) }
func (f *fake) StartPipeline(_ context.Context, p string) error   { return f.note("start", p) }
func (f *fake) RestartPipeline(_ context.Context, p string) error { return f.note("restart", p) }
func (f *fake) Requeue(_ context.Context, p string, q RequeueQuery) (RequeueAnswer, error) {
	if p != "p" {
		return RequeueAnswer{}, ErrNotFound
	}
	return RequeueAnswer{Requeued: []Requeued{{Seq: q.Seqs[0], Position: 9}}, Last: q.Seqs[0], More: q.Whole}, nil
}

func (f *fake) DeadLetters(p string, q DeadQuery, each func(DeadLetter) error) error {
	if err := f.note("dead", p); err != nil {
		return err
	}
	for seq := q.After + 1; seq <= q.After+uint64(q.Limit); seq++ {
		if err := each(DeadLetter{Seq: seq, KeptMs: q.Since + q.Until, Letter: []byte(`{"step":"x"}`)}); err != nil {
			return err
		}
	}
	return nil
}

func (f *fake) CreateSavepoint(_ context.Context, p string, o SavepointOptions) ([]SavepointInfo, error) {
	return []SavepointInfo{{Pipeline: p, File: o.Dir + "/" + o.Name}}, f.note("", p)
}

func (f *fake) StopWithSavepoint(_ context.Context, p string, o SavepointOptions) ([]SavepointInfo, error) {
	return []SavepointInfo{{Pipeline: p, File: o.Dir + "/" + o.Name, Results: 1}}, f.note("", p)
}

func (f *fake) RestoreSavepoint(_ context.Context, p string, o RestoreOptions) error {
	if o != (RestoreOptions{File: "/f", AcceptGap: true}) {
		return fmt.Errorf("got %+v", o)
	}
	return f.note("", p)
}

func (f *fake) Upgrade(_ context.Context, o UpgradeOptions) error {
	if len(o.Release) == 0 {
		return errors.New("no manifest")
	}
	f.upgrade = &UpgradeStatus{State: "accepted", To: o.File + " " + string(o.Release), Number: 3}
	return nil
}
func (f *fake) AbortUpgrade(_ context.Context, why string) error {
	f.upgrade = &UpgradeStatus{State: "failed", Why: why, Number: 3}
	return nil
}
func (f *fake) Apply(_ context.Context, o ApplyOptions, told func(ApplyEvent) error) *ApplyOutcome {
	if told(ApplyEvent{Pipeline: "p", Change: "changed"}) != nil || told(ApplyEvent{Doing: "working on " + o.File}) != nil {
		return nil
	}
	return &ApplyOutcome{Result: ApplyGoneBack, Error: string(o.Text)}
}

func TestApplyTellsAsItGoes(t *testing.T) {
	c, _ := serve(t, &fake{})
	var told []string
	out, err := c.Apply(t.Context(), ApplyOptions{File: "/f", Text: []byte("because")}, func(e ApplyEvent) error {
		told = append(told, e.Pipeline+e.Change+e.Doing)
		return nil
	})
	if err != nil || out.Result != ApplyGoneBack || out.Error != "because" || strings.Join(told, ",") != "pchanged,working on /f" {
		t.Errorf("%v %+v %v", told, out, err)
	}
}

func (f *fake) TapPipeline(_ context.Context, p string, o TapOptions, line func([]byte, bool) error) error {
	if err := f.note(fmt.Sprint("tap ", o.Steps, o.Sources, o.Count), p); err != nil {
		return err
	}
	for n := range o.Count {
		if err := line(fmt.Appendf(nil, `{"from":"x","position":%d}`, n), n%2 == 0); err != nil {
			return err
		}
	}
	return nil
}

// leaveStale leaves a socket as a killed process does.
func leaveStale(socket string) error {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		return err
	}
	l.SetUnlinkOnClose(false)
	return l.Close()
}

// serve answers on a socket until the test ends. A stale socket is in the way.
func serve(t *testing.T, f *fake) (*Client, string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "weir") // t.TempDir's names are too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s")
	if err := leaveStale(socket); err != nil {
		t.Fatal(err)
	}
	s, err := Listen(socket, f, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return Dial(socket), socket
}

func TestEveryRoute(t *testing.T) {
	f := &fake{}
	c, socket := serve(t, f)
	ctx := t.Context()
	if i, err := os.Stat(socket); err != nil || i.Mode().Perm() != socketMode {
		t.Errorf("socket: %v %v", i, err)
	}
	if s, err := c.Status(ctx); err != nil || s.Gateway != "g" || len(s.Problems) != 1 {
		t.Errorf("status: %+v %v", s, err)
	}
	if l, err := c.Checkpoints(ctx, "p"); err != nil || len(l) != 2 {
		t.Errorf("checkpoints: %v %v", l, err)
	}
	if i, err := c.TriggerCheckpoint(ctx, "p"); err != nil || i.ID != 7 {
		t.Errorf("trigger: %v %v", i, err)
	}
	for _, verb := range []string{"stop", "start", "restart"} {
		if err := c.Control(ctx, "p", verb); err != nil {
			t.Errorf("%s: %v", verb, err)
		}
		if err := c.Control(ctx, "a/b", verb); err == nil || !strings.Contains(err.Error(), `no such pipeline: "a/b"`) {
			t.Errorf("%s of another: %v", verb, err)
		}
	}
	for _, stop := range []bool{false, true} {
		l, err := c.CreateSavepoint(ctx, "p", SavepointOptions{Name: "n", Dir: "/d"}, stop)
		if err != nil || len(l) != 1 || l[0].Pipeline != "p" || l[0].File != "/d/n" || (l[0].Results == 1) != stop {
			t.Errorf("savepoint: %+v %v", l, err)
		}
		if _, err := c.CreateSavepoint(ctx, "q", SavepointOptions{}, stop); err == nil {
			t.Error("savepoint of another pipeline")
		}
	}
	if err := c.RestoreSavepoint(ctx, "p", RestoreOptions{File: "/f", AcceptGap: true}); err != nil {
		t.Errorf("restore: %v", err)
	}
	var letters []uint64
	err := c.DeadLetters(ctx, "p", DeadQuery{After: 5, Limit: 3, Since: 2, Until: 5, Reason: "a&b"}, func(l DeadLetter) error {
		if l.KeptMs != 7 {
			t.Errorf("the query did not arrive whole: %+v", l)
		}
		letters = append(letters, l.Seq)
		return nil
	})
	if err != nil || !slices.Equal(letters, []uint64{6, 7, 8}) {
		t.Errorf("dead letters: %v %v", letters, err)
	}
	if a, err := c.Requeue(ctx, "p", RequeueQuery{DeadQuery: DeadQuery{Seqs: []uint64{17}}, Whole: true}); err != nil || a.Requeued[0] != (Requeued{17, 9}) || !a.More {
		t.Errorf("requeue: %+v %v", a, err)
	}
	if _, err := c.Requeue(ctx, "q", RequeueQuery{}); err == nil || !strings.Contains(err.Error(), "no such pipeline") {
		t.Errorf("requeue of another: %v", err)
	}
	var lines []string
	tap := TapOptions{Steps: []string{"a", "b.late"}, Sources: true, Count: 3}
	if err := c.Tap(ctx, "p", tap, func(l []byte) error { lines = append(lines, string(l)); return nil }); err != nil || len(lines) != 3 || lines[2] != `{"from":"x","position":2}` {
		t.Errorf("tap: %q %v", lines, err)
	}
	if err := c.Tap(ctx, "q", tap, nil); err == nil || !strings.Contains(err.Error(), "no such pipeline") {
		t.Errorf("tap of another: %v", err)
	}
	if err := c.Tap(ctx, "p", TapOptions{}, nil); err == nil || !strings.Contains(err.Error(), "parameter step is missing") {
		t.Errorf("tap of nothing: %v", err)
	}
	if u, err := c.Upgrade(ctx, UpgradeOptions{File: "/f", Release: []byte("{}\n")}); err != nil || u.Number != 3 || u.State != "accepted" || u.To != "/f {}\n" {
		t.Errorf("upgrade: %+v %v", u, err)
	}
	if _, err := c.Upgrade(ctx, UpgradeOptions{File: "/f"}); err == nil || !strings.Contains(err.Error(), "no manifest") {
		t.Errorf("upgrade without a manifest: %v", err)
	}
	if u, err := c.AbortUpgrade(ctx, "too soon"); err != nil || u.State != "failed" || u.Why != "too soon" {
		t.Errorf("abort of an upgrade: %+v %v", u, err)
	}
	var out strings.Builder
	if err := c.Metrics(ctx, &out); err != nil || out.String() != "weir_info 1\n" {
		t.Errorf("metrics: %q %v", out.String(), err)
	}
	if got := strings.Join(f.calls, " "); got != "list trigger stop start restart dead tap [a b.late] true 3" {
		t.Errorf("the agent was asked: %s", got)
	}
}

func TestErrorsSayWhoseTheyAre(t *testing.T) {
	f := &fake{}
	c, _ := serve(t, f)
	get := func(path string) int {
		t.Helper()
		resp, err := c.http.Get("http://weir" + path)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	for path, want := range map[string]int{
		"/healthz": 200, "/readyz": 200, "/v1/pipelines/q/checkpoints": 404, "/v1/pipelines/q/deadletters": 404,
		"/v1/pipelines/p/deadletters?limit=x": 400, "/v1/pipelines/p/stop": 405, "/nothing": 404,
	} {
		if got := get(path); got != want {
			t.Errorf("GET %s: %d, want %d", path, got, want)
		}
	}
	f.sick = errors.New("stuck")
	if get("/healthz") != 503 || get("/readyz") != 503 {
		t.Error("a sick agent answers that it is well")
	}
}

func TestNobodyListens(t *testing.T) {
	if _, err := Dial(filepath.Join(t.TempDir(), "none")).Status(t.Context()); !errors.Is(err, ErrNotRunning) {
		t.Errorf("%v, want ErrNotRunning", err)
	}
}

// TestListenLeavesOthersAlone: a socket that somebody answers on, and what is no socket, stay.
func TestListenLeavesOthersAlone(t *testing.T) {
	c, socket := serve(t, &fake{})
	if _, err := Listen(socket, &fake{}, slog.New(slog.DiscardHandler)); !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), socket) {
		t.Errorf("a second one: %v", err)
	}
	if _, err := c.Status(t.Context()); err != nil {
		t.Errorf("the first one: %v", err)
	}
	file := socket + ".txt"
	if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(file, &fake{}, slog.New(slog.DiscardHandler)); !errors.Is(err, ErrInUse) {
		t.Errorf("a file: %v", err)
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != "precious" {
		t.Errorf("%q, %v", b, err)
	}
}
