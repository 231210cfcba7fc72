package mqtt

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/weirstream/weir/tests/rig"
)

// TestMosquitto kills the agent again and again while a real broker delivers.
func TestMosquitto(t *testing.T) {
	m, err := rig.StartMosquitto(t.TempDir(), "")
	if errors.Is(err, rig.ErrNoMosquitto) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Stop() })
	for _, qos := range []byte{1, 2} {
		c := testConfig("mqtt://"+m.Addr, qos, fmt.Sprintf("q%d/#", qos))
		c.ClientID = fmt.Sprint("gw-q", qos)
		j := newMemJournal()
		a := startAgent(t, j, c, faults{})
		a.waitReady()
		p := rig.NewPublisher(rig.PublisherConfig{Addr: m.Addr, ClientID: fmt.Sprint("pub", qos), QoS: qos, Window: 50})
		ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
		var want []string
		for i := range 3000 {
			want = append(want, fmt.Sprint("m", i))
			if err := p.Publish(ctx, fmt.Sprintf("q%d/1", qos), false, []byte(want[i])); err != nil {
				t.Fatal(err)
			}
			if i%300 == 150 { // a power cut: half of what was not synced survives
				a.kill()
				j = j.reborn(j.unsynced() / 2)
				a = startAgent(t, j, c, faults{})
			}
			if i == 1500 {
				if err := p.Flush(ctx); err != nil {
					t.Fatal(err)
				}
				if err := m.Restart(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := p.Flush(ctx); err != nil {
			t.Fatal(err)
		}
		cancel()
		p.Close()
		a.waitMessages(len(want))
		a.stop()
		if wrong := verdict(want, payloadsOf(a.journal.all())); wrong != "" {
			t.Errorf("QoS %d: %s", qos, wrong)
		}
	}
}
