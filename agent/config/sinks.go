package config

import (
	"path"
	"slices"
	"strings"
	"time"

	"github.com/weirstream/weir/pipeline/plan"
)

var sinksNotBuilt = []string{"postgresql", "object", "s3", "kafka", "influxdb", "jdbc", "websocket", "stdout", "print"}

var sinksBuilt = []string{"http", "postgres", "file", "objects", "nats", "mqtt", "influx"}

var sinkNames = strings.Join(sinksBuilt, ", ")

var sinkObject = &object[plan.SinkSpec]{place: func(s *plan.SinkSpec, at plan.Pos) { s.Pos = at }, section: section{what: "a sink", unknown: func(key string) string {
	if slices.Contains(sinksNotBuilt, key) {
		return "sinks are " + sinkNames
	}
	return ""
}, list: []*setting{
	set("uid", at(func(s *plan.SinkSpec) *plan.Text { return &s.UID }).is(nameKind("the sink's name", false)),
		"The sink's name, for good: the upstream knows the stream as gateway/pipeline-uuid/uid.", required()),
	set("from", at(func(s *plan.SinkSpec) *plan.Text { return &s.From }).is(referenceKind), "Source or step whose rows it sends; STEP.late for late rows.", required()),
	set("commit", at(func(s *plan.SinkSpec) *plan.Text { return &s.Commit }).is(choiceText{choiceKind{words: []string{plan.CommitCheckpoint, plan.CommitImmediate}}}),
		"checkpoint: results leave when a checkpoint covers them. immediate: when their records are durable; only where every step before is deterministic.", byDefault(plan.CommitCheckpoint)),
	set("priority", at(func(s *plan.SinkSpec) *string { return &s.Priority }).is(choiceKind{words: []string{"high", "normal", "low"}}), "Who goes first on a link with a bandwidth; docs/sinks.md has the rule.", byDefault("normal")),
	set("link", at(func(s *plan.SinkSpec) *plan.Text { return &s.Link }).is(textKind{what: "the name of a link"}), "The link it sends over, from the section links. Left out: at once, as fast as it goes."),
	set("max_bytes", at(func(s *plan.SinkSpec) *int64 { return &s.MaxBytes }).is(sizeKind{least: 64 << 10}), "Most unsent results that are kept.", byDefault("256MiB")),
	set("ttl", at(func(s *plan.SinkSpec) *int64 { return &s.TTLNs }).is(nanoseconds{durationKind{never: "never"}}), "Unsent results older than this are dropped, counted, as a gap.", byDefault("never")),
	set("on_full", at(func(s *plan.SinkSpec) *string { return &s.OnLimit }).is(choiceKind{words: []string{"block", "drop_oldest"}}),
		"At max_bytes: block the pipeline, or drop the oldest results, counted, as a gap.", byDefault("block"), alias("on_limit")),
	set("probation", at(func(s *plan.SinkSpec) *string { return &s.Probation }).is(choiceKind{words: []string{"hold", "live"}}),
		"While a new program is on trial: hold its results back, or let them leave as ever (live), where the old program can read the new one's state: going back is then to the newest checkpoint.", byDefault("hold")),
	set("http", at(func(s *plan.SinkSpec) **plan.HTTPTarget { return &s.HTTP }).is(optional[plan.HTTPTarget]{httpObject}), "Sends batches of JSON lines to a URL."),
	set("postgres", at(func(s *plan.SinkSpec) **plan.PostgresTarget { return &s.Postgres }).is(optional[plan.PostgresTarget]{postgresObject}), "Writes rows into a table of PostgreSQL."),
	set("file", at(func(s *plan.SinkSpec) **plan.FileTarget { return &s.File }).is(optional[plan.FileTarget]{fileObject}), "Appends JSON lines to a file."),
	set("objects", at(func(s *plan.SinkSpec) **plan.ObjectsTarget { return &s.Objects }).is(optional[plan.ObjectsTarget]{objectsObject}), "Puts batches as objects into S3 or a directory."),
	set("nats", at(func(s *plan.SinkSpec) **plan.NATSTarget { return &s.NATS }).is(optional[plan.NATSTarget]{natsObject}), "Appends to a stream of NATS JetStream."),
	set("mqtt", at(func(s *plan.SinkSpec) **plan.MQTTTarget { return &s.MQTT }).is(optional[plan.MQTTTarget]{mqttSinkObject}), "Publishes to topics of an MQTT broker."),
	set("influx", at(func(s *plan.SinkSpec) **plan.InfluxTarget { return &s.Influx }).is(optional[plan.InfluxTarget]{influxObject}), "Writes points to InfluxDB, or what takes its line protocol."),
}}, flaw: func(s *plan.SinkSpec) { s.Flawed = true }, check: func(r *reader, n *node, s *plan.SinkSpec) {
	targets := 0
	for _, e := range n.entries {
		if slices.Contains(sinksBuilt, e.key.text) {
			targets++
			continue
		}
		if slices.Contains(sinksNotBuilt, e.key.text) {
			targets++
		}
	}
	if targets != 1 && !(targets == 0 && s.Flawed) {
		r.problems.Add(n.pos, "", "a sink has exactly one of "+sinkNames, "the sink has %d targets", targets)
	}
}}

var httpObject = &object[plan.HTTPTarget]{place: func(h *plan.HTTPTarget, at plan.Pos) { h.Pos = at }, section: section{what: "http", list: append([]*setting{
	set("url", at(func(h *plan.HTTPTarget) *plan.Text { return &h.URL }).is(textKind{what: "a URL such as https://ingest.example.com/weir", pattern: "^https?://"}), "Where batches are sent (POST).", required()),
	set("protocol", at(func(h *plan.HTTPTarget) *string { return &h.Protocol }).is(choiceKind{words: []string{"weir", "plain"}}),
		"weir: the upstream deduplicates by sequence (uplink/receiver): exactly once. plain: any endpoint, Idempotency-Key is sent: at least once.", byDefault("weir")),
	set("batch", at(func(h *plan.HTTPTarget) *plan.HTTPTarget { return h }).is(batchObject), "Size of a request."),
	set("timeout", at(func(h *plan.HTTPTarget) *int64 { return &h.TimeoutNs }).is(nanoseconds{durationKind{least: 100 * time.Millisecond, most: time.Hour}}), "How long a request may take.", byDefault("30s")),
	set("compression", at(func(h *plan.HTTPTarget) *string { return &h.Compression }).is(choiceKind{words: []string{"none", "gzip", "zstd"}}),
		"How requests of 1 KiB and more are compressed. The receiver takes all; zstd costs less CPU and fewer bytes.", byDefault("none")),
	set("gzip", at(func(h *plan.HTTPTarget) *bool { return &h.Gzip }).is(boolKind{}), "The same as compression: gzip.", byDefault("false")),
	set("headers", at(func(h *plan.HTTPTarget) *[]plan.ColumnSpec { return &h.Headers }).is(columnsKind{what: "header", texts: "texts", free: true}), "Headers sent with each request. Not for secrets: use token_file."),
	set("token_file", at(func(h *plan.HTTPTarget) *string { return &h.TokenFile }).is(fileKind), "File with a token, sent as Authorization: Bearer.", secretFile()),
}, certificates(func(h *plan.HTTPTarget) *plan.Certificates { return &h.Certificates })...)}, check: func(r *reader, n *node, h *plan.HTTPTarget) {
	checkCertificates(r, n, &h.Certificates)
	if h.Gzip && h.Compression == "zstd" {
		r.problems.Add(n.pos, "", "compression alone", "http has gzip and compression: zstd")
	}
	for _, c := range h.Headers {
		checkHeader(r, c)
	}
}}

var batchObject = &object[plan.HTTPTarget]{section: section{what: "batch", list: []*setting{
	set("records", at(func(h *plan.HTTPTarget) *int { return &h.BatchRecords }).is(intKind{1, 100000}), "Most results of a request.", byDefault("500")),
	set("bytes", at(func(h *plan.HTTPTarget) *int64 { return &h.BatchBytes }).is(sizeKind{least: 1 << 10, most: 64 << 20}), "Most bytes of a request, before compression.", byDefault("1MiB")),
}}}

// ownHeaders are set by weir itself.
var ownHeaders = []string{"authorization", "content-type", "content-length", "content-encoding", "host", "idempotency-key", "connection", "transfer-encoding"}

const tokenCharacters = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

func checkHeader(r *reader, c plan.ColumnSpec) {
	name := strings.ToLower(c.Name.Value)
	switch {
	case strings.Trim(name, tokenCharacters) != "":
		r.problems.Add(c.Name.Pos, "", "letters, digits and -", "header %s is no header name", quote(c.Name.Value))
	case slices.Contains(ownHeaders, name) || strings.HasPrefix(name, "weir-"):
		r.problems.Add(c.Name.Pos, "", "a token goes into token_file", "header %s is set by weir", quote(c.Name.Value))
	case strings.ContainsAny(c.Expr.Value, "\r\n\x00"):
		r.problems.Add(c.Expr.Pos, "", "one line", "header %s has a line break", quote(c.Name.Value))
	}
}

var fileObject = &object[plan.FileTarget]{place: func(f *plan.FileTarget, at plan.Pos) { f.Pos = at }, section: section{what: "file", list: []*setting{
	set("path", at(func(f *plan.FileTarget) *plan.Text { return &f.Path }).is(textKind{what: "a path below security.file_root", allowed: "a path such as late.jsonl, below security.file_root, without . or ..", check: checkFilePath}), "File below security.file_root.", required()),
	set("rotate", at(func(f *plan.FileTarget) *plan.FileTarget { return f }).is(rotateObject), "When a file is closed and another one begun. Left out: never."),
}}}

var rotateObject = &object[plan.FileTarget]{section: section{what: "rotate", list: []*setting{
	set("bytes", at(func(f *plan.FileTarget) *int64 { return &f.RotateBytes }).is(sizeKind{least: 4 << 10}), "Size at which a file is closed, as PATH.GENERATION-FIRST.", required()),
	set("keep", at(func(f *plan.FileTarget) *int { return &f.Keep }).is(intKind{0, 1000000}), "How many closed files are kept, the oldest go; 0: all.", byDefault("0")),
}}}

func checkFilePath(p string) string {
	for _, r := range p {
		if r < ' ' || r == 0x7F {
			return "the path holds a control character"
		}
	}
	if slices.Contains(strings.Split(p, "/"), "..") {
		return "the path leads out of the root"
	}
	if path.Clean(p) != p || p == "/" || p == "." {
		return "the path is not in its shortest form"
	}
	return ""
}
