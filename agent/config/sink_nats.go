package config

import (
	"net/url"
	"strings"
	"time"

	"github.com/weirstream/weir/pipeline/plan"
	"github.com/weirstream/weir/pipeline/suggest"
)

var natsObject = &object[plan.NATSTarget]{place: func(t *plan.NATSTarget, at plan.Pos) { t.Pos = at }, section: section{what: "nats", list: []*setting{
	set("url", at(func(t *plan.NATSTarget) *plan.Text { return &t.URL }).is(textKind{what: "a URL such as tls://nats.example.com:4222", pattern: "^(nats|tls)://"}), "Server.", required()),
	set("stream", at(func(t *plan.NATSTarget) *plan.Text { return &t.Stream }).is(textKind{what: "the name of a stream", pattern: `^[^. *>/\\]+$`, allowed: `no blanks and none of . * > / \`, check: checkStreamName}), "JetStream stream with retention limits that takes the subject. It is not made.", required()),
	set("subject", at(func(t *plan.NATSTarget) *plan.Text { return &t.Subject }).is(textKind{what: "a subject such as site.results", pattern: `^[A-Za-z0-9_.-]+$`, allowed: "words of letters, digits, _ and -, with dots between", check: checkSubject}), "Put before gateway.pipeline-uuid.uid.", byDefault("weir")),
	set("credentials_file", at(func(t *plan.NATSTarget) *string { return &t.CredentialsFile }).is(fileKind), "A .creds file. At most one of this, token_file and password_file.", secretFile()),
	set("token_file", at(func(t *plan.NATSTarget) *string { return &t.TokenFile }).is(fileKind), "File with a token.", secretFile()),
	set("user", at(func(t *plan.NATSTarget) *string { return &t.User }).is(stringKind{wordKind}), "User name, with password_file."),
	set("password_file", at(func(t *plan.NATSTarget) *string { return &t.PasswordFile }).is(fileKind), "File with the user's password.", secretFile()),
	set("ca", at(func(t *plan.NATSTarget) *string { return &t.CAFile }).is(fileKind), "CA certificates (PEM). Left out: the system's."),
	set("batch", at(func(t *plan.NATSTarget) *plan.NATSTarget { return t }).is(natsBatch), "Size of a batch. Up to 1000 messages of it are atomic where the stream has allow_atomic."),
	set("timeout", at(func(t *plan.NATSTarget) *int64 { return &t.TimeoutNs }).is(nanoseconds{durationKind{least: 100 * time.Millisecond, most: time.Hour}}), "How long a batch may take.", byDefault("30s")),
}}, check: func(r *reader, n *node, t *plan.NATSTarget) {
	ways := 0
	for _, file := range []string{t.CredentialsFile, t.TokenFile, t.PasswordFile} {
		if file != "" {
			ways++
		}
	}
	if ways > 1 {
		r.problems.Add(n.pos, "", "at most one of credentials_file, token_file, password_file", "nats has %d ways to log in", ways)
	}
	if (t.User == "") != (t.PasswordFile == "") {
		r.problems.Add(n.pos, "", "both, or neither", "nats has only one of user and password_file")
	}
}}

var natsBatch = &object[plan.NATSTarget]{section: section{what: "batch", list: []*setting{
	set("records", at(func(t *plan.NATSTarget) *int { return &t.BatchRecords }).is(intKind{1, 100000}), "Most results of a batch.", byDefault("1000")),
	set("bytes", at(func(t *plan.NATSTarget) *int64 { return &t.BatchBytes }).is(sizeKind{least: 1 << 10, most: 64 << 20}), "Most bytes of a batch.", byDefault("1MiB")),
}}}

func checkStreamName(name string) string {
	if strings.ContainsAny(name, ". *>/\\\t\r\n") {
		return "this is no name of a stream"
	}
	return ""
}

func checkSubject(subject string) string {
	for _, word := range strings.Split(subject, ".") {
		if word == "" {
			return "a word of the subject is empty"
		}
		if strings.Trim(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") != "" {
			return "this is no subject to publish to"
		}
	}
	return ""
}

func (c *Config) checkNATS(t *plan.NATSTarget, problems *plan.Problems) {
	at := t.URL
	if at.Value == "" {
		return
	}
	const allowed = "a URL such as tls://nats.example.com:4222"
	u, err := url.Parse(at.Value)
	switch {
	case err != nil:
		problems.Add(at.Pos, "", allowed, "%s is not a URL", quote(redact(at.Value)))
	case u.Scheme != "nats" && u.Scheme != "tls":
		problems.Add(at.Pos, suggest.Nearest(u.Scheme, []string{"nats", "tls"}), allowed, "the scheme %s is not nats or tls", quote(u.Scheme))
	case u.Hostname() == "":
		problems.Add(at.Pos, "", allowed, "%s has no host", quote(at.Value))
	case u.User != nil:
		problems.Add(at.Pos, "", "use credentials_file, token_file or password_file", "the URL holds a user name or password")
	case isPrivate(u.Hostname()) && !c.Security.AllowPrivate:
		problems.Add(at.Pos, "", "set security.allow_private: true to accept it", "the host %s is on this device or in a private network", quote(u.Hostname()))
	case u.Scheme == "nats" && !isLoopback(u.Hostname()) && !c.Security.AllowPlaintext:
		problems.Add(at.Pos, "", "use tls:// or set security.allow_plaintext: true", "the connection to %s is not encrypted and leaves this device", u.Hostname())
	}
}
