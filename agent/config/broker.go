package config

import (
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirstream/weir/pipeline/plan"
	"github.com/weirstream/weir/pipeline/suggest"
)

// addressKind is HOST:PORT to listen on.
var addressKind = textKind{what: "an address HOST:PORT", allowed: "an address such as 127.0.0.1:8480", check: func(s string) string {
	_, port, err := net.SplitHostPort(s)
	if err != nil {
		return "it is not HOST:PORT"
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil {
		return "the port is no number up to 65535"
	} else if n == 0 {
		return "port 0 would be a different one at each start"
	}
	return ""
}}

// brokerSchemes are the accepted schemes and whether they are encrypted.
var brokerSchemes = map[string]bool{"tcp": false, "mqtt": false, "ws": false, "ssl": true, "tls": true, "mqtts": true, "wss": true}

const brokerSchemesAllowed = "allowed are tcp://, mqtt://, ssl://, tls://, mqtts://, ws://, wss://, each HOST:PORT"

var brokerObject = &object[Broker]{place: func(b *Broker, at plan.Pos) { b.Pos = at }, section: section{what: "a broker", list: []*setting{
	set("url", at(func(b *Broker) *plan.Text { return &b.URL }).is(textKind{what: "a URL such as tcp://127.0.0.1:1883", pattern: "^(tcp|mqtt|ws|ssl|tls|mqtts|wss)://"}),
		"Where the broker is: tcp:// or mqtt:// (plain), ssl://, tls:// or mqtts://, ws://, wss://.", required()),
	set("client_id", at(func(b *Broker) *plan.Text { return &b.ClientID }).is(textKind{what: "a client id", allowed: "at most 128 bytes without control characters", check: checkClientID}),
		"MQTT client id; must be the device's own: it names the session in which the broker keeps messages. Left out: weir- and the gateway's name."),
	set("username", at(func(b *Broker) *string { return &b.Username }).is(stringKind{wordKind}), "User name."),
	set("password_file", at(func(b *Broker) *string { return &b.PasswordFile }).is(fileKind), "File that holds the password.", secretFile()),
	set("tls", at(func(b *Broker) **TLS { return &b.TLS }).is(optional[TLS]{tlsObject}), "Certificates, for encrypted URLs."),
	set("keepalive", at(func(b *Broker) *time.Duration { return &b.Keepalive }).is(durationKind{least: 5 * time.Second, most: 18 * time.Hour}),
		"MQTT keep alive.", byDefault("30s")),
	set("connect_timeout", at(func(b *Broker) *time.Duration { return &b.ConnectTimeout }).is(durationKind{least: 100 * time.Millisecond, most: 10 * time.Minute}),
		"How long a connection attempt may take.", byDefault("10s")),
	set("dropped_topic", at(func(b *Broker) *string { return &b.DroppedTopic }).is(stringKind{textKind{what: "a topic", allowed: "a topic without + and #", check: checkPlainTopic}}),
		"Topic on which the broker counts the messages that it dropped; mosquitto: $SYS/broker/publish/messages/dropped. It is read on a connection of its own, client id with -drops behind, and shown in status and metrics. Left out: it is not read."),
}}}

var tlsObject = &object[TLS]{section: section{what: "tls", list: []*setting{
	set("ca", at(func(t *TLS) *string { return &t.CA }).is(fileKind), "CA certificates (PEM). Left out: the system's."),
	set("cert", at(func(t *TLS) *string { return &t.Cert }).is(fileKind), "Client certificate (PEM)."),
	set("key", at(func(t *TLS) *string { return &t.Key }).is(fileKind), "Key of the client certificate (PEM).", secretFile()),
	set("server_name", at(func(t *TLS) *string { return &t.ServerName }).is(stringKind{wordKind}), "Name expected in the broker's certificate. Left out: the URL's host."),
}}, check: func(r *reader, n *node, t *TLS) {
	if (t.Cert == "") != (t.Key == "") {
		r.problems.Add(n.pos, "", "cert and key come together", "tls has one of cert and key")
	}
}}

func checkPlainTopic(name string) string {
	if strings.ContainsAny(name, "+#\x00") {
		return "it is a filter, not a topic"
	}
	return ""
}

func checkClientID(id string) string {
	if len(id) > plan.NameBytesMax {
		return "it has " + strconv.Itoa(len(id)) + " bytes"
	}
	for _, r := range id {
		if r < ' ' || r >= 0x7F && r < 0xA0 {
			return "it holds a control character"
		}
	}
	return ""
}

// check looks at the broker's URL.
func (b *Broker) check(s Security, problems *plan.Problems) {
	u, err := url.Parse(b.URL.Value)
	switch {
	case b.URL.Value == "":
		return // said already
	case err != nil:
		problems.Add(b.URL.Pos, "", brokerSchemesAllowed, "%s is not a URL", quote(redact(b.URL.Value)))
		return
	case b.PasswordFile != "" && b.Username == "":
		problems.Add(b.Pos, "", "give username as well", "broker %s has password_file without username", b.Name)
	case u.User != nil:
		problems.Add(b.URL.Pos, "", "use username and password_file", "the URL holds a user name or password")
		return
	}
	encrypted, known := brokerSchemes[u.Scheme]
	if !known {
		var near []string
		for scheme := range brokerSchemes {
			near = append(near, scheme)
		}
		slices.Sort(near)
		problems.Add(b.URL.Pos, suggest.Nearest(u.Scheme, near), brokerSchemesAllowed, "the scheme %s is not known", quote(u.Scheme))
		return
	}
	if u.Hostname() == "" || u.Port() == "" {
		problems.Add(b.URL.Pos, "", brokerSchemesAllowed, "%s has no host or no port", quote(b.URL.Value))
		return
	}
	if _, err := strconv.ParseUint(u.Port(), 10, 16); err != nil {
		problems.Add(b.URL.Pos, "", "a port is at most 65535", "port %s", u.Port())
	}
	if !strings.HasPrefix(u.Scheme, "ws") && u.Path != "" && u.Path != "/" {
		problems.Add(b.URL.Pos, "", "only ws:// and wss:// have a path", "%s has the path %s", quote(b.URL.Value), quote(u.Path))
	}
	if encrypted {
		return
	}
	if b.TLS != nil {
		problems.Add(b.URL.Pos, "", "ssl:// or wss:// use the certificates", "the broker has tls settings and the plain scheme %s", u.Scheme)
	}
	if !isLoopback(u.Hostname()) && !s.AllowPlaintext {
		problems.Add(b.URL.Pos, "", "use ssl:// or set security.allow_plaintext: true", "the connection to %s is not encrypted and leaves this device", u.Hostname())
	}
}
