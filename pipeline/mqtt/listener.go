package mqtt

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"sync"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"
)

// listener is a connection beside that of the session, which hears one topic at QoS 0 and keeps nothing at the broker: what it hears is a hint or a count, and may be missed.
type listener struct {
	lost  chan struct{} // closed when the connection is
	close func()        // waits for the library's goroutines
}

// listenTo connects under the session's client id and suffix, and subscribes. take is called from one goroutine. Packets of more than most bytes end the connection; 0: no bound.
// It returns when the broker has answered, or with ctx.
func listenTo(ctx context.Context, c *SessionConfig, suffix, topic string, most int, take func(payload []byte)) (*listener, error) {
	secret, err := Password(c)
	if err != nil {
		return nil, err
	}
	l := &listener{lost: make(chan struct{})}
	gone := sync.OnceFunc(func() { close(l.lost) })
	var release func() bool
	o := paho.NewClientOptions().
		AddBroker("tcp://" + c.Name). // never dialled: the function below does
		SetClientID(c.ClientID + suffix).SetUsername(c.Username).SetPassword(secret).
		SetCleanSession(true).SetProtocolVersion(4).
		SetAutoReconnect(false).SetConnectRetry(false).
		SetKeepAlive(c.KeepAlive).SetPingTimeout(c.PingTimeout).
		SetConnectTimeout(c.ConnectTimeout).SetWriteTimeout(requestTimeout).
		SetConnectionLostHandler(func(paho.Client, error) { gone() }).
		SetCustomOpenConnectionFn(func(*url.URL, paho.ClientOptions) (net.Conn, error) {
			conn, err := Dial(ctx, c)
			if err != nil {
				return nil, err
			}
			release = context.AfterFunc(ctx, func() { _ = conn.Close() }) // a handshake ends with ctx as well
			return &subackGuard{Conn: conn, asked: 1, most: most}, nil
		})
	client := paho.NewClient(o)
	connect := client.Connect()
	<-connect.Done()
	l.close = func() {
		client.Disconnect(0)
		if release != nil {
			release()
		}
	}
	if err := connect.Error(); err != nil {
		l.close()
		return nil, fmt.Errorf("connect: %w", err)
	}
	token := client.Subscribe(topic, 0, func(_ paho.Client, m paho.Message) { take(m.Payload()) }).(*paho.SubscribeToken)
	if err := l.subscribed(token, topic, c.ConnectTimeout); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

func (l *listener) subscribed(token *paho.SubscribeToken, topic string, patience time.Duration) error {
	select {
	case <-token.Done():
	case <-l.lost:
		return errConnectionLost
	case <-time.After(patience):
		return fmt.Errorf("subscribe: %w", ErrDead)
	}
	if code := token.Result()[topic]; token.Error() != nil || code > 2 {
		return fmt.Errorf("the broker answered %#x: let this user read %s: %w", code, topic, ErrRefused)
	}
	return nil
}
