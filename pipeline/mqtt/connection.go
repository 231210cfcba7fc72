package mqtt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"sync"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"
	"github.com/eclipse/paho.mqtt.golang/packets"

	"github.com/weirstream/weir/pipeline"
)

const (
	// watchEvery is how often a connection is looked at for silence and for the end of its first burst.
	watchEvery = 500 * time.Millisecond
	// watchRest is the same once nothing has come for watchQuiet looks: each of them wakes the machine.
	watchRest  = 2 * time.Second
	watchQuiet = 20
	// requestTimeout is how long paho may take to hand a packet to its own writer.
	requestTimeout = 2 * time.Second
	// pahoEndWait is how long paho gets to notice that its connection is closed.
	pahoEndWait = time.Second
)

// connectionEnd is how a connection ended and what Run must know of it.
type connectionEnd struct {
	ending
	full bool // we left because the journal is full
}

// connection makes one connection and serves it to its end. A paho client is used once: it cannot be trusted to be clean
// after a loss.
func (s *Session) connection(ctx context.Context) (end connectionEnd, err error) {
	var t *tap
	lost := make(chan struct{})
	options, err := s.options(sync.OnceFunc(func() { close(lost) }), func() (net.Conn, error) {
		conn, err := Dial(ctx, &s.config)
		if err != nil {
			return nil, err
		}
		t = newTap(s, conn)
		t.acks.wait.Go(t.acknowledge) // ends when the tap is closed; tap.end waits
		s.current.Store(t)
		return t, nil
	})
	if err != nil {
		return end, err
	}
	client := paho.NewClient(options)
	token := client.Connect().(*paho.ConnectToken)
	select {
	case <-token.Done():
	case <-ctx.Done():
		// The dial is bound to ctx, the handshake to the connect timeout; a tap that exists is closed to hurry it.
		if c := s.current.Load(); c != nil {
			c.Close()
		}
		<-token.Done()
	}
	defer func() {
		if t == nil {
			return
		}
		s.step(evLost)
		t.end()
		s.current.Store(nil)
		if at := t.connackAt.Load(); at != 0 {
			s.offline = time.Now()
			end.connected, end.lived, end.progress = true, time.Since(time.Unix(0, at)), t.progress.Load()
		}
		if r := t.reason.Load(); r != nil {
			end.clean = errors.Is(*r, io.EOF)
			if err == nil || errors.Is(err, errConnectionLost) {
				err = *r
			}
		}
	}()
	if token.Error() != nil {
		return end, fmt.Errorf("connect: %w", token.Error())
	}
	end.full, err = s.serve(ctx, t, client, lost)
	t.Close()
	select {
	case <-lost:
	case <-time.After(pahoEndWait):
		client.Disconnect(0)
	}
	return end, err
}

// options are those of R2. open makes the tap.
func (s *Session) options(lost func(), open func() (net.Conn, error)) (*paho.ClientOptions, error) {
	secret, err := Password(&s.config)
	if err != nil {
		return nil, err
	}
	o := paho.NewClientOptions().
		AddBroker("tcp://" + s.config.Name). // never dialled: open does
		SetClientID(s.config.ClientID).
		SetUsername(s.config.Username).SetPassword(secret).
		SetCleanSession(false).SetProtocolVersion(4).
		SetAutoReconnect(false).SetConnectRetry(false).SetResumeSubs(false).
		SetOrderMatters(true).SetAutoAckDisabled(true).
		SetStore(noStore{}).
		SetKeepAlive(s.config.KeepAlive).
		// The tap watches the broker's silence itself: paho would take a slow journal for a dead line, because the PINGRESP
		// lies behind messages that wait.
		SetPingTimeout(24 * time.Hour).
		SetConnectTimeout(s.config.ConnectTimeout).
		SetWriteTimeout(requestTimeout). // how long SUBSCRIBE blocks when the connection breaks under it; 30 s otherwise
		SetCustomOpenConnectionFn(func(*url.URL, paho.ClientOptions) (net.Conn, error) { return open() }).
		SetConnectionLostHandler(func(paho.Client, error) { lost() }).
		SetDefaultPublishHandler(func(_ paho.Client, m paho.Message) {
			s.log.Error("BUG: a message went past the tap", "topic", m.Topic())
		})
	return o, nil
}

// noStore: a client that never publishes has nothing to resume.
type noStore struct{}

func (noStore) Open()                             {}
func (noStore) Put(string, packets.ControlPacket) {}
func (noStore) Get(string) packets.ControlPacket  { return nil }
func (noStore) All() []string                     { return nil }
func (noStore) Del(string)                        {}
func (noStore) Close()                            {}
func (noStore) Reset()                            {}

// serve works a connection until it is lost, the journal is full, or Run is to end.
func (s *Session) serve(ctx context.Context, t *tap, client paho.Client, lost <-chan struct{}) (full bool, err error) {
	if s.phase() == phaseReady { // session_present=1, and known
		s.ready()
	}
	if err := s.proceed(ctx, t, client); err != nil {
		return s.giveUp(ctx, t, err)
	}
	every := watchEvery
	watch := time.NewTicker(every)
	defer watch.Stop()
	hint := burst{outage: time.Since(s.offline)}
	for {
		select {
		case e := <-t.events:
			switch e {
			case tapSwept:
				if err := s.proceed(ctx, t, client); err != nil {
					return s.giveUp(ctx, t, err)
				}
			case tapFull:
				return true, s.leave(t)
			}
		case <-s.fullChange:
			if s.full.Load() {
				return true, s.leave(t)
			}
		case now := <-watch.C:
			if t.dead(now) {
				return false, fmt.Errorf("ping %s: %w", s.config.URL, ErrDead)
			}
			if next := watchWait(s.look(t, &hint), s.config.PingTimeout); next != every {
				every = next
				watch.Reset(every)
			}
		case <-lost:
			return false, errConnectionLost
		case <-s.failed:
			return false, s.failure
		case <-ctx.Done():
			return false, s.leave(t)
		}
	}
}

// proceed subscribes when the state machine waits for that.
func (s *Session) proceed(ctx context.Context, t *tap, client paho.Client) error {
	if s.phase() != phaseSubscribing {
		return nil
	}
	return s.subscribe(ctx, t, client)
}

// giveUp ends a connection whose subscribing failed: in order when we are the ones who leave.
func (s *Session) giveUp(ctx context.Context, t *tap, err error) (full bool, _ error) {
	switch {
	case errors.Is(err, pipeline.ErrJournalFull):
		return true, s.leave(t)
	case ctx.Err() != nil:
		return false, s.leave(t)
	}
	return false, err
}

func (s *Session) ready() {
	s.setProblem("")
	s.log.Info("session is ready", "client_id", s.config.ClientID, "filters", len(s.wanted))
	if s.hooks.Ready != nil {
		s.hooks.Ready()
	}
}

// subscribe unsubscribes what the config dropped, subscribes what it asks for, and journals what was granted (R4, RULES 5).
func (s *Session) subscribe(ctx context.Context, t *tap, client paho.Client) error {
	if !s.fault.subscribeEarly {
		if err := s.journal.Sync(ctx); err != nil {
			return fmt.Errorf("sync journal before subscribing: %w", err)
		}
	}
	s.mu.Lock()
	granted := s.granted
	s.mu.Unlock()
	var removed []string
	for _, g := range granted {
		if !s.wants(g.filter) {
			removed = append(removed, g.filter)
		}
	}
	if len(removed) > 0 {
		if _, err := ask(ctx, s, t, func() paho.Token { return client.Unsubscribe(removed...) }); err != nil {
			return fmt.Errorf("unsubscribe %q: %w", removed, err)
		}
		s.log.Info("filters unsubscribed", "filters", removed)
	}
	filters := make(map[string]byte, len(s.wanted))
	for _, w := range s.wanted {
		filters[w.filter] = w.qos
	}
	t.asked.Store(int64(len(filters)))
	token, err := ask(ctx, s, t, func() *paho.SubscribeToken { return client.SubscribeMultiple(filters, nil).(*paho.SubscribeToken) })
	if token == nil {
		return fmt.Errorf("subscribe: %w", err)
	}
	codes := token.Result() // they decide: paho reports a refusal as an error in some cases and not in others
	if err != nil && len(codes) == 0 {
		return fmt.Errorf("subscribe: %w", err)
	}
	if refusal := s.refusal(codes); refusal != nil {
		s.step(evRefused)
		s.counters.refusals.Add(1)
		s.log.Error("broker did not grant what the config asks for", "err", refusal)
		s.setProblem(refusal.Error())
		return nil // stay connected: the other sources go on
	}
	pos, err := s.journal.Append(&pipeline.Entry{Kind: pipeline.EntrySubscribed, Session: s.config.Name, Payload: encodeSubscribed(s.wanted)})
	if err != nil && !errors.Is(err, pipeline.ErrJournalFull) { // when full, the next start subscribes again: harmless
		s.fail(err)
		return err
	}
	s.mu.Lock()
	s.granted, s.grantedPos = s.wanted, pos
	s.mu.Unlock()
	s.step(evGranted)
	s.ready()
	return nil
}

func (s *Session) wants(filter string) bool {
	for _, w := range s.wanted {
		if w.filter == filter {
			return true
		}
	}
	return false
}

// refusal names the first filter that was not granted as asked.
func (s *Session) refusal(codes map[string]byte) error {
	for _, w := range s.wanted {
		code, ok := codes[w.filter]
		switch {
		case !ok || code > 2:
			return fmt.Errorf("filter %q: the broker answered %#x: %w", w.filter, code, ErrRefused)
		case code != w.qos:
			return fmt.Errorf("filter %q: asked for QoS %d, granted %d: %w", w.filter, w.qos, code, ErrRefused)
		}
	}
	return nil
}

// ask makes a request of paho and waits for its answer, no longer than the connect timeout and the connection. The token is
// nil when there was none. The request itself runs in a goroutine: paho blocks in it for the write timeout when the
// connection breaks under it. Run waits for these goroutines.
func ask[T paho.Token](ctx context.Context, s *Session, t *tap, request func() T) (token T, err error) {
	made := make(chan T, 1)
	s.requests.Go(func() {
		token := request()
		select {
		case <-token.Done():
			made <- token
		case <-t.done: // paho may forget a token that was made while the connection broke
		}
	})
	timer := time.NewTimer(s.config.ConnectTimeout)
	defer timer.Stop()
	for {
		select {
		case token = <-made:
			return token, token.Error()
		case e := <-t.events:
			if e == tapFull {
				return token, pipeline.ErrJournalFull
			}
			// tapSwept: the sweep had ended before anybody listened, and is why we are here.
		case <-timer.C:
			return token, fmt.Errorf("wait %v for the answer: %w", s.config.ConnectTimeout, ErrDead)
		case <-t.done:
			return token, errConnectionLost
		case <-ctx.Done():
			return token, ctx.Err()
		}
	}
}

// leave ends a connection in order: what is journaled is committed and acknowledged, then DISCONNECT (R13). The broker
// keeps the session.
func (s *Session) leave(t *tap) error {
	t.stopping.Store(true)
	ctx, cancel := context.WithTimeout(context.Background(), s.config.StopTimeout)
	defer cancel()
	if err := t.flush(ctx); err != nil {
		return fmt.Errorf("commit before disconnecting: %w", err)
	}
	if _, err := t.send([]byte{packetDisconnect << 4, 0}); err != nil {
		return fmt.Errorf("disconnect: %w", err)
	}
	return nil
}

// burst watches the messages right after an outage.
type burst struct {
	outage time.Duration
	seen   uint64
	over   bool
	quiet  int // looks since something came
}

// watchWait is how long it is until the next look, after so many that saw nothing come. Pure.
func watchWait(quiet int, ping time.Duration) time.Duration {
	if quiet < watchQuiet || ping/4 < watchEvery {
		return watchEvery
	}
	return min(watchRest, ping/4)
}

// outageMin: shorter ones fill no queue.
const outageMin = time.Second

// look notes the last receive time and, once the first burst is over, whether it had just the size of the broker's queue. It gives the number of looks since something came.
func (s *Session) look(t *tap, b *burst) int {
	n := t.arrived.Load()
	if n != b.seen {
		b.seen, b.quiet = n, 0
		s.receivedAt.Store(time.Now().UnixMilli())
		return 0
	}
	b.quiet++
	if b.over {
		return b.quiet
	}
	b.over = true
	if s.config.QueueHint > 0 && b.outage >= outageMin && n == uint64(s.config.QueueHint) {
		s.counters.queueHints.Add(1)
		s.log.Warn("as many messages as the broker's max_queued_messages came after an outage: more may have been dropped there",
			"messages", n, "outage", b.outage)
	}
	return b.quiet
}
