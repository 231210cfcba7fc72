package rig

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// ErrNoMosquitto: the broker is not installed (make deps).
var ErrNoMosquitto = errors.New("mosquitto is not installed; run make deps")

// Mosquitto is a real broker on a free loopback port, with persistence in a directory of its own.
type Mosquitto struct {
	Addr  string
	dir   string
	path  string
	child *Child
}

// mosquittoConfig: a window that group commits fill, queues that hold a whole run, snapshots on SIGTERM.
const mosquittoConfig = `listener %s 127.0.0.1
allow_anonymous true
persistence true
persistence_location %s/
autosave_interval 1
max_inflight_messages 1000
max_queued_messages 1000000
max_queued_bytes 0
max_packet_size 8388608
set_tcp_nodelay true
log_dest stderr
log_type error
log_type warning
`

// StartMosquitto starts a broker; extra lines are added to its config.
func StartMosquitto(dir, extra string) (*Mosquitto, error) {
	path, err := exec.LookPath("mosquitto")
	if err != nil {
		if path = "/usr/sbin/mosquitto"; !executable(path) { // Debian's place, not on everybody's PATH
			return nil, ErrNoMosquitto
		}
	}
	addr, err := FreeAddr()
	if err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(addr)
	m := &Mosquitto{Addr: addr, dir: dir, path: path}
	config := fmt.Sprintf(mosquittoConfig, port, dir) + extra
	if os.Getuid() == 0 {
		config += "user root\n" // else it changes to a user that may not write dir
	}
	if err := os.WriteFile(filepath.Join(dir, "mosquitto.conf"), []byte(config), 0o644); err != nil {
		return nil, fmt.Errorf("write mosquitto.conf: %w", err)
	}
	return m, m.start()
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode()&0o111 != 0
}

func (m *Mosquitto) start() error {
	child, err := StartChild(filepath.Join(m.dir, "mosquitto.log"), nil, m.path, "-c", filepath.Join(m.dir, "mosquitto.conf"))
	if err != nil {
		return err
	}
	m.child = child
	if err := WaitListening(m.Addr, child); err != nil {
		m.child.Kill()
		return fmt.Errorf("start mosquitto: %w", err)
	}
	return nil
}

// Restart stops the broker with SIGTERM, so that it saves its sessions, and starts it on the same port.
func (m *Mosquitto) Restart() error {
	if err := m.Stop(); err != nil {
		return err
	}
	return m.start()
}

// Stop is SIGTERM.
func (m *Mosquitto) Stop() error { return m.child.Stop(Patience) }

// Kill is kill -9: the broker comes back from its last snapshot.
func (m *Mosquitto) Kill() { m.child.Kill() }

// Start starts the broker again after Stop or Kill.
func (m *Mosquitto) Start() error { return m.start() }

// WaitListening waits until somebody accepts connections; not when the process that is to do so has ended. nil: it is none of ours.
func WaitListening(addr string, server *Child) error {
	var ended <-chan struct{}
	if server != nil {
		ended = server.Done()
	}
	for deadline := time.Now().Add(Patience); ; {
		c, err := net.DialTimeout("tcp", addr, Patience)
		if err == nil {
			return c.Close()
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("wait for %s: %w", addr, err)
		}
		select {
		case <-ended:
			return fmt.Errorf("wait for %s: the server has ended: %w", addr, err)
		case <-time.After(pollEvery):
		}
	}
}
