package crash

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/weirstream/weir/tests/ends"
	"github.com/weirstream/weir/tests/rig"
)

// readPatience bounds how long it takes to read all that a far end holds.
const readPatience = rig.Patience

// far makes a directory for a server.
func far(dir, name string) (string, error) {
	dir = filepath.Join(dir, name)
	return dir, os.MkdirAll(dir, 0o755)
}

type s3End struct {
	server
	s3 *rig.S3
}

func startS3End(t *testing.T, dir string) (end, error) {
	dir, err := far(dir, "s3")
	if err != nil {
		return nil, err
	}
	s3, err := rig.StartS3(dir, "results")
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { s3.Kill() })
	e := &s3End{s3: s3}
	e.server, err = newServer(t, s3.Addr, s3.Kill, s3.Start)
	return e, err
}

func (e *s3End) target(string) string {
	return fmt.Sprintf(`objects: {endpoint: "http://%s", bucket: %s, prefix: site, credentials_file: "%s", timeout: 5s}`, e.proxy.Addr(), e.s3.Bucket, e.s3.CredentialsFile)
}

func (e *s3End) held(uid string) ([]ends.Record, error) {
	ctx, cancel := context.WithTimeout(context.Background(), readPatience)
	defer cancel()
	objects, err := e.s3.Objects(ctx, "site/")
	if err != nil {
		return nil, err
	}
	return ends.Objects(objects, uid)
}

func (e *s3End) harm(uid string) error {
	ctx, cancel := context.WithTimeout(context.Background(), readPatience)
	defer cancel()
	objects, err := e.s3.Objects(ctx, "site/")
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(objects)) {
		if ends.ObjectOf(name, uid) && len(objects[name]) > 20 {
			return e.s3.Remove(ctx, name)
		}
	}
	return errors.New("no object to harm")
}

type natsEnd struct {
	server
	nats *rig.NATS
}

const natsStream = "RESULTS"

func startNATSEnd(t *testing.T, dir string) (end, error) {
	dir, err := far(dir, "nats")
	if err != nil {
		return nil, err
	}
	n, err := rig.StartNATS(dir)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { n.Kill() })
	if err := n.MakeStream(natsStream, "weir.>", map[string]any{"allow_atomic": true}); err != nil {
		return nil, err
	}
	e := &natsEnd{nats: n}
	e.server, err = newServer(t, n.Addr, n.Kill, n.Start)
	return e, err
}

func (e *natsEnd) target(string) string {
	return fmt.Sprintf(`nats: {url: "nats://%s", stream: %s, user: %s, password_file: "%s", timeout: 5s}`, e.proxy.Addr(), natsStream, rig.NATSUser, e.nats.PasswordFile)
}

func (e *natsEnd) messages(uid string) ([]rig.NATSMessage, error) {
	return e.nats.Messages(natsStream, "weir.*.*."+uid)
}

func (e *natsEnd) held(uid string) (all []ends.Record, err error) {
	messages, err := e.messages(uid)
	for _, m := range messages {
		switch kind := m.Header.Get("Weir-Kind"); kind {
		case "open":
		case "row":
			seq, err := strconv.ParseUint(m.Header.Get("Weir-Seq"), 10, 64)
			if err != nil {
				return nil, err
			}
			all = append(all, ends.Record{Seq: seq, Data: m.Data})
		default:
			return nil, fmt.Errorf("message %d is a %s: %s", m.Seq, kind, m.Data)
		}
	}
	return all, err
}

func (e *natsEnd) harm(uid string) error {
	messages, err := e.messages(uid)
	for _, m := range messages {
		if m.Header.Get("Weir-Kind") == "row" {
			return e.nats.Request("$JS.API.STREAM.MSG.DELETE."+natsStream, map[string]any{"seq": m.Seq}, nil)
		}
	}
	return errors.Join(err, errors.New("no message to harm"))
}

type postgresEnd struct {
	server
	pg  *rig.Postgres
	dsn string
}

func startPostgresEnd(t *testing.T, dir string) (end, error) {
	pg, err := rig.StartPostgres()
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { pg.Close() })
	e := &postgresEnd{pg: pg, dsn: filepath.Join(dir, "dsn")}
	if e.server, err = newServer(t, pg.Addr, pg.Kill, pg.Start); err != nil {
		return nil, err
	}
	return e, os.WriteFile(e.dsn, []byte(pg.DSN(e.proxy.Addr())), 0o600)
}

// table is a sink's.
func table(uid string) string { return strings.ReplaceAll(uid, "-", "_") }

func (e *postgresEnd) target(uid string) string {
	columns := "{seq: $seq, id: id, k: k, ts: ts, v: v}"
	if strings.HasPrefix(uid, "win-") {
		columns = "{seq: $seq, at: window_start, k: k, n: n, sum: sum}"
	}
	return fmt.Sprintf(`postgres: {dsn_file: "%s", table: %s, create: true, timeout: 5s, columns: %s}`, e.dsn, table(uid), columns)
}

func (e *postgresEnd) held(uid string) (all []ends.Record, err error) {
	if rows, err := e.pg.Query("SELECT count(*) FROM weir_gaps WHERE stream LIKE '%/" + uid + "'"); err != nil || rows[0][0] != "0" {
		return nil, fmt.Errorf("gaps: %v: %w", rows, err)
	}
	row := "json_build_object('id', id, 'k', k, 'ts', ts, 'v', v)"
	if strings.HasPrefix(uid, "win-") {
		row = "json_build_object('window_start', at, 'k', k, 'n', n, 'sum', sum)"
	}
	rows, err := e.pg.Query("SELECT seq, " + row + " FROM " + table(uid) + " ORDER BY seq")
	if err != nil {
		return nil, err
	}
	for _, r := range rows {
		seq, err := strconv.ParseUint(r[0], 10, 64)
		if err != nil {
			return nil, err
		}
		all = append(all, ends.Record{Seq: seq, Data: []byte(r[1])})
	}
	return all, nil
}

func (e *postgresEnd) harm(uid string) error {
	_, err := e.pg.Query("DELETE FROM " + table(uid) + " WHERE seq = 1")
	return err
}
