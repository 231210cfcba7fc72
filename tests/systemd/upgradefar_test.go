package systemd

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirstream/weir/tests/rig"
	"github.com/weirstream/weir/uplink/receiver"
	"github.com/weirstream/weir/uplink/wire"
)

// far is what a gateway talks to: a broker and a receiver, outside of the machine, so that they outlive its process 1. In the machine they are ports of its loopback, anew at each boot.
type far struct {
	m         *machine
	broker    *rig.Broker
	receiver  *receiver.Receiver
	web       net.Listener
	ports     []net.Listener
	published atomic.Int64
	wg        sync.WaitGroup
	done      chan struct{}
}

// Where they are for the machine.
const (
	brokerPort   = 18830
	receiverPort = 18080
)

func newFar(t *testing.T, m *machine) *far {
	t.Helper()
	f := &far{m: m, done: make(chan struct{})}
	var err error
	if f.broker, err = rig.NewBroker(rig.BrokerConfig{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.broker.Close() })
	if f.receiver, err = receiver.Open(receiver.Options{Path: filepath.Join(t.TempDir(), "receiver.db"), Config: receiver.Default()}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.receiver.Close() })
	if f.web, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: f.receiver}
	f.wg.Go(func() { server.Serve(f.web) }) //nolint:errcheck // it ends with Close
	t.Cleanup(func() { server.Close(); f.unplug(); close(f.done); f.wg.Wait() })
	f.plug(t)
	return f
}

// plug opens the ports in the machine's network.
func (f *far) plug(t *testing.T) {
	t.Helper()
	for port, to := range map[int]string{brokerPort: f.broker.Addr(), receiverPort: f.web.Addr().String()} {
		l := f.m.listenAt(t, port)
		f.ports = append(f.ports, l)
		f.wg.Go(func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				f.wg.Go(func() { f.join(c, to) })
			}
		})
	}
}

func (f *far) unplug() {
	for _, l := range f.ports {
		l.Close()
	}
	f.ports = nil
}

// join carries bytes to and fro until one side ends.
func (f *far) join(c net.Conn, to string) {
	defer c.Close()
	s, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer s.Close()
	ended := make(chan struct{}, 2)
	for _, way := range [][2]net.Conn{{c, s}, {s, c}} {
		go func() { // ends with either connection
			io.Copy(way[0], way[1]) //nolint:errcheck // however it ends
			ended <- struct{}{}
		}()
	}
	select {
	case <-ended:
	case <-f.done:
	}
}

// publish goes on until the test ends: there are always messages that an upgrade may lose.
func (f *far) publish() {
	f.wg.Go(func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-f.done:
				return
			case <-tick.C:
				n := f.published.Load()
				f.broker.Publish("dev/d1", 1, false, fmt.Appendf(nil, `{"n": %d}`, n))
				f.published.Add(1)
			}
		}
	})
}

// upgradableConfig has two pipelines that keep state, in both kinds of store, with results that leave at once and with checkpoints.
func upgradableConfig() string {
	pipeline := func(name, store string) string {
		return fmt.Sprintf(`  %s:
    start: earliest
    checkpoint: {interval: 1s, store: %s}
    steps:
      - {uid: total, from: telemetry, by: [device], delta: {value: n, as: step}}
    sinks:
      - {uid: now-%[1]s, from: total, commit: immediate, http: {url: "http://127.0.0.1:%[3]d/weir"}}
      - {uid: later-%[1]s, from: total, http: {url: "http://127.0.0.1:%[3]d/weir"}}
`, name, store, receiverPort)
	}
	return fmt.Sprintf(`gateway: gw
state_dir: /var/lib/weir
security: {allow_private: true}
fleet: {root: /etc/weir/fleet/root.json}
upgrade: {backend: self, probation: 0s}
brokers: {plant: {url: "tcp://127.0.0.1:%d"}}
sources:
  telemetry: {mqtt: {broker: plant, topic: "dev/{device}"}, fields: {n: int}}
pipelines:
%s%s`, brokerPort, pipeline("one", "log"), pipeline("two", "bbolt"))
}

const farStreams = 4

// count judges what the receiver holds: of the first n messages each stream has each once, and its step from the one before is 1. Less than all is no verdict yet.
func (f *far) count(n int) (lost, duplicate, wrong int, err error) {
	names, err := f.receiver.Streams()
	if err != nil {
		return 0, 0, 0, err
	}
	lost = n * (farStreams - len(names))
	for _, name := range names {
		stream, err := wire.ParseStream(name)
		if err != nil {
			return 0, 0, 0, err
		}
		seen := make([]int, n)
		err = f.receiver.Records(stream, func(_ uint64, l wire.Line) error {
			var row struct{ N, Step *int }
			if l.Data == nil || json.Unmarshal(l.Data, &row) != nil || row.N == nil || *row.N > 0 && (row.Step == nil || *row.Step != 1) {
				wrong++
				return nil
			}
			if *row.N < n {
				seen[*row.N]++
			}
			return nil
		})
		if err != nil {
			return 0, 0, 0, err
		}
		for _, times := range seen {
			if times == 0 {
				lost++
			}
			duplicate += max(0, times-1)
		}
	}
	return lost, duplicate, wrong, nil
}

// awaitAll waits until all that was published until now has arrived, and judges it.
func (f *far) awaitAll(t *testing.T) string {
	t.Helper()
	n := int(f.published.Load())
	lost, duplicate, wrong := n, 0, 0
	for deadline := time.Now().Add(rig.Patience); lost > 0 && duplicate+wrong == 0 && time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		var err error
		if lost, duplicate, wrong, err = f.count(n); err != nil {
			t.Fatal(err)
		}
	}
	verdict := fmt.Sprintf("lost %d duplicate %d", lost, duplicate)
	if lost+duplicate+wrong > 0 {
		t.Errorf("of %d messages: %s, wrong %d", n, verdict, wrong)
	}
	return verdict
}

// listenAt opens a port on the machine's loopback; 0: any.
func (m *machine) listenAt(t *testing.T, port int) net.Listener {
	t.Helper()
	type opened struct {
		l   net.Listener
		err error
	}
	done := make(chan opened)
	go func() { // its thread is in the machine's network, and ends with the goroutine: it is not unlocked
		runtime.LockOSThread()
		ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", m.init.Process.Pid))
		if err == nil {
			defer ns.Close()
			err = unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET)
		}
		if err != nil {
			done <- opened{err: err}
			return
		}
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		done <- opened{l, err}
	}()
	o := <-done
	if o.err != nil {
		t.Fatal(errors.Join(errors.New("listen in the machine"), o.err))
	}
	t.Cleanup(func() { o.l.Close() })
	return o.l
}
