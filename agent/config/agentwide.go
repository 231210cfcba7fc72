package config

import (
	"path"
	"strings"
	"time"

	"github.com/weirstream/weir/pipeline/plan"
)

// Journal bounds the agent's journal.
type Journal struct {
	Pos           plan.Pos
	MaxBytes      int64         // above it nothing is acknowledged until 20 % is free
	ReserveBytes  int64         // of the disk that stays free
	Linger        time.Duration // how long a commit waits for more messages
	SegmentBytes  int64
	UnsyncedBytes int64
	Compress      bool
}

// API is where the agent answers.
type API struct {
	Socket string // path of the unix socket
}

// Log is the agent's log.
type Log struct {
	Level  string // debug, info, warn, error
	Format string // text, json
}

// Metrics are the Prometheus metrics. They are on the API's socket always.
type Metrics struct {
	Listen plan.Text // "": only on the API
}

// Security is what the operator allows.
type Security struct {
	AllowPlaintext bool      // brokers and upstreams off loopback without TLS
	AllowPrivate   bool      // sinks to loopback and private hosts
	FileRoot       plan.Text // every file sink writes below it
}

// pathKind is an absolute path without dots.
var pathKind = textKind{what: "an absolute path", pattern: "^/", allowed: "an absolute path without . or .. such as /var/lib/weir", check: checkPath}

func checkPath(p string) string {
	switch {
	case strings.ContainsRune(p, 0):
		return "the path holds the character U+0000"
	case !path.IsAbs(p):
		return "the path is not absolute"
	case path.Clean(p) != strings.TrimSuffix(p, "/") && p != "/":
		return "the path is not in its shortest form"
	}
	return ""
}

// fileKind is the path of a file that is read when the agent starts, or the name of a credential.
var fileKind = secretFileKind{pathOnlyKind}

// pathOnlyKind is a path that is no file to be read.
var pathOnlyKind = stringKind{textKind{what: "a path of a file"}}

// wordKind is a free non-empty string.
var wordKind = textKind{what: "a text"}

var journalObject = &object[Journal]{place: func(j *Journal, at plan.Pos) { j.Pos = at }, section: section{what: "the journal", list: []*setting{
	set("max_bytes", at(func(j *Journal) *int64 { return &j.MaxBytes }).is(sizeKind{least: 1 << 20, most: 16 << 40}),
		"Largest size on disk. When it is reached the brokers get no acknowledgement and keep the messages, until 20 % is free.", byDefault("1GiB")),
	set("reserve", at(func(j *Journal) *int64 { return &j.ReserveBytes }).is(sizeKind{most: 16 << 40}),
		"Space of the file system that the journal leaves free; outboxes and dead letters leave half of it, checkpoints a quarter.", byDefault("64MiB")),
	set("linger", at(func(j *Journal) *time.Duration { return &j.Linger }).is(durationKind{most: 10 * time.Second}),
		"How long a commit waits for more messages before it syncs. Longer: fewer flash writes, later acknowledgements.", byDefault("5ms"), byBoard()),
	set("segment", at(func(j *Journal) *int64 { return &j.SegmentBytes }).is(sizeKind{least: 256 << 10, most: 1 << 30}),
		"Size of one segment file; segments are recycled.", byDefault("4MiB")),
	set("max_unsynced", at(func(j *Journal) *int64 { return &j.UnsyncedBytes }).is(sizeKind{least: 64 << 10, most: 1 << 30}),
		"Most bytes that wait for a sync; then reading from the brokers pauses.", byDefault("8MiB")),
	set("compress", at(func(j *Journal) *bool { return &j.Compress }).is(boolKind{}),
		"Compress frames where that makes them smaller (zstd; S2 under load).", byDefault("true")),
}}}

var apiObject = &object[API]{section: section{what: "the api", unknown: notYet(map[string]string{"tcp": "the api answers on its socket; metrics.listen gives the metrics on loopback"}), list: []*setting{
	set("socket", at(func(a *API) *string { return &a.Socket }).is(pathOnlyKind), "Path of the unix socket. Left out: weir.sock in state_dir."),
}}}

var logObject = &object[Log]{section: section{what: "the log", list: []*setting{
	set("level", at(func(l *Log) *string { return &l.Level }).is(choiceKind{words: []string{"debug", "info", "warn", "error"}}), "Least level that is written.", byDefault("info")),
	set("format", at(func(l *Log) *string { return &l.Format }).is(choiceKind{words: []string{"text", "json"}}), "Form of a line.", byDefault("text")),
}}}

var metricsObject = &object[Metrics]{section: section{what: "the metrics", list: []*setting{
	set("listen", at(func(m *Metrics) *plan.Text { return &m.Listen }).is(addressKind),
		"Address and port for /metrics without a token, such as 127.0.0.1:9464; loopback only. Left out: on the API's socket only."),
}}}

var securityObject = &object[Security]{section: section{what: "security", list: []*setting{
	set("allow_plaintext", at(func(s *Security) *bool { return &s.AllowPlaintext }).is(boolKind{}),
		"Accept brokers and HTTP upstreams off loopback without TLS: passwords and data travel readable.", byDefault("false")),
	set("allow_private", at(func(s *Security) *bool { return &s.AllowPrivate }).is(boolKind{}),
		"Accept sinks on loopback, link-local and private addresses, and sockets of this device. What a file names (dsn_file) is judged as it is dialled.", byDefault("false")),
	set("file_root", at(func(s *Security) *plan.Text { return &s.FileRoot }).is(pathKind),
		"Directory below which every file sink writes; never within state_dir. Left out: state_dir with -files behind it."),
}}}
