//go:build !nocentral && !nos3

package agent

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/weirstream/weir/agent/api"
)

// TestStoreThatHangs: a central store that takes every connection and answers none keeps no checkpoint and no result from leaving, and is not waited for at the end.
func TestStoreThatHangs(t *testing.T) {
	deaf, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer deaf.Close()
	b := newBench(t, pipelineNamed("p", "log"))
	keys := filepath.Join(b.dir, "keys")
	if err := os.WriteFile(keys, []byte("[default]\naws_access_key_id = a\naws_secret_access_key = b\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.text += fmt.Sprintf("central: {url: \"s3://bucket/x\", endpoint: \"http://%s\", credentials_file: \"%s\", interval: 1s}\n", deaf.Addr(), keys)
	b.start()
	for n := 1; n <= 4; n++ {
		b.put(100*n-99, 100*n-5)
		b.put(100*n-4, 100*n)
		s := b.await("a checkpoint", func(s *api.Status) bool {
			return at(uint64(100*n))(s) && s.Pipelines[0].Checkpoint.Position >= uint64(100*n)
		})
		if c := s.Pipelines[0].Central; c == nil || c.Uploads > 0 {
			t.Fatalf("%+v: nobody answers", c)
		}
	}
	b.halt()
	b.wantIDs("p", [2]int{1, 400})
}
