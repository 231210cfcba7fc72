package uplinktest

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weirstream/weir/uplink"
)

// runUpstream drives senders of rising incarnations over a simulated upstream and gives the first difference.
func runUpstream(t *testing.T, seed uint64, planted Planted) error {
	t.Helper()
	rnd := rand.New(rand.NewPCG(seed, 0))
	u := NewUpstream(rnd)
	u.Planted = planted
	q := NewQueue(1, 0)
	var want []string
	inc := uplink.Incarnation{Major: 1}
	for range 5 {
		for range 40 {
			p := fmt.Sprintf("r%d", len(want)+1)
			want = append(want, p)
			q.Add(p)
		}
		if err := Drive(t.Context(), q, u.Connect(), inc, 1, uint64(len(want))); err != nil {
			return err
		}
		inc.Minor++
	}
	return Exact(u.Records(), want, nil)
}

func TestSenderOverEveryFault(t *testing.T) {
	base := uint64(time.Now().UnixNano())
	t.Logf("seed %d", base)
	for i := range uint64(40) {
		if err := runUpstream(t, base+i, Planted{}); err != nil {
			t.Fatalf("seed %d: %v", base+i, err)
		}
	}
}

func TestRule17_PlantedOpenReturnsHighest(t *testing.T) { mustFind(t, Planted{OpenHighest: true}) }

func TestRule16_PlantedDedupByBatch(t *testing.T) { mustFind(t, Planted{DedupByBatch: true}) }

// mustFind shows that the check above can fail.
func mustFind(t *testing.T, p Planted) {
	t.Helper()
	for seed := range uint64(40) {
		if err := runUpstream(t, seed, p); err != nil {
			t.Logf("found with seed %d: %v", seed, err)
			return
		}
	}
	t.Fatal("the planted fault was not found")
}
