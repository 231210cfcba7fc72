package postgres

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/tests/rig"
	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/uplinktest"
)

// server is one PostgreSQL for all tests of the package; nil where the machine has none.
var server *rig.Postgres

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	var err error
	if server, err = rig.StartPostgres(); err != nil && !errors.Is(err, rig.ErrNoPostgres) {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if server == nil {
		fmt.Fprintln(os.Stderr, "WARNING: uplink/postgres is not tested against a server:", rig.ErrNoPostgres)
	} else {
		defer server.Close() //nolint:errcheck // temporary
	}
	return m.Run()
}

var schemas atomic.Int32

// far is a schema of the server.
type far struct {
	config Config
	fault  faults
	proxy  *rig.Proxy // the way to the server
}

// Line is the way to the server.
func (f *far) Line() uplinktest.Line { return f.proxy }

// newFar makes an empty schema, in which the sink makes its tables.
func newFar(t testing.TB) *far {
	t.Helper()
	if server == nil {
		t.Skip(rig.ErrNoPostgres)
	}
	schema := fmt.Sprintf("s%d", schemas.Add(1))
	sql(t, "CREATE SCHEMA "+schema)
	f := &far{config: Default()}
	f.proxy = f.line(t)
	f.config.Schema, f.config.Table, f.config.Create = schema, "rows", true
	f.config.Columns = []Column{{Name: "stream", From: FromStream}, {Name: "generation", From: FromGeneration}, {Name: "seq", From: FromSeq},
		{Name: "n", From: "n", Kind: pipeline.Int}, {Name: "text", From: "text", Kind: pipeline.String}, {Name: "row", From: FromRow}}
	sql(t, "CREATE TABLE "+schema+".rows (stream text, generation bigint, seq bigint, n bigint, text text, row json)")
	return f
}

func writeDSN(t testing.TB, dsn string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "dsn")
	if err := os.WriteFile(name, []byte(dsn+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func sql(t testing.TB, text string) [][]string {
	t.Helper()
	rows, err := server.Query(text)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

func (f *far) Connect(t testing.TB, board string) uplink.Endpoint { return f.sink(t, board) }

func (f *far) sink(t testing.TB, board string) *Sink {
	t.Helper()
	c := f.config
	c.Board = board
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	s.fault = f.fault
	return s
}

func (f *far) Restart(t testing.TB) {
	t.Helper()
	server.Kill()
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
}

func (f *far) Held(t testing.TB, s uplink.Stream) (held []uplinktest.Held) {
	t.Helper()
	for _, r := range sql(t, fmt.Sprintf(`SELECT generation, seq, seq, 'f', row::text FROM %[1]s.rows WHERE stream = '%[2]s'
UNION ALL SELECT generation, first_seq, last_seq, 't', reason FROM %[1]s.weir_gaps WHERE stream = '%[2]s' ORDER BY 1, 2, 3`, f.config.Schema, s)) {
		h := uplinktest.Held{Gap: r[3] == "t", Payload: r[4]}
		for i, n := range []*uint64{&h.Generation, &h.Seq, &h.Last} {
			var err error
			if *n, err = strconv.ParseUint(r[i], 10, 64); err != nil {
				t.Fatal(err)
			}
		}
		held = append(held, h)
	}
	return held
}

func TestConformance(t *testing.T) {
	uplinktest.Run(t, func(t testing.TB) uplinktest.Far { return newFar(t) }, uplinktest.Options{})
}

func TestDSNIsNoSecretInErrors(t *testing.T) {
	for _, text := range []string{"postgres://weir:sesame@127.0.0.1:1/db?sslmode=disable", "postgres://weir:sesame@%zz/", "password=sesame host=127.0.0.1 port=notaport",
		"postgres://weir:ses ame@127.0.0.1:x/db", "host=192.0.2.1 password=sesame", ""} {
		c := Default()
		c.DSNFile, c.Table, c.Columns = writeDSN(t, text), "t", []Column{{Name: "a", From: "a"}}
		s, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.Open(t.Context(), uplinktest.Stream(), uplink.Incarnation{Major: 1}, 1)
		if err == nil || strings.Contains(err.Error(), "sesame") || strings.Contains(err.Error(), "ses ame") {
			t.Errorf("%q: %v", text, err)
		}
		t.Log(err)
	}
}
