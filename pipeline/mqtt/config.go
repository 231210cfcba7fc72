package mqtt

import (
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/weirstream/weir/pipeline/certtime"
	"github.com/weirstream/weir/pipeline/topic"
)

// Retained says what becomes of messages with RETAIN=1, that is, of those that the broker sends because of a SUBSCRIBE.
type Retained string

const (
	// RetainedIgnore acknowledges them without a record. The default: the agent subscribes again after every restart, and
	// the broker then sends each of them anew under a fresh packet id.
	RetainedIgnore Retained = "ignore"
	// RetainedFresh journals them only when the broker had no session for the client, so about once per session.
	RetainedFresh Retained = "fresh"
	// RetainedInclude journals every one, repeats included.
	RetainedInclude Retained = "include"
)

// SourceConfig is one subscription of a session.
type SourceConfig struct {
	Name     string
	Filter   string
	QoS      uint8
	Retained Retained
	// MaxMessage is the longest payload journaled whole, bytes. A longer one becomes a stub and is acknowledged.
	MaxMessage int
	// MaxRate limits records per second, 0 = no limit. A source over it slows reading down, and with it the other sources
	// of the session: what waits stays with the broker. Give a noisy source a client id of its own.
	MaxRate float64
	// MaxBytesPerDay limits payload bytes per 24 hours of agent run time, 0 = no limit. What is over becomes a stub without
	// payload and is acknowledged: a stuck sensor then costs about 150 bytes a message instead of the flash.
	MaxBytesPerDay int64
}

// SessionConfig is one client id at one broker.
type SessionConfig struct {
	// Name of the broker in the config; the Session of its journal records. Changing it voids the dedup table.
	Name string
	// URL: mqtt:// or tcp://, mqtts:// (ssl://, tls://), ws://, wss://; host and port.
	URL      string
	ClientID string
	// AllowPlaintext permits mqtt:// and ws:// to hosts other than loopback.
	AllowPlaintext bool
	CAFile         string // PEM; "" = the system's roots
	CertFile       string // PEM client certificate; needs KeyFile
	KeyFile        string
	ServerName     string // "" = the URL's host
	Dates          certtime.Now
	Username       string
	PasswordFile   string // read at every connect, so that a rotated password is taken; a final newline is cut
	Sources        []SourceConfig

	KeepAlive      time.Duration // whole seconds
	PingTimeout    time.Duration // silence after a PINGREQ that ends the connection
	ConnectTimeout time.Duration // for dialling and CONNACK, and for SUBACK
	WriteTimeout   time.Duration // for every write to the broker
	ReconnectMin   time.Duration
	ReconnectMax   time.Duration
	TakeoverWait   time.Duration // back-off while another client seems to use the client id
	StopTimeout    time.Duration // for the last commit and its acknowledgements

	// DedupWindow is W of RULES 1: message records of this session. At most 32768, or packet ids could meet themselves.
	DedupWindow int
	// QueueHint is the broker's max_queued_messages: exactly so many messages after an outage give a warning. 0 = no check.
	QueueHint int
	// DroppedTopic is where the broker counts what it dropped, such as $SYS/broker/publish/messages/dropped; "": it is not asked.
	DroppedTopic string
}

// DefaultSource is a source with every limit at its default; name and filter are missing.
func DefaultSource() SourceConfig {
	return SourceConfig{QoS: 1, Retained: RetainedIgnore, MaxMessage: 1 << 20}
}

// DefaultConfig is a session with every time and limit at its default; name, URL, client id and sources are missing.
func DefaultConfig() SessionConfig {
	return SessionConfig{
		KeepAlive: 30 * time.Second, PingTimeout: 30 * time.Second, ConnectTimeout: 10 * time.Second,
		WriteTimeout: 10 * time.Second, ReconnectMin: 100 * time.Millisecond, ReconnectMax: 30 * time.Second,
		TakeoverWait: 30 * time.Second, StopTimeout: 10 * time.Second, DedupWindow: 32768, QueueHint: 1000,
	}
}

// dedupWindowMax keeps W below half the packet id space.
const dedupWindowMax = 32768

// Validate names the first setting that is missing or out of range. Errors wrap ErrConfig or topic.ErrFilter.
func (c *SessionConfig) Validate() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("broker %s: %s: %w", c.Name, fmt.Sprintf(format, args...), ErrConfig)
	}
	switch {
	case c.Name == "":
		return bad("name is empty")
	case c.ClientID == "" || len(c.ClientID) > topic.BytesMax:
		return bad("client_id needs 1 to %d bytes: the broker keeps the session under it", topic.BytesMax)
	case (c.CertFile == "") != (c.KeyFile == ""):
		return bad("cert and key go together")
	case c.PasswordFile != "" && c.Username == "":
		return bad("password_file needs username")
	case c.DedupWindow < 1 || c.DedupWindow > dedupWindowMax:
		return bad("dedup_window is %d, allowed 1 to %d", c.DedupWindow, dedupWindowMax)
	case c.KeepAlive < time.Second || c.KeepAlive > 65535*time.Second:
		return bad("keepalive is %v, allowed 1s to 65535s", c.KeepAlive)
	case strings.ContainsAny(c.DroppedTopic, "+#\x00") || len(c.DroppedTopic) > topic.BytesMax:
		return bad("dropped_topic is %q, want a topic without + and #", c.DroppedTopic)
	case len(c.Sources) == 0:
		return bad("no source reads from it")
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"ping_timeout", c.PingTimeout}, {"connect_timeout", c.ConnectTimeout}, {"write_timeout", c.WriteTimeout}, {"reconnect min", c.ReconnectMin}, {"takeover wait", c.TakeoverWait}, {"stop timeout", c.StopTimeout}} {
		if d.value <= 0 {
			return bad("%s is %v, needs more than 0", d.name, d.value)
		}
	}
	if c.ReconnectMax < c.ReconnectMin {
		return bad("reconnect max %v is below min %v", c.ReconnectMax, c.ReconnectMin)
	}
	if err := c.validateURL(); err != nil {
		return bad("%v", err)
	}
	return c.validateSources()
}

func (c *SessionConfig) validateURL() error {
	u, err := url.Parse(c.URL)
	if err != nil {
		return fmt.Errorf("url: %w", err)
	}
	kind, err := transportOf(u)
	if err != nil {
		return err
	}
	if u.User != nil {
		return fmt.Errorf("url holds a user name; use username and password_file")
	}
	if !kind.encrypted && !c.AllowPlaintext && !loopback(u.Hostname()) {
		return fmt.Errorf("url %s is not encrypted and not loopback: use mqtts or wss, or set allow_plaintext", c.URL)
	}
	return nil
}

func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

func (c *SessionConfig) validateSources() error {
	for i, s := range c.Sources {
		bad := func(format string, args ...any) error {
			return fmt.Errorf("broker %s: source %q: %s: %w", c.Name, s.Name, fmt.Sprintf(format, args...), ErrConfig)
		}
		if s.Name == "" {
			return bad("name is empty")
		}
		if err := topic.Validate(s.Filter); err != nil {
			return fmt.Errorf("broker %s: source %q: filter %q: %w", c.Name, s.Name, s.Filter, err)
		}
		switch {
		case s.QoS > 2:
			return bad("qos is %d, allowed 0, 1, 2", s.QoS)
		case s.Retained != RetainedIgnore && s.Retained != RetainedFresh && s.Retained != RetainedInclude:
			return bad("retained is %q, allowed ignore, fresh, include", s.Retained)
		case s.MaxMessage < 1 || s.MaxMessage > 48<<20:
			return bad("max_message is %d, allowed 1 to %d bytes", s.MaxMessage, 48<<20)
		case s.MaxRate < 0 || s.MaxBytesPerDay < 0:
			return bad("limits must not be negative")
		}
		for _, o := range c.Sources[:i] {
			if o.Name == s.Name {
				return bad("the name is used twice")
			}
			// R16: a record belongs to one source, and brokers differ in how often they deliver to overlapping filters.
			if topic.Overlap(o.Filter, s.Filter) {
				return bad("filter %q overlaps with %q of source %q: join them, or use a client id of its own", s.Filter, o.Filter, o.Name)
			}
		}
	}
	return nil
}

// Warnings are the settings of a valid config that weaken what is promised, one sentence each.
func (c *SessionConfig) Warnings() (all []string) {
	for _, s := range c.Sources {
		if topic.Shared(s.Filter) {
			all = append(all, fmt.Sprintf("source %s: a shared subscription with a kept session: while the agent is away its share waits and no other member gets it", s.Name))
		}
		if s.QoS == 0 {
			all = append(all, fmt.Sprintf("source %s: qos 0 is at most once: what is published while the agent is away is lost", s.Name))
		}
		if s.Retained == RetainedInclude {
			all = append(all, fmt.Sprintf("source %s: retained messages are read again after every restart", s.Name))
		}
	}
	if !strings.Contains(c.URL, "s://") && c.AllowPlaintext {
		all = append(all, "broker "+c.Name+": the connection is not encrypted")
	}
	return all
}
