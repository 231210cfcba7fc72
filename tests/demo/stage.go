package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirstream/weir/tests/rig"
	"github.com/weirstream/weir/uplink/receiver"
)

// stage is the processes of a run: broker, publisher and receiver in this one, the agent as a child. loop (in play.go) owns it.
// Goroutines: the HTTP server, the feeder, the watcher of the agent's status; close ends and awaits them.
type stage struct {
	o         options
	rec       *recording
	dir       string
	upstream  string // the receiver's directory
	config    string
	broker    *rig.Broker
	publisher *rig.Publisher
	receiver  *receiver.Receiver
	server    *http.Server
	agent     *rig.Child
	oracle    *oracle
	watcher   *watcher
	wg        sync.WaitGroup
	begun     time.Time

	device    *device
	published atomic.Int64
	kills     int
}

func newStage(o options) (s *stage, err error) {
	s = &stage{o: o, begun: time.Now()}
	if s.rec, err = loadRecording(o.data); err != nil {
		return nil, err
	}
	known, err := loadAnswers(&o, s.rec)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.dir, 0o750); err != nil {
		return nil, fmt.Errorf("make directory: %w", err)
	}
	if s.dir, err = os.MkdirTemp(o.dir, "demo-"); err != nil {
		return nil, fmt.Errorf("make directory: %w", err)
	}
	if s.dir, err = filepath.Abs(s.dir); err != nil {
		return nil, fmt.Errorf("find directory: %w", err)
	}
	s.device = deviceOf(s.dir)
	if err := s.open(known); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *stage) open(known *answers) (err error) {
	if s.broker, err = rig.NewBroker(rig.BrokerConfig{}); err != nil {
		return err
	}
	if s.upstream, err = s.makeUpstream(); err != nil {
		return err
	}
	s.receiver, err = receiver.Open(receiver.Options{
		Path: filepath.Join(s.upstream, "receiver.db"), Config: receiver.Default(), Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen for the receiver: %w", err)
	}
	s.server = &http.Server{Handler: s.receiver, ReadHeaderTimeout: 10 * time.Second}
	s.wg.Go(func() { s.server.Serve(listener) }) // ends with Close, and then its error says so
	if err := s.writeConfig(listener.Addr().String()); err != nil {
		return err
	}
	jams, err := exec.Command(s.o.weir, "replay", "--pipeline", s.config, "--input", filepath.Join(s.o.data, "arrivals.jsonl"), "--sink", "jams", "-q").Output()
	if err != nil {
		return fmt.Errorf("run %s replay (make build makes it): %w", s.o.weir, err)
	}
	if known.jams, err = jamsAnswer(string(jams), s.rec); err != nil {
		return err
	}
	s.oracle = newOracle(s.receiver, s.rec, known, s.o.forever)
	if err := s.startAgent(); err != nil {
		return err
	}
	s.watcher = newWatcher(filepath.Join(s.dir, "weir.sock"))
	s.wg.Go(s.watcher.run)
	s.publisher = rig.NewPublisher(rig.PublisherConfig{Addr: s.broker.Addr(), ClientID: "road-sensors", QoS: 1})
	return nil
}

// makeUpstream makes the receiver's directory in memory where there is such a place: upstream is another machine, what it writes
// is not to count as the gateway's.
func (s *stage) makeUpstream() (dir string, err error) {
	if dir, err = os.MkdirTemp("/dev/shm", "weir-demo-"); err == nil {
		return dir, nil
	}
	if dir, err = os.MkdirTemp(s.dir, "upstream-"); err != nil {
		return "", fmt.Errorf("make the receiver's directory: %w", err)
	}
	return dir, nil
}

// writeConfig is configs/demo.yaml with this run's ports and directory.
func (s *stage) writeConfig(receiverAddr string) error {
	text, err := os.ReadFile(s.o.config)
	if err != nil {
		return fmt.Errorf("read demo config: %w", err)
	}
	replace := []string{"127.0.0.1:18830", s.broker.Addr(), "127.0.0.1:18831", receiverAddr, "/tmp/weir-demo", s.dir}
	if s.o.forever { // passes go into the future, and a file sink would fill the disk
		replace = append(replace, "max_ahead: 1d", "max_ahead: never, latest: 9999-01-01",
			"      - {uid: raw, from: once, file: {path: raw.jsonl}}\n", "")
	}
	config := strings.NewReplacer(replace...).Replace(string(text)) + fmt.Sprintf("\napi: {socket: %q}\n", s.socket())
	s.config = filepath.Join(s.dir, "weir.yaml")
	if err := os.WriteFile(s.config, []byte(config), 0o640); err != nil {
		return fmt.Errorf("write demo config: %w", err)
	}
	return nil
}

func (s *stage) socket() string { return filepath.Join(s.dir, "weir.sock") }

func (s *stage) startAgent() (err error) {
	s.agent, err = rig.StartChild(s.log(), nil, s.o.weir, "run", "-c", s.config)
	return err
}

func (s *stage) log() string { return filepath.Join(s.dir, "agent.log") }

// kill is kill -9 and a new start.
func (s *stage) kill() error {
	s.agent.Kill()
	s.kills++
	return s.startAgent()
}

// alive tells when the agent ended by itself.
func (s *stage) alive() error {
	select {
	case <-s.agent.Done():
		return fmt.Errorf("the agent ended by itself:\n%s", s.logEnd())
	default:
		return nil
	}
}

func (s *stage) logEnd() string {
	b, err := os.ReadFile(s.log())
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-4000):])
}

// feed publishes pass after pass, evenly, and behind the last one the message that ends every window.
func (s *stage) feed(ctx context.Context) error {
	pause := s.o.play / time.Duration(len(s.rec.messages))
	for pass := int64(0); ; pass++ {
		start := time.Now()
		for n := range s.rec.messages {
			if ahead := time.Duration(n)*pause - time.Since(start); ahead > 5*time.Millisecond {
				if err := sleep(ctx, ahead); err != nil {
					return err
				}
			}
			if err := s.publish(ctx, func() (string, []byte, error) { return s.rec.at(pass, n) }); err != nil {
				return err
			}
			s.published.Add(1)
		}
		if !s.o.forever {
			if err := s.publish(ctx, func() (string, []byte, error) { return s.rec.closing(pass) }); err != nil {
				return err
			}
			s.published.Add(1)
			return s.publisher.Flush(ctx)
		}
	}
}

func (s *stage) publish(ctx context.Context, next func() (string, []byte, error)) error {
	topic, payload, err := next()
	if err != nil {
		return err
	}
	if err := s.publisher.Publish(ctx, topic, false, payload); err != nil {
		return errors.Join(ctx.Err(), err)
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// nextKill is a time around the average, never the same: kills must not meet the agent always in the same moment.
func (s *stage) nextKill() time.Duration {
	return time.Duration((0.5 + rand.Float64()) * float64(s.o.killEvery))
}

// close ends everything that the stage started, in reverse, and waits for it. The agent's directory stays.
func (s *stage) close() error {
	var errs []error
	if s.publisher != nil {
		s.publisher.Close()
	}
	if s.watcher != nil {
		s.watcher.stop()
	}
	if s.agent != nil {
		s.agent.Kill() // one that has ended is not harmed
	}
	if s.server != nil {
		errs = append(errs, s.server.Close())
	}
	if s.broker != nil {
		errs = append(errs, s.broker.Close())
	}
	s.wg.Wait()
	if s.receiver != nil {
		errs = append(errs, s.receiver.Close())
	}
	if s.upstream != "" && !s.o.keep {
		errs = append(errs, os.RemoveAll(s.upstream))
	}
	return errors.Join(errs...)
}
