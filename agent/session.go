package agent

import (
	"context"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/apply"
	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/agent/links"
	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/mqtt"
)

// session is one broker session with its settings.
type session struct {
	name, url string
	mqtt      *mqtt.Session
	settings  string        // all that it is made of: equal ones need no other session
	quit      func()        // ends it as a stop does; set when it is started
	ended     chan struct{} // closed when it has
	watched   bool          // the broker's count of dropped messages is read
}

// newSession makes the session of a broker with all sources that read from it. Its dedup table is rebuilt from the journal.
func (a *Agent) newSession(cfg *config.Config, b *config.Broker) (*session, error) {
	c := links.BrokerSettings(b)
	c.Dates = a.clock.Wall
	if c.ClientID == "" {
		c.ClientID = "weir-" + a.gateway()
	}
	c.DroppedTopic = b.DroppedTopic
	c.AllowPlaintext = cfg.Security.AllowPlaintext
	for _, s := range cfg.Sources {
		if s.Broker.Value != b.Name.Value {
			continue
		}
		sc := mqtt.DefaultSource()
		sc.Name, sc.Filter, sc.QoS, sc.MaxRate, sc.MaxBytesPerDay = s.Name.Value, s.Filter, uint8(s.QoS), s.RateMax, s.BytesPerDayMax
		if s.Retained != "" {
			sc.Retained = mqtt.Retained(s.Retained)
		}
		if s.MaxMessageBytes > 0 {
			sc.MaxMessage = int(s.MaxMessageBytes)
		}
		c.Sources = append(c.Sources, sc)
	}
	m, err := mqtt.NewSession(c, a.journal, a.log, mqtt.Hooks{Permit: a.mayConnect})
	if err != nil {
		return nil, err
	}
	return &session{name: c.Name, url: c.URL, mqtt: m, settings: apply.SessionSettings(cfg, b), watched: c.DroppedTopic != ""}, nil
}

// run keeps the session until ctx ends: then what was received is made durable, acknowledged, and the broker is told.
func (s *session) run(ctx context.Context) error { return s.mqtt.Run(ctx) }

// carry re-adds what the dedup tables still need of records below a position.
func (a *Agent) carry(before pipeline.Position, add func(*pipeline.Entry) error) error {
	for _, s := range a.sessions() {
		if err := s.mqtt.Carry(before, add); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) status(rebirths uint64) api.SessionStatus {
	st := s.mqtt.Stats()
	out := api.SessionStatus{Name: s.name, URL: s.url, State: st.State, Error: st.Err}
	if st.Takeover {
		out.Error = "another client uses this client id; give each gateway its own"
	}
	out.Counters = map[string]uint64{
		"received": st.Received, "received_bytes": st.Bytes, "journaled": st.Journaled, "qos0": st.QoS0, "acked": st.Acked,
		"duplicates": st.Duplicates, "turned_away": st.TurnedAway, "stubs": st.Stubs, "retained_ignored": st.RetainedIgnored, "unrouted": st.Unrouted,
		"throttled": st.Throttled, "connects": st.Connects, "connect_failures": st.ConnectFailures, "stale_acks": st.StaleAcks,
		"session_lost": st.SessionLost, "went_back": st.WentBack, "old_duplicates": st.OldDuplicates, "id_reuse": st.IDReuse,
		"forgotten": st.Forgotten, "takeovers": st.Takeovers, "refusals": st.Refusals, "queue_hints": st.QueueHints, "full": st.Full,
		"protocol_errors": st.ProtocolErrors, "rebirth_requests": rebirths, "broker_dropped": st.Dropped, "broker_dropped_away": st.DroppedAway,
	}
	if s.watched {
		out.Drops = &api.BrokerDrops{Dropped: st.Dropped, Away: st.DroppedAway, Before: st.DroppedBefore, Error: st.DroppedErr}
	}
	return out
}
