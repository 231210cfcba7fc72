package systemd

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// journalSocket is where systemd-journald takes records with fields (https://systemd.io/JOURNAL_NATIVE_PROTOCOL).
const journalSocket = "/run/systemd/journal/socket"

// JournalConnected tells that stderr goes to the journal: then records can go there with their fields. It compares the stream that the service manager made for the process with the one
// that stderr is (systemd.exec(5), JOURNAL_STREAM): a stderr that was redirected since is none.
func JournalConnected() bool {
	dev, inode, ok := strings.Cut(os.Getenv("JOURNAL_STREAM"), ":")
	var st unix.Stat_t
	return ok && unix.Fstat(int(os.Stderr.Fd()), &st) == nil && dev == strconv.FormatUint(uint64(st.Dev), 10) && inode == strconv.FormatUint(uint64(st.Ino), 10)
}

// Journal writes records to the systemd journal: the message, PRIORITY, and each attribute as a field of its own, its key in capitals (PIPELINE=, SINK=). MESSAGE is the text with
// the attributes, as on a terminal, so that journalctl shows all without options. A record that the journal does not take goes to the fallback.
type Journal struct {
	level    slog.Leveler
	fallback slog.Handler
	out      *journalWriter
	text     slog.Handler // writes MESSAGE into out.text
	fields   []byte       // of With
	group    string       // of WithGroup, with its _
}

// journalWriter is what all handlers of one journal share. mu guards it.
type journalWriter struct {
	mu   sync.Mutex
	conn *net.UnixConn
	text bytes.Buffer
	buf  []byte
	lost int       // records that were not taken, and of which nothing was told
	full time.Time // when one was waited for in vain
}

// ErrNoJournal: the socket of the journal cannot be reached.
var ErrNoJournal = errors.New("no systemd journal")

// NewJournal connects to a journal's socket; "": that of the system.
func NewJournal(socket string, level slog.Leveler, fallback slog.Handler) (*Journal, error) {
	if socket == "" {
		socket = journalSocket
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoJournal, err)
	}
	j := &Journal{level: level, fallback: fallback, out: &journalWriter{conn: conn}}
	j.text = slog.NewTextHandler(&j.out.text, &slog.HandlerOptions{Level: level, ReplaceAttr: bare})
	return j, nil
}

// bare leaves out what the journal has in fields of its own.
func bare(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && (a.Key == slog.TimeKey || a.Key == slog.LevelKey || a.Key == slog.MessageKey) {
		return slog.Attr{}
	}
	return a
}

// Enabled implements slog.Handler.
func (j *Journal) Enabled(_ context.Context, l slog.Level) bool { return l >= j.level.Level() }

// WithAttrs implements slog.Handler.
func (j *Journal) WithAttrs(attrs []slog.Attr) slog.Handler {
	c := *j
	c.text, c.fallback = j.text.WithAttrs(attrs), j.fallback.WithAttrs(attrs)
	c.fields = bytes.Clone(j.fields)
	for _, a := range attrs {
		c.fields = appendAttr(c.fields, j.group, a)
	}
	return &c
}

// WithGroup implements slog.Handler.
func (j *Journal) WithGroup(name string) slog.Handler {
	c := *j
	c.text, c.fallback = j.text.WithGroup(name), j.fallback.WithGroup(name)
	c.group += name + "_"
	return &c
}

// Handle implements slog.Handler. It returns when the journal has taken the record; it does not wait for the disk. A journal that is there and takes nothing, for takenWithin, loses
// records until it does: whoever has something to say is not to stand still for it. The fallback would wait as well: it is a stream to the same journal.
func (j *Journal) Handle(ctx context.Context, r slog.Record) error {
	err := j.send(ctx, &r)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil
	}
	if err != nil {
		return j.fallback.Handle(ctx, r)
	}
	return nil
}

const (
	// takenWithin is how long a record waits for room in the journal's socket.
	takenWithin = time.Second
	// askedAgain is how often a journal that takes nothing is waited for; in between records are tried and not waited for.
	askedAgain = 10 * time.Second
)

func (j *Journal) send(ctx context.Context, r *slog.Record) error {
	o := j.out
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text.Reset()
	o.text.WriteString(r.Message)
	o.text.WriteByte(' ')
	if err := j.text.Handle(ctx, *r); err != nil {
		return err
	}
	b := append(o.buf[:0], "PRIORITY="...)
	b = append(b, priority(r.Level), '\n')
	b = appendField(b, "MESSAGE", strings.TrimRight(o.text.String(), " \n"))
	b = append(b, "SYSLOG_IDENTIFIER=weir\n"...)
	b = appendField(b, "EVENT", r.Message)
	b = append(b, j.fields...)
	r.Attrs(func(a slog.Attr) bool {
		b = appendAttr(b, j.group, a)
		return true
	})
	if o.buf = b; cap(b) > journalKeep {
		o.buf = nil
	}
	return o.deliver(b)
}

// deliver writes a record, and behind those that were lost tells how many there were.
func (o *journalWriter) deliver(b []byte) error {
	wait := o.lost == 0 || time.Since(o.full) >= askedAgain
	err := o.write(b, wait)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		if o.lost++; wait {
			o.full = time.Now()
		}
	case err == nil && o.lost > 0:
		if o.write(fmt.Appendf(nil, "PRIORITY=4\nMESSAGE=%s n=%d\nSYSLOG_IDENTIFIER=weir\nEVENT=%[1]s\nN=%[2]d\n", lostText, o.lost), false) == nil {
			o.lost = 0
		}
	}
	return err
}

// lostText is what the log says once it is written again.
const lostText = "log records were lost: the systemd journal took none"

// journalKeep bytes of the buffer are kept for the next record.
const journalKeep = 16 << 10

// write sends a record as one datagram, or, when that is too large, in a sealed file in memory whose descriptor is sent.
func (o *journalWriter) write(b []byte, wait bool) error {
	err := o.send(b, nil, wait)
	if !errors.Is(err, unix.EMSGSIZE) && !errors.Is(err, unix.ENOBUFS) {
		return err
	}
	fd, err := unix.MemfdCreate("weir-log", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return fmt.Errorf("memfd for a log record: %w", err)
	}
	f := os.NewFile(uintptr(fd), "weir-log")
	defer f.Close()
	if _, err := io.Copy(f, bytes.NewReader(b)); err != nil {
		return fmt.Errorf("write a log record: %w", err)
	}
	if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_WRITE|unix.F_SEAL_SEAL); err != nil {
		return fmt.Errorf("seal a log record: %w", err)
	}
	return o.send(nil, unix.UnixRights(fd), wait)
}

// send tries once, and, when there is no room in the socket and wait is set, until takenWithin is over. os.ErrDeadlineExceeded: there was no room.
func (o *journalWriter) send(b, rights []byte, wait bool) error {
	raw, err := o.conn.SyscallConn()
	if err != nil {
		return err
	}
	var sent error
	once := func(to uintptr) bool {
		for {
			if sent = unix.Sendmsg(int(to), b, rights, nil, 0); !errors.Is(sent, unix.EINTR) {
				return !errors.Is(sent, unix.EAGAIN)
			}
		}
	}
	room := false
	err = raw.Control(func(to uintptr) { room = once(to) }) // whatever the deadline says
	switch {
	case err != nil || room:
		return errors.Join(err, sent)
	case !wait:
		return os.ErrDeadlineExceeded
	}
	if err := o.conn.SetWriteDeadline(time.Now().Add(takenWithin)); err != nil {
		return err
	}
	if err := raw.Write(once); err != nil {
		return err
	}
	return sent
}

// priority is syslog's: 3 error, 4 warning, 6 information, 7 debug.
func priority(l slog.Level) byte {
	switch {
	case l >= slog.LevelError:
		return '3'
	case l >= slog.LevelWarn:
		return '4'
	case l >= slog.LevelInfo:
		return '6'
	}
	return '7'
}

// appendAttr adds an attribute as a field; those of a group each with the group's name before theirs.
func appendAttr(b []byte, group string, a slog.Attr) []byte {
	v := a.Value.Resolve()
	if v.Kind() == slog.KindGroup {
		if a.Key != "" {
			group += a.Key + "_"
		}
		for _, in := range v.Group() {
			b = appendAttr(b, group, in)
		}
		return b
	}
	if name := fieldName(group + a.Key); name != "" {
		b = appendField(b, name, v.String())
	}
	return b
}

// appendField writes KEY=VALUE, or, where the value has a line break, its length before it.
func appendField(b []byte, name, value string) []byte {
	b = append(b, name...)
	if !strings.Contains(value, "\n") {
		b = append(append(b, '='), value...)
		return append(b, '\n')
	}
	b = binary.LittleEndian.AppendUint64(append(b, '\n'), uint64(len(value)))
	return append(append(b, value...), '\n')
}

// fieldsOfJournald are set by us or by the journal and must not come twice with another meaning.
var fieldsOfJournald = map[string]bool{"MESSAGE": true, "PRIORITY": true, "EVENT": true, "SYSLOG_IDENTIFIER": true, "SYSLOG_FACILITY": true, "SYSLOG_PID": true, "MESSAGE_ID": true, "ERRNO": true,
	"CODE_FILE": true, "CODE_LINE": true, "CODE_FUNC": true, "INVOCATION_ID": true, "UNIT": true, "DOCUMENTATION": true, "TID": true}

// fieldName makes a key what the journal takes: capitals, digits and _, not beginning with one of these, at most 64 bytes. "": nothing is left.
func fieldName(key string) string {
	name := make([]byte, 0, len(key))
	for i := 0; i < len(key) && len(name) < 56; i++ {
		c := key[i]
		switch {
		case c >= 'a' && c <= 'z':
			c -= 'a' - 'A'
		case c >= 'A' && c <= 'Z' || c >= '0' && c <= '9':
		default:
			c = '_'
		}
		if len(name) == 0 && (c == '_' || c <= '9') {
			continue
		}
		name = append(name, c)
	}
	if fieldsOfJournald[string(name)] {
		return "WEIR_" + string(name)
	}
	return string(name)
}
