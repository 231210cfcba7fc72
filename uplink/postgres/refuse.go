package postgres

import (
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/weirstream/weir/uplink"
)

// refusal turns a failure into what the sender acts on. By SQLSTATE: data that the table will never take (classes 22, 23, 44; a
// trigger's P0001; a row above the server's limits) is rejected, and the batch is split until the record is alone. What concerns the
// table or the rights (classes 0A, 26, 28, 3D, 3F, 42) opens again, so that the check names what is wrong. A lost connection opens
// again. The rest is temporary: locks, serialization, disk full, shutdown.
func (s *Sink) refusal(err error) error {
	if err == nil || errors.Is(err, uplink.ErrHole) || errors.Is(err, uplink.ErrFenced) {
		return err
	}
	var pg *pgconn.PgError
	lost := s.conn != nil && s.conn.IsClosed()
	if !errors.As(err, &pg) {
		if lost {
			s.drop()
			return fmt.Errorf("%w: connection to postgres lost: %w", uplink.ErrHole, err)
		}
		return err
	}
	text := describe(pg)
	switch {
	case lost:
		s.drop()
		return fmt.Errorf("%w: connection to postgres lost: %s", uplink.ErrHole, text)
	case pg.Code == "54000" || pg.Code == "54001":
		return fmt.Errorf("%w: %s", uplink.ErrTooLarge, text)
	case pg.Code == "P0001", in(pg.Code, "22", "23", "44"):
		return fmt.Errorf("%w: %s", uplink.ErrRejected, text)
	case in(pg.Code, "28", "3D"):
		return fmt.Errorf("postgres refuses the login: %s; check dsn_file and the server's pg_hba.conf", text)
	case in(pg.Code, "0A", "26", "3F", "42"):
		if s.conn != nil {
			s.drop() // the table is checked again
		}
		return fmt.Errorf("%w: postgres refuses the statement: %s", uplink.ErrHole, text)
	}
	return fmt.Errorf("postgres: %s", text)
}

func in(code string, classes ...string) bool {
	for _, c := range classes {
		if strings.HasPrefix(code, c) {
			return true
		}
	}
	return false
}

// describe is the server's message with what tells which constraint it was.
func describe(e *pgconn.PgError) string {
	b := strings.Builder{}
	fmt.Fprintf(&b, "%s (SQLSTATE %s)", e.Message, e.Code)
	if e.Detail != "" {
		b.WriteString(": " + e.Detail)
	}
	if e.ConstraintName != "" && !strings.Contains(e.Message, e.ConstraintName) {
		b.WriteString(", constraint " + e.ConstraintName)
	}
	return b.String()
}
