package mqtt

import (
	"math"
	"testing"
)

// TestTheOrderOfIDsIsCountedForEver: what months of messages count to can still be written into an anchor and read, with an int of 32 bits too, and
// goes on as if it were not bounded.
func TestTheOrderOfIDsIsCountedForEver(t *testing.T) {
	bounded, free := idOrder{run: orderCountMax - 3, regressions: 1 << 12}, 0
	for range 3*regressionHalves + 7 {
		bounded.observe(bounded.last+1, false, false)
		if free++; bounded.run > orderCountMax || bounded.run < proofRun {
			t.Fatalf("run of %d after %d ids", bounded.run, free)
		}
	}
	if bounded.regressions != 1<<12>>4 { // at the bound, and at each of the three multiples behind it
		t.Errorf("%d regressions are left", bounded.regressions)
	}
	again := idOrder{regressions: orderCountMax - 1}
	for range 3 { // a broker with one message in flight gives out the same id again and again
		again.observe(1, false, true)
		again.observe(1, false, true)
	}
	if again.regressions != orderCountMax || !again.scattered {
		t.Errorf("got %+v", again)
	}
	for _, o := range []idOrder{bounded, again, {last: 1, run: math.MaxInt32, regressions: math.MaxInt32}} {
		back, err := decodeAnchor(encodeAnchor(&anchor{start: 1, order: o}))
		if err != nil || back.order.run != min(o.run, orderCountMax) || back.order.regressions != min(o.regressions, orderCountMax) {
			t.Errorf("%+v comes back as %+v: %v", o, back, err)
		}
	}
}
