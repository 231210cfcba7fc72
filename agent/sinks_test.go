//go:build !nos3 && !nonats

package agent

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/tests/rig"
	"github.com/weirstream/weir/uplink/wire"
)

const sinkPipeline = `
  p:
    start: earliest
    checkpoint: {interval: 50ms}
    steps:
      - {uid: all, from: s, select: [id, k]}
    sinks:
      - {uid: shelf, from: all, objects: {directory: archive, compression: none}}
      - {uid: cloud, from: all, objects: {endpoint: "http://S3ADDR", bucket: results, credentials_file: DIR/s3.credentials, compression: none}}
      - {uid: bus, from: all, commit: immediate, nats: {url: "nats://NATSADDR", stream: RESULTS}}
`

// objectIDs reads the rows of every object below a directory; a row that is there twice comes twice.
func objectIDs(t *testing.T, dir string) map[int]int {
	t.Helper()
	ids := map[int]int{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".jsonl") {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for text := range bytes.Lines(b) {
			l, err := wire.ParseLine(bytes.TrimSuffix(text, []byte{'\n'}))
			if err != nil {
				return err
			}
			var row struct{ ID int }
			if err := json.Unmarshal(l.Data, &row); err != nil {
				return err
			}
			ids[row.ID]++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

// TestSinksThatAreDownAtBoot: the agent starts, says of each sink what is wrong, delivers to the others, keeps the rest over a
// restart, and delivers it when the server is there.
func TestSinksThatAreDownAtBoot(t *testing.T) {
	s3, err := rig.FreeAddr()
	if err != nil {
		t.Fatal(err)
	}
	nowhere, err := rig.FreeAddr()
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t, sinkPipeline)
	b.text = strings.NewReplacer("S3ADDR", s3, "NATSADDR", nowhere).Replace(b.text)
	keys := "[default]\naws_access_key_id = access\naws_secret_access_key = secret-secret\n"
	if err := os.WriteFile(filepath.Join(b.dir, "s3.credentials"), []byte(keys), 0o600); err != nil {
		t.Fatal(err)
	}
	sink := func(s *api.Status, uid string) *api.SinkLedger {
		for i := range s.Pipelines[0].Sinks {
			if k := &s.Pipelines[0].Sinks[i]; k.UID == uid {
				return k
			}
		}
		return &api.SinkLedger{}
	}
	down := func(s *api.Status) bool {
		return s.Pipelines[0].State == "running" && sink(s, "shelf").Emitted >= 200 && sink(s, "shelf").Pending == 0 &&
			strings.Contains(sink(s, "cloud").Error, "refused") && strings.Contains(sink(s, "bus").Error, "no servers available")
	}
	b.start()
	b.put(1, 200)
	b.await("two sinks down, one delivers", down)
	b.halt()
	wantEachOnce(t, "the directory", objectIDs(t, filepath.Join(b.dir, "files", "archive")), 200)
	b.start()
	b.put(201, 300)
	path, err := rig.Tool("versitygw")
	if err != nil {
		b.halt()
		t.Skipf("NOT TESTED against an S3 server: %v", err)
	}
	far := filepath.Join(b.dir, "s3")
	if err := os.MkdirAll(filepath.Join(far, "results"), 0o755); err != nil {
		t.Fatal(err)
	}
	gateway, err := rig.StartChild(filepath.Join(b.dir, "s3.log"), nil, path, "--port", s3, "--access", "access", "--secret", "secret-secret", "--quiet", "posix", far)
	if err != nil {
		t.Fatal(err)
	}
	defer gateway.Kill()
	if err := rig.WaitListening(s3, nil); err != nil {
		t.Fatal(err)
	}
	s := b.await("the S3 sink catches up", func(s *api.Status) bool {
		return sink(s, "cloud").Emitted >= 300 && sink(s, "cloud").Pending == 0 && sink(s, "shelf").Pending == 0
	})
	if k := sink(&s, "cloud"); k.State != "ok" || k.Guarantee != "exactly-once" || k.Rejected+k.Dropped != 0 {
		t.Errorf("%+v", k)
	}
	b.halt()
	wantEachOnce(t, "the directory", objectIDs(t, filepath.Join(b.dir, "files", "archive")), 300)
	wantEachOnce(t, "the bucket", objectIDs(t, filepath.Join(far, "results")), 300)
}
