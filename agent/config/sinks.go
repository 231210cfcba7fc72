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

var sinkObject = &object[plan.SinkSpec]{what: "a sink", place: func(s *plan.SinkSpec, at plan.Pos) { s.Pos = at }, flaw: func(s *plan.SinkSpec) { s.Flawed = true },
	unknown: func(key string) string {
		if slices.Contains(sinksNotBuilt, key) {
			return "sinks are " + sinkNames
		}
		return ""
	},
	list: []*setting{
		set("uid", nameKind("the sink's name", false), func(s *plan.SinkSpec) *plan.Text { return &s.UID },
			"The sink's name, for good: the upstream knows the stream as gateway/pipeline-uuid/uid.", required()),
		set("from", referenceKind, func(s *plan.SinkSpec) *plan.Text { return &s.From }, "Source or step whose rows it sends; STEP.late for late rows.", required()),
		set("commit", choiceText{choiceKind{words: []string{plan.CommitCheckpoint, plan.CommitImmediate}}}, func(s *plan.SinkSpec) *plan.Text { return &s.Commit },
			"checkpoint: results leave when a checkpoint covers them. immediate: when their records are durable; only where every step before is deterministic.", byDefault(plan.CommitCheckpoint)),
		set("priority", choiceKind{words: []string{"high", "normal", "low"}}, func(s *plan.SinkSpec) *string { return &s.Priority }, "Who goes first on a link with a bandwidth; docs/sinks.md has the rule.", byDefault("normal")),
		set("link", textKind{what: "the name of a link"}, func(s *plan.SinkSpec) *plan.Text { return &s.Link }, "The link it sends over, from the section links. Left out: at once, as fast as it goes."),
		set("max_bytes", sizeKind{least: 64 << 10}, func(s *plan.SinkSpec) *int64 { return &s.MaxBytes }, "Most unsent results that are kept.", byDefault("256MiB")),
		set("ttl", nanoseconds{durationKind{never: "never"}}, func(s *plan.SinkSpec) *int64 { return &s.TTLNs }, "Unsent results older than this are dropped, counted, as a gap.", byDefault("never")),
		set("on_full", choiceKind{words: []string{"block", "drop_oldest"}}, func(s *plan.SinkSpec) *string { return &s.OnLimit },
			"At max_bytes: block the pipeline, or drop the oldest results, counted, as a gap.", byDefault("block"), alias("on_limit")),
		set("http", optional[plan.HTTPTarget]{httpObject}, func(s *plan.SinkSpec) **plan.HTTPTarget { return &s.HTTP }, "Sends batches of JSON lines to a URL."),
		set("postgres", optional[plan.PostgresTarget]{postgresObject}, func(s *plan.SinkSpec) **plan.PostgresTarget { return &s.Postgres }, "Writes rows into a table of PostgreSQL."),
		set("file", optional[plan.FileTarget]{fileObject}, func(s *plan.SinkSpec) **plan.FileTarget { return &s.File }, "Appends JSON lines to a file."),
		set("objects", optional[plan.ObjectsTarget]{objectsObject}, func(s *plan.SinkSpec) **plan.ObjectsTarget { return &s.Objects }, "Puts batches as objects into S3 or a directory."),
		set("nats", optional[plan.NATSTarget]{natsObject}, func(s *plan.SinkSpec) **plan.NATSTarget { return &s.NATS }, "Appends to a stream of NATS JetStream."),
		set("mqtt", optional[plan.MQTTTarget]{mqttSinkObject}, func(s *plan.SinkSpec) **plan.MQTTTarget { return &s.MQTT }, "Publishes to topics of an MQTT broker."),
		set("influx", optional[plan.InfluxTarget]{influxObject}, func(s *plan.SinkSpec) **plan.InfluxTarget { return &s.Influx }, "Writes points to InfluxDB, or what takes its line protocol."),
	},
	check: func(r *reader, n *node, s *plan.SinkSpec) {
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
	},
}

var httpObject = &object[plan.HTTPTarget]{what: "http", place: func(h *plan.HTTPTarget, at plan.Pos) { h.Pos = at }, list: append([]*setting{
	set("url", textKind{what: "a URL such as https://ingest.example.com/weir", pattern: "^https?://"}, func(h *plan.HTTPTarget) *plan.Text { return &h.URL }, "Where batches are sent (POST).", required()),
	set("protocol", choiceKind{words: []string{"weir", "plain"}}, func(h *plan.HTTPTarget) *string { return &h.Protocol },
		"weir: the upstream deduplicates by sequence (uplink/receiver): exactly once. plain: any endpoint, Idempotency-Key is sent: at least once.", byDefault("weir")),
	set("batch", batchObject, func(h *plan.HTTPTarget) *plan.HTTPTarget { return h }, "Size of a request."),
	set("timeout", nanoseconds{durationKind{least: 100 * time.Millisecond, most: time.Hour}}, func(h *plan.HTTPTarget) *int64 { return &h.TimeoutNs }, "How long a request may take.", byDefault("30s")),
	set("compression", choiceKind{words: []string{"none", "gzip", "zstd"}}, func(h *plan.HTTPTarget) *string { return &h.Compression },
		"How requests of 1 KiB and more are compressed. The receiver takes all; zstd costs less CPU and fewer bytes.", byDefault("none")),
	set("gzip", boolKind{}, func(h *plan.HTTPTarget) *bool { return &h.Gzip }, "The same as compression: gzip.", byDefault("false")),
	set("headers", columnsKind{what: "header", texts: "texts", free: true}, func(h *plan.HTTPTarget) *[]plan.ColumnSpec { return &h.Headers }, "Headers sent with each request. Not for secrets: use token_file."),
	set("token_file", fileKind, func(h *plan.HTTPTarget) *string { return &h.TokenFile }, "File with a token, sent as Authorization: Bearer.", secretFile()),
}, certificates(func(h *plan.HTTPTarget) *plan.Certificates { return &h.Certificates })...), check: func(r *reader, n *node, h *plan.HTTPTarget) {
	checkCertificates(r, n, &h.Certificates)
	if h.Gzip && h.Compression == "zstd" {
		r.problems.Add(n.pos, "", "compression alone", "http has gzip and compression: zstd")
	}
	for _, c := range h.Headers {
		checkHeader(r, c)
	}
}}

var batchObject = &object[plan.HTTPTarget]{what: "batch", list: []*setting{
	set("records", intKind{1, 100000}, func(h *plan.HTTPTarget) *int { return &h.BatchRecords }, "Most results of a request.", byDefault("500")),
	set("bytes", sizeKind{least: 1 << 10, most: 64 << 20}, func(h *plan.HTTPTarget) *int64 { return &h.BatchBytes }, "Most bytes of a request, before compression.", byDefault("1MiB")),
}}

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

var fileObject = &object[plan.FileTarget]{what: "file", place: func(f *plan.FileTarget, at plan.Pos) { f.Pos = at }, list: []*setting{
	set("path", textKind{what: "a path below security.file_root", allowed: "a path such as late.jsonl, below security.file_root, without . or ..", check: checkFilePath},
		func(f *plan.FileTarget) *plan.Text { return &f.Path }, "File below security.file_root.", required()),
	set("rotate", rotateObject, func(f *plan.FileTarget) *plan.FileTarget { return f }, "When a file is closed and another one begun. Left out: never."),
}}

var rotateObject = &object[plan.FileTarget]{what: "rotate", list: []*setting{
	set("bytes", sizeKind{least: 4 << 10}, func(f *plan.FileTarget) *int64 { return &f.RotateBytes }, "Size at which a file is closed, as PATH.GENERATION-FIRST.", required()),
	set("keep", intKind{0, 1000000}, func(f *plan.FileTarget) *int { return &f.Keep }, "How many closed files are kept, the oldest go; 0: all.", byDefault("0")),
}}

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
