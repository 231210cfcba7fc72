package ends

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/tests/rig"
	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/bucket"
	"github.com/weirstream/weir/uplink/filesink"
	"github.com/weirstream/weir/uplink/httpsink"
	"github.com/weirstream/weir/uplink/nats"
	"github.com/weirstream/weir/uplink/objectsink"
	"github.com/weirstream/weir/uplink/postgres"
)

// End is a kind of far end.
type End struct {
	Name string
	// Addr is where its server listens; "": it has none.
	Addr string
	// Connect gives an endpoint for one sink, by way of addr, which may be a proxy's.
	Connect func(addr, sink string) (uplink.Endpoint, error)
	// Held gives what is there of a sink, in the order of sequences.
	Held func(sink string) ([]Record, error)
}

// kinds has a line for each kind of far end.
var kinds = []struct {
	name  string
	start func(t testing.TB) (End, error)
}{
	{"http", startHTTP},
	{"postgres", startPostgres},
	{"nats", startNATS},
	{"objects, S3", startS3},
	{"objects, directory", startDirectory},
	{"file", startFile},
	{"mqtt, QoS 1", startMQTT(1)},
	{"mqtt, QoS 2", startMQTT(2)},
	{"influx", startInflux},
}

// Start starts every far end; they end with the test. What this machine has no server for is told and left out.
func Start(t testing.TB) (all []End) {
	t.Helper()
	for _, k := range kinds {
		e, err := k.start(t)
		if errors.Is(err, rig.ErrNoPostgres) || errors.Is(err, rig.ErrNoTool) || errors.Is(err, rig.ErrNoMosquitto) {
			t.Logf("WARNING: no %s: %v", k.name, err)
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		e.Name = k.name
		all = append(all, e)
	}
	return all
}

// dialTimeout is that of all sinks.
const dialTimeout = rig.Patience

// Stream is that of a sink.
func Stream(sink string) uplink.Stream {
	return uplink.Stream{Gateway: "gw-1", Pipeline: "2f0e8a7c-5a5e-4c39-9a57-6c6f2b1d9b10", Sink: sink}
}

// Row is a window's result, as JSON; the same for the same number.
func Row(n uint64) []byte {
	return fmt.Appendf(nil, `{"device":"sensor-%03d","window_start":%d,"window_end":%d,"mean":%.3f,"n":%d,"revision":0}`,
		n%100, 1767225600000+n/100*60000, 1767225660000+n/100*60000, 4+float64(n%977)/100, n%60)
}

// columns are those of Row.
func columns() (all []postgres.Column) {
	all = append(all, postgres.Column{Name: "seq", From: postgres.FromSeq})
	for _, c := range []struct {
		name string
		kind pipeline.Kind
	}{{"device", pipeline.String}, {"window_start", pipeline.Int}, {"window_end", pipeline.Int}, {"mean", pipeline.Float}, {"n", pipeline.Int}, {"revision", pipeline.Int}} {
		all = append(all, postgres.Column{Name: c.name, From: c.name, Kind: c.kind})
	}
	return all
}

func startPostgres(t testing.TB) (e End, err error) {
	pg, err := rig.StartPostgres()
	if err != nil {
		return e, err
	}
	t.Cleanup(func() { pg.Close() })
	dir := t.TempDir()
	e.Addr = pg.Addr
	e.Connect = func(addr, sink string) (uplink.Endpoint, error) {
		c := postgres.Default()
		c.DSNFile = filepath.Join(dir, sink)
		if err := os.WriteFile(c.DSNFile, []byte(pg.DSN(addr)), 0o600); err != nil {
			return nil, err
		}
		c.Table, c.Create, c.Columns = sink, true, columns()
		return postgres.New(c)
	}
	e.Held = func(sink string) (all []Record, err error) {
		rows, err := pg.Query(`SELECT seq, row_to_json(t) FROM "` + sink + `" t ORDER BY seq`)
		for _, r := range rows {
			seq, err := strconv.ParseUint(r[0], 10, 64)
			if err != nil {
				return nil, err
			}
			all = append(all, Record{seq, []byte(r[1])})
		}
		return all, err
	}
	return e, nil
}

const natsStream = "RESULTS"

func startNATS(t testing.TB) (e End, err error) {
	n, err := rig.StartNATS(t.TempDir())
	if err != nil {
		return e, err
	}
	t.Cleanup(func() { n.Kill() })
	e.Addr = n.Addr
	e.Connect = func(addr, _ string) (uplink.Endpoint, error) {
		c := nats.Default()
		c.URL, c.Stream, c.User, c.PasswordFile, c.DialTimeout = "nats://"+addr, natsStream, rig.NATSUser, n.PasswordFile, dialTimeout
		return nats.New(c)
	}
	e.Held = func(sink string) (all []Record, err error) {
		messages, err := n.Messages(natsStream, "weir.*.*."+sink)
		for _, m := range messages {
			if m.Header.Get("Weir-Kind") != "row" {
				continue
			}
			seq, err := strconv.ParseUint(m.Header.Get("Weir-Seq"), 10, 64)
			if err != nil {
				return nil, err
			}
			all = append(all, Record{seq, m.Data})
		}
		return all, err
	}
	return e, n.MakeStream(natsStream, "weir.>", map[string]any{"allow_atomic": true})
}

func startS3(t testing.TB) (e End, err error) {
	s3, err := rig.StartS3(t.TempDir(), "results")
	if err != nil {
		return e, err
	}
	t.Cleanup(func() { s3.Kill() })
	e.Addr = s3.Addr
	e.Connect = func(addr, _ string) (uplink.Endpoint, error) {
		return objectsink.New(objectsink.Config{Compression: "zstd", S3: &bucket.S3{Endpoint: "http://" + addr, Bucket: s3.Bucket,
			CredentialsFile: s3.CredentialsFile, DialTimeout: dialTimeout}})
	}
	e.Held = func(sink string) ([]Record, error) {
		objects, err := s3.Objects(t.Context(), "")
		if err != nil {
			return nil, err
		}
		return Objects(objects, sink)
	}
	return e, nil
}

func startDirectory(t testing.TB) (e End, err error) {
	dir := t.TempDir()
	e.Connect = func(_, _ string) (uplink.Endpoint, error) {
		return objectsink.New(objectsink.Config{Compression: "zstd", Directory: dir})
	}
	e.Held = func(sink string) ([]Record, error) {
		objects, err := Tree(dir)
		if err != nil {
			return nil, err
		}
		return Objects(objects, sink)
	}
	return e, nil
}

// Tree reads every file below a directory.
func Tree(dir string) (map[string][]byte, error) {
	all := map[string][]byte{}
	return all, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		all[filepath.ToSlash(path)], err = os.ReadFile(path)
		return err
	})
}

func startFile(t testing.TB) (e End, err error) {
	dir := t.TempDir()
	name := func(sink string) string { return filepath.Join(dir, sink+".jsonl") }
	e.Connect = func(_, sink string) (uplink.Endpoint, error) { return filesink.New(filesink.Config{Path: name(sink)}) }
	e.Held = func(sink string) ([]Record, error) {
		b, err := os.ReadFile(name(sink))
		if err != nil {
			return nil, err
		}
		return Lines(b)
	}
	return e, nil
}

func startHTTP(t testing.TB) (e End, err error) {
	r, err := startReceiver(t.TempDir())
	if err != nil {
		return e, err
	}
	t.Cleanup(r.kill)
	e.Addr, e.Held = r.addr, r.held
	e.Connect = func(addr, _ string) (uplink.Endpoint, error) {
		c := httpsink.Default()
		c.URL = "http://" + addr + "/weir"
		return httpsink.New(c)
	}
	return e, nil
}
