package systemd

import (
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eclipse/paho.mqtt.golang/packets"

	"github.com/weirstream/weir/tests/rig"
)

// TestCredentials: a password in /etc/weir/credentials, which the service cannot read there, is handed over; one that is missing is named, and the rest goes on.
func TestCredentials(t *testing.T) {
	m := installed(t)
	l := m.listen(t)
	passwords := make(chan string, 100)
	var group sync.WaitGroup
	group.Go(func() { connects(l, passwords) })
	t.Cleanup(func() { l.Close(); group.Wait() })
	text := strings.Replace(pipelineConfig(l.Addr().String()), "}}", `", username: gw, password_file: "credential:mqtt.password"}}`, 1)
	m.write(t, "/etc/weir/weir.yaml", strings.Replace(text, `"", username`, `", username`, 1))
	cursor := m.cursor(t)
	m.run(t, "systemctl", "restart", "weir")
	m.await(t, "it is active without it", m.active)
	said := ""
	m.await(t, "it says what is missing", func() bool {
		said = strings.ReplaceAll(m.said(t, cursor), `\"`, `"`)
		return strings.Contains(said, "is missing")
	})
	for _, want := range []string{`credential "mqtt.password" is missing`, "/etc/weir/weir.yaml:4:", "/etc/weir/credentials/mqtt.password"} {
		if !strings.Contains(said, want) {
			t.Errorf("the journal does not say %q:\n%s", want, said)
		}
	}
	if out, _ := m.try("weir", "check"); !strings.Contains(out, `credential "mqtt.password" is missing`) {
		t.Errorf("weir check says: %s", out)
	}
	m.write(t, "/etc/weir/credentials/mqtt.password", "hunter2\n")
	m.run(t, "chmod", "600", "/etc/weir/credentials/mqtt.password")
	if out, err := m.try("setpriv", "--reuid", "weir", "--regid", "weir", "--clear-groups", "cat", "/etc/weir/credentials/mqtt.password"); err == nil {
		t.Errorf("the user weir can read it: %s", out)
	}
	cursor = m.cursor(t)
	m.run(t, "systemctl", "restart", "weir")
	for deadline := time.After(rig.Patience); ; {
		select {
		case got := <-passwords:
			if got == "" {
				continue
			}
			if got != "hunter2" {
				t.Fatalf("the broker got %q", got)
			}
		case <-deadline:
			t.Fatal("the broker got no password")
		}
		break
	}
	if said := m.said(t, cursor); strings.Contains(said, "is missing") || strings.Contains(said, "hunter2") {
		t.Errorf("the journal says:\n%s", said)
	}
	// The directory itself away: systemd makes it, and does not refuse the start.
	m.run(t, "rm", "-r", "/etc/weir/credentials")
	m.run(t, "systemctl", "restart", "weir")
	m.await(t, "it is active without the directory", m.active)
}

// connects takes connections, as a broker that is never well, and tells the passwords of their CONNECT packets.
func connects(l net.Listener, passwords chan<- string) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		p, err := packets.ReadPacket(c)
		c.Close()
		if connect, is := p.(*packets.ConnectPacket); err == nil && is {
			select {
			case passwords <- string(connect.Password):
			default:
			}
		}
	}
}
