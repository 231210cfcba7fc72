package rig

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// ErrNoPostgres says that the machine has no PostgreSQL.
var ErrNoPostgres = errors.New("postgres not found: make deps, or apt-get install postgresql")

// PostgresPassword is that of the superuser weir of a test server.
const PostgresPassword = "n0t-for-logs"

// Postgres is a PostgreSQL server of the test's own, on a free loopback port, in a directory of its own under the system's one for
// temporary files. Its data survives Kill: it runs with fsync off, since no power is cut.
type Postgres struct {
	Addr  string
	dir   string
	bin   string
	child *Child
	cred  *syscall.Credential // nil: the test's own user
}

// StartPostgres makes a data directory and starts a server on it. Close removes both.
func StartPostgres() (*Postgres, error) {
	bin, err := postgresBin()
	if err != nil {
		return nil, err
	}
	p := &Postgres{bin: bin}
	if p.cred, err = postgresUser(); err != nil {
		return nil, err
	}
	if p.dir, err = os.MkdirTemp("", "weir-postgres-"); err != nil {
		return nil, fmt.Errorf("make data directory: %w", err)
	}
	if err := p.init(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(p.dir))
	}
	if p.Addr, err = FreeAddr(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(p.dir))
	}
	if err := p.Start(); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// postgresBin is where initdb and postgres are: on the PATH, or in the place of Debian's newest version.
func postgresBin() (string, error) {
	if path, err := exec.LookPath("postgres"); err == nil {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			return filepath.Dir(real), nil
		}
	}
	found, newest := "", 0
	dirs, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	for _, d := range dirs {
		if n, err := strconv.Atoi(filepath.Base(filepath.Dir(d))); err == nil && n > newest && executable(filepath.Join(d, "initdb")) {
			found, newest = d, n
		}
	}
	if found == "" {
		return "", ErrNoPostgres
	}
	return found, nil
}

// postgresUser is whom the server runs as: it refuses root.
func postgresUser() (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		if u, err := user.Lookup(name); err == nil {
			uid, err1 := strconv.Atoi(u.Uid)
			gid, err2 := strconv.Atoi(u.Gid)
			return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, errors.Join(err1, err2)
		}
	}
	return nil, fmt.Errorf("no user postgres or nobody to run the server as: %w", ErrNoPostgres)
}

func (p *Postgres) init() error {
	pw := filepath.Join(p.dir, "password")
	if err := os.WriteFile(pw, []byte(PostgresPassword), 0o644); err != nil {
		return fmt.Errorf("write password: %w", err)
	}
	if err := p.Own(p.dir); err != nil {
		return err
	}
	cmd := exec.Command(filepath.Join(p.bin, "initdb"), "-D", filepath.Join(p.dir, "data"), "-U", "weir", "--auth-local=reject", "--auth-host=scram-sha-256",
		"--pwfile="+pw, "--no-sync", "--no-locale", "-E", "UTF8")
	cmd.Dir, cmd.SysProcAttr = p.dir, &syscall.SysProcAttr{Credential: p.cred}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	return nil
}

// Own gives the server a directory, as a tablespace needs it.
func (p *Postgres) Own(dir string) error {
	if p.cred == nil {
		return nil
	}
	if err := os.Chown(dir, int(p.cred.Uid), int(p.cred.Gid)); err != nil {
		return fmt.Errorf("give away directory: %w", err)
	}
	return nil
}

// Start starts the server again after Kill. The killed one's children may hold its memory for a moment: it is tried until it runs.
func (p *Postgres) Start() error {
	_, port, _ := net.SplitHostPort(p.Addr)
	deadline := time.Now().Add(Patience)
	for {
		child, err := startChildAs(p.cred, filepath.Join(p.dir, "log"), filepath.Join(p.bin, "postgres"), "-D", filepath.Join(p.dir, "data"), "-p", port,
			"-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-c", "fsync=off", "-c", "shared_buffers=16MB", "-c", "max_connections=40",
			"-c", "autovacuum=off")
		if err != nil {
			return err
		}
		p.child = child
		if err = p.ready(deadline); err == nil {
			return nil
		}
		child.Kill()
		if time.Now().After(deadline) {
			b, _ := os.ReadFile(filepath.Join(p.dir, "log"))
			return fmt.Errorf("start postgres: %w\n%s", err, b[max(0, len(b)-2000):])
		}
	}
}

// ready waits until the server answers a query, or has ended.
func (p *Postgres) ready(deadline time.Time) error {
	for {
		_, err := p.Query("SELECT 1")
		if err == nil {
			return nil
		}
		select {
		case <-p.child.Done():
			return fmt.Errorf("it ended: %w", err)
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return err
		}
	}
}

// Kill is kill -9 of the server; its children end when they notice.
func (p *Postgres) Kill() { p.child.Kill() }

// Close ends the server and removes its data.
func (p *Postgres) Close() error {
	if p.child != nil {
		p.child.Kill()
	}
	var err error
	for deadline := time.Now().Add(Patience); time.Now().Before(deadline); time.Sleep(pollEvery) { // the children write a little longer
		if err = os.RemoveAll(p.dir); err == nil {
			return nil
		}
	}
	return err
}

// DSN is a connection string by way of addr, which may be a proxy's.
func (p *Postgres) DSN(addr string) string {
	return fmt.Sprintf("postgres://weir:%s@%s/postgres?sslmode=disable", PostgresPassword, addr)
}

// Query runs SQL on a connection of its own and gives the last statement's rows as text, NULL as "".
func (p *Postgres) Query(sql string) (rows [][]string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	conn, err := pgconn.Connect(ctx, p.DSN(p.Addr))
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	defer conn.Close(ctx)
	results, err := conn.Exec(ctx, sql).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("query %s: %w", strings.TrimSpace(sql), err)
	}
	if len(results) == 0 {
		return nil, nil
	}
	for _, r := range results[len(results)-1].Rows {
		row := make([]string, len(r))
		for i := range r {
			row[i] = string(r[i])
		}
		rows = append(rows, row)
	}
	return rows, nil
}
