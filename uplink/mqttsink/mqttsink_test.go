package mqttsink

import (
	"fmt"
	"testing"

	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/uplinktest"
)

var one = uplink.Incarnation{Major: 1}

func row(n int) string { return fmt.Sprintf(`{"n":%d}`, n) }

func TestConformance(t *testing.T) {
	for _, qos := range []int{1, 2} {
		t.Run(fmt.Sprintf("QoS %d", qos), func(t *testing.T) {
			uplinktest.Run(t, func(t testing.TB) uplinktest.Far { return startBroker(t, qos, "") }, uplinktest.Options{AtLeastOnce: true})
		})
	}
}
