package config

import (
	"fmt"
	"net/netip"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/weirstream/weir/pipeline/plan"
	"github.com/weirstream/weir/pipeline/suggest"
	"github.com/weirstream/weir/pipeline/topic"
)

// Validate checks what no single setting can tell: references, what the operator allows, the pipelines' plans. It fills
// Graph of each pipeline and Warnings. It touches nothing but the Config.
func (c *Config) Validate() plan.Problems {
	var problems plan.Problems
	c.Warnings = nil
	clients := map[string]*Broker{}
	for _, b := range c.Brokers {
		b.check(c.Security, &problems)
		id := b.URL.Value + " " + b.ClientID.Value
		if other := clients[id]; other != nil {
			problems.Add(b.Name.Pos, "", "each session needs its own client_id", "broker %s has the url and client_id of broker %s", quote(b.Name.Value), quote(other.Name.Value))
		}
		clients[id] = b
	}
	c.checkSources(&problems)
	c.checkBrokers(&problems)
	c.checkJournal(&problems)
	c.checkPaths(&problems)
	c.checkListeners(&problems)
	c.checkLinks(&problems)
	c.checkCentral(&problems)
	c.checkFleet(&problems)
	files := map[string]plan.Text{}
	for _, p := range c.Pipelines {
		for _, s := range p.Sinks {
			c.checkSink(s, files, &problems)
		}
		p.checkDeadSink(&problems)
		graph, found, warnings := plan.Compile(&p.Spec)
		problems = append(problems, found...)
		c.Warnings = append(c.Warnings, warnings...)
		p.Graph = graph
		c.warnIdle(p)
	}
	c.warnUnused()
	return problems
}

// warnUnused tells of sources that nobody reads: their messages wear the flash all the same.
func (c *Config) warnUnused() {
	read := map[string]bool{}
	for _, p := range c.Pipelines {
		if p.Graph == nil {
			return
		}
		for _, s := range p.Graph.Sources {
			read[s.Name] = true
		}
	}
	for _, s := range c.Sources {
		if !read[s.Name.Value] {
			c.Warnings.Add(s.Name.Pos, "", "", "source %s is read by no pipeline; its messages are kept in the journal all the same", s.Name)
		}
	}
}

// MissingBrokers tells which sources name a broker in a file that defines none: such a file is good for `weir replay`, but
// not for `weir run`.
func (c *Config) MissingBrokers() plan.Problems {
	var problems plan.Problems
	for _, s := range c.Sources {
		if c.Broker(s.Broker.Value) == nil {
			problems.Add(s.Broker.Pos, "", "the section brokers defines it; only weir replay goes without", "broker %s is not defined", quote(s.Broker.Value))
		}
	}
	return problems
}

func (c *Config) checkSources(problems *plan.Problems) {
	var names []string
	for _, b := range c.Brokers {
		names = append(names, b.Name.Value)
	}
	for i, s := range c.Sources {
		if s.Broker.Value != "" && c.Broker(s.Broker.Value) == nil && len(c.Brokers) > 0 {
			problems.Add(s.Broker.Pos, suggest.Nearest(s.Broker.Value, names), "brokers are "+strings.Join(names, ", "), "broker %s is not defined", quote(s.Broker.Value))
		}
		if s.QoS == 0 && s.Topic.Value != "" {
			c.Warnings.Add(s.Topic.Pos, "", "use qos 1 or 2", "source %s subscribes with QoS 0: at most once, messages may be lost", s.Name.Value)
		}
		if s.Retained == "include" {
			c.Warnings.Add(s.Topic.Pos, "", "", "source %s takes retained messages: they are read again after every restart", s.Name)
		}
		if topic.Shared(s.Filter) {
			c.Warnings.Add(s.Topic.Pos, "", "", "source %s is a shared subscription: the broker may give messages of a lost session to another member", s.Name.Value)
		}
		for _, other := range c.Sources[:i] {
			if other.Broker.Value == s.Broker.Value && other.Filter != "" && s.Filter != "" && topic.Overlap(other.Filter, s.Filter) {
				problems.Add(s.Topic.Pos, "", "join them, or read one through a broker entry with a client_id of its own",
					"the topics of sources %s and %s overlap: brokers differ in how often they deliver then", other.Name, s.Name)
			}
		}
	}
}

// checkBrokers finds sessions that nobody needs; they would only collect messages at the broker.
func (c *Config) checkBrokers(problems *plan.Problems) {
	used, read := map[string]bool{}, map[string]bool{}
	for _, s := range c.Sources {
		used[s.Broker.Value], read[s.Broker.Value] = true, true
		if c.Broker(s.Broker.Value) == nil {
			return // said; it may have been meant
		}
	}
	for _, p := range c.Pipelines {
		for _, s := range p.Sinks {
			if s.MQTT != nil {
				used[s.MQTT.Broker.Value] = true
			}
		}
	}
	for _, b := range c.Brokers {
		if b.DroppedTopic != "" && used[b.Name.Value] && !read[b.Name.Value] {
			problems.Add(b.Pos, "", "dropped_topic is for brokers that sources read from", "no source reads from broker %s, whose dropped messages are to be counted", b.Name)
		}
		if !used[b.Name.Value] {
			problems.Add(b.Name.Pos, "", "a source or sink names its broker in mqtt.broker", "no source reads from broker %s, and no sink publishes to it", b.Name)
		}
	}
}

// pageBytes divides a segment.
const pageBytes = 4096

func (c *Config) checkJournal(problems *plan.Problems) {
	j := c.Journal
	if j.SegmentBytes%pageBytes != 0 {
		problems.Add(j.Pos, "", fmt.Sprintf("a multiple of %d bytes", pageBytes), "journal.segment is %d bytes", j.SegmentBytes)
	}
	if j.MaxBytes < 4*j.SegmentBytes {
		problems.Add(j.Pos, "", "max_bytes holds at least 4 segments", "journal.max_bytes is %s, journal.segment %s", FormatSize(j.MaxBytes), FormatSize(j.SegmentBytes))
	}
}

// checkPaths keeps file sinks and state apart.
func (c *Config) checkPaths(problems *plan.Problems) {
	root, state := c.Security.FileRoot, c.StateDir
	if state.Value == "" || root.Value == "" {
		return
	}
	if within(root.Value, state.Value) || within(state.Value, root.Value) {
		at := root.Pos
		if at.Line == 0 {
			at = state.Pos
		}
		problems.Add(at, "", "two directories side by side", "security.file_root %s and state_dir %s lie within each other", quote(root.Value), quote(state.Value))
	}
	if state.Value == "/" {
		problems.Add(state.Pos, "", "a directory that weir alone uses", "state_dir is the root directory")
	}
}

// within tells whether path a is b or lies below it.
func within(a, b string) bool {
	rel, err := filepath.Rel(b, a)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
}

// completeFile makes the path absolute.
func completeFile(f *plan.FileTarget, root string) {
	f.File = f.Path.Value
	if !filepath.IsAbs(f.File) {
		f.File = filepath.Join(root, f.File)
	}
}

func (c *Config) checkSink(s *plan.SinkSpec, files map[string]plan.Text, problems *plan.Problems) {
	if f := s.File; f != nil && f.Path.Value != "" && checkFilePath(f.Path.Value) == "" {
		if !within(f.File, c.Security.FileRoot.Value) || filepath.Clean(f.File) == filepath.Clean(c.Security.FileRoot.Value) {
			problems.Add(f.Path.Pos, "", "file sinks write below security.file_root "+quote(c.Security.FileRoot.Value), "the path %s lies elsewhere", quote(f.Path.Value))
		}
		if other, taken := files[f.File]; taken {
			problems.Add(f.Path.Pos, "", "each file sink has a file of its own", "another sink writes %s, at line %d", quote(f.Path.Value), other.Pos.Line)
		}
		files[f.File] = f.Path
	}
	if s.HTTP != nil {
		c.checkURL(s.HTTP.URL, "https://ingest.example.com/weir", "token_file", problems)
	}
	if s.Objects != nil {
		c.checkObjects(s.Objects, problems)
		if s.Commit.Value == plan.CommitImmediate {
			c.Warnings.Add(s.Commit.Pos, "", "commit: checkpoint fills an object with what came in an interval",
				"sink %s makes small objects: with commit: immediate each batch is one, often of a single row", s.UID)
		}
	}
	if s.NATS != nil {
		c.checkNATS(s.NATS, problems)
	}
	if s.MQTT != nil {
		c.checkMQTT(s, problems)
	}
	if s.Influx != nil {
		c.checkURL(s.Influx.URL, "https://influx.example.com", "token_file", problems)
	}
}

// checkURL checks where a sink sends to. secret is the setting for what must not be in the URL.
func (c *Config) checkURL(at plan.Text, example, secret string, problems *plan.Problems) {
	if at.Value == "" {
		return
	}
	allowed := "a URL such as " + example
	u, err := url.Parse(at.Value)
	switch {
	case err != nil:
		problems.Add(at.Pos, "", allowed, "%s is not a URL", quote(redact(at.Value)))
		return
	case u.Scheme != "http" && u.Scheme != "https":
		problems.Add(at.Pos, suggest.Nearest(u.Scheme, []string{"http", "https"}), allowed, "the scheme %s is not http or https", quote(u.Scheme))
		return
	case u.Hostname() == "":
		problems.Add(at.Pos, "", allowed, "%s has no host", quote(at.Value))
		return
	case u.User != nil:
		problems.Add(at.Pos, "", "use "+secret, "the URL holds a user name or password")
		return
	}
	if port := u.Port(); port != "" {
		if _, err := strconv.ParseUint(port, 10, 16); err != nil {
			problems.Add(at.Pos, "", "a port is at most 65535", "port %s", port)
		}
	}
	if isPrivate(u.Hostname()) && !c.Security.AllowPrivate {
		problems.Add(at.Pos, "", "set security.allow_private: true to accept it", "the host %s is on this device or in a private network", quote(u.Hostname()))
	}
	if u.Scheme == "http" && !isLoopback(u.Hostname()) && !c.Security.AllowPlaintext {
		problems.Add(at.Pos, "", "use https:// or set security.allow_plaintext: true", "the connection to %s is not encrypted and leaves this device", u.Hostname())
	}
}

func (c *Config) checkListeners(problems *plan.Problems) {
	if at := c.Metrics.Listen; at.Value != "" && !isLoopback(hostOf(at.Value)) {
		problems.Add(at.Pos, "", "an address on loopback", "metrics without a token would listen on %s", quote(at.Value))
	}
}

// redact takes the user information out of what should be a URL.
func redact(text string) string {
	scheme, rest, found := strings.Cut(text, "://")
	at := strings.LastIndexByte(rest, '@')
	if !found || at < 0 {
		return text
	}
	return scheme + "://…" + rest[at:]
}

func hostOf(address string) string {
	i := strings.LastIndexByte(address, ':')
	return strings.Trim(address[:max(i, 0)], "[]")
}

// isLoopback tells whether a host name or address certainly is this device.
func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.Unmap().IsLoopback()
}

// isPrivate tells whether a host, as written, is this device or in a private network. A name is judged when it is dialled:
// PrivateAddr.
func isPrivate(host string) bool {
	if isLoopback(host) || strings.HasSuffix(strings.ToLower(host), ".localhost") {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && PrivateAddr(a)
}

// PrivateAddr tells whether an address is one that sinks reach only with security.allow_private. A sink's dialler asks it
// for the address that a name resolved to.
func PrivateAddr(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	return a.IsLoopback() || a.IsPrivate() || a.IsLinkLocalUnicast() || a.IsMulticast() || a.IsUnspecified() || carrierNAT.Contains(a)
}

// carrierNAT is 100.64.0.0/10 (RFC 6598).
var carrierNAT = netip.PrefixFrom(netip.AddrFrom4([4]byte{100, 64}), 10)
