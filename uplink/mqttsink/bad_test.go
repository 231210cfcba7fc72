package mqttsink

import (
	"bufio"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weirstream/weir/tests/rig"
	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/uplinktest"
)

// sick stands before a broker and answers in its place until it is well.
type sick struct {
	well    atomic.Bool
	connack byte // reason of its CONNACK; 0: the broker's own
	old     bool // CONNACK of MQTT 3.1.1
	puback  byte // reason of each PUBACK; 0: the broker's own

	properties  []byte // that its CONNACK has besides the broker's own
	connections atomic.Int64
}

func (k *sick) start(t *testing.T, broker string) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	uplinktest.Must(t, err)
	var all sync.WaitGroup
	t.Cleanup(func() { l.Close(); all.Wait() })
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { k.serve(c, broker) })
		}
	})
	return l.Addr().String()
}

// serve ends with either side.
func (k *sick) serve(c net.Conn, broker string) {
	defer c.Close()
	from := bufio.NewReader(c)
	if k.connack != 0 && !k.well.Load() {
		if _, _, err := readPacket(from, nil); err != nil {
			return
		}
		answer := []byte{packetConnack << 4, 3, 0, k.connack, 0}
		if k.old {
			answer = []byte{packetConnack << 4, 2, 0, k.connack}
		}
		_, _ = c.Write(answer)
		return
	}
	far, err := net.Dial("tcp", broker)
	if err != nil {
		return
	}
	defer far.Close()
	var answers sync.WaitGroup
	answers.Go(func() {
		defer c.Close()
		from := bufio.NewReader(far)
		for {
			p, _, err := readPacket(from, nil)
			if err != nil {
				return
			}
			if p.kind == packetConnack && k.connections.Add(1) > 0 && k.properties != nil {
				_, own, err := readVarint(p.body[2:])
				if err != nil {
					return
				}
				own = append(own[:len(own):len(own)], k.properties...)
				p.body = append(appendVarint(p.body[:2:2], len(own)), own...)
			}
			if p.kind == packetPuback && k.puback != 0 && !k.well.Load() {
				p.body = append(p.body[:2:2], k.puback)
			}
			if _, err := c.Write(appendPacket(nil, p.kind, p.flags, p.body)); err != nil {
				return
			}
		}
	})
	_, _ = io.Copy(far, from)
	far.Close()
	answers.Wait()
}

// TestBadBrokers: each is named with what to do, at the rate of kinds of failure, and all is published once it is mended.
func TestBadBrokers(t *testing.T) {
	var b *broker
	refuses := func(name string, k *sick, want ...string) uplinktest.Bad {
		return uplinktest.Bad{Name: name, Want: append(want, "127.0.0.1"), Heal: func(*testing.T) { k.well.Store(true) }, Dial: func(t *testing.T) uplink.Endpoint {
			b = startBroker(t, 1, "")
			b.config.Broker.URL = "mqtt://" + k.start(t, b.Addr)
			return b.Connect(t, "a")
		}}
	}
	dir := t.TempDir()
	users, secret, acl := filepath.Join(dir, "users"), filepath.Join(dir, "secret"), filepath.Join(dir, "acl")
	write := func(t *testing.T, path, text string) { uplinktest.Must(t, os.WriteFile(path, []byte(text), 0o600)) }
	none, err := rig.FreeAddr()
	uplinktest.Must(t, err)
	access := func(name, allowed string, want ...string) uplinktest.Bad {
		return uplinktest.Bad{Name: name, Want: want,
			Dial: func(t *testing.T) uplink.Endpoint {
				write(t, acl, "topic readwrite #\nuser gw\ntopic read #\n"+allowed)
				b = startBroker(t, 1, "acl_file "+acl+"\n")
				b.config.Broker.Username = "gw"
				return b.Connect(t, "a")
			},
			Heal: func(t *testing.T) {
				write(t, acl, "topic readwrite #\nuser gw\ntopic readwrite #\n")
				b.Restart(t)
			}}
	}
	bad := []uplinktest.Bad{
		{Name: "nobody listens", Want: []string{none, "connection refused"},
			Dial: func(t *testing.T) uplink.Endpoint {
				b = startBroker(t, 1, "")
				b.config.Broker.URL = "mqtt://" + none
				return b.Connect(t, "a")
			}},
		{Name: "no such name", Want: []string{"nowhere..invalid", "no such host"},
			Dial: func(t *testing.T) uplink.Endpoint {
				b = startBroker(t, 1, "")
				b.config.Broker.URL = "mqtts://nowhere..invalid:8883"
				return b.Connect(t, "a")
			}},
		{Name: "wrong password", Want: []string{"not authorized", "password_file"}, Secret: "sesame",
			Dial: func(t *testing.T) uplink.Endpoint {
				out, err := exec.Command("mosquitto_passwd", "-b", "-c", users, "gw", "right").CombinedOutput()
				if err != nil {
					t.Skipf("NOT TESTED: make a user: %v %s", err, out)
				}
				write(t, secret, "sesame")
				b = startBroker(t, 1, "password_file "+users+"\n")
				b.config.Broker.Username, b.config.Broker.PasswordFile = "gw", secret
				return b.Connect(t, "a")
			},
			Heal: func(t *testing.T) { write(t, secret, "right\n") }},
		access("topic without the right", "topic write weir/#\n", "results/out", "not authorized", "access"),
		access("progress without the right", "topic write results/#\n", "weir/gw-1/p-1/out/progress", "not authorized", "access"),
		refuses("quota exceeded", &sick{connack: 0x97}, "quota exceeded"),
		refuses("quota exceeded by a message", &sick{puback: 0x97}, "quota exceeded"),
		refuses("server busy", &sick{connack: 0x89}, "server busy"),
		refuses("connection rate exceeded", &sick{connack: 0x9F}, "connection rate exceeded"),
		refuses("banned", &sick{connack: 0x8A}, "banned"),
		refuses("broker of MQTT 3.1.1", &sick{connack: 1, old: true}, "does not speak MQTT 5"),
	}
	bad = append(bad, uplinktest.Secured{CA: "give its CA in tls.ca",
		Server: func(t *testing.T) string { b = startBroker(t, 1, ""); return b.Addr },
		Dial: func(t *testing.T, addr, ca string) uplink.Endpoint {
			b.config.Broker.URL, b.config.Broker.CAFile, b.config.Broker.Dates = "mqtts://"+addr, ca, uplinktest.Dates
			return b.Connect(t, "a")
		}}.Certificates()...)
	for _, b := range bad {
		t.Run(b.Name, b.Run)
	}
}
