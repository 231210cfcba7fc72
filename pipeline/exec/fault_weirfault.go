//go:build weirfault

package exec

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"time"

	"github.com/weirstream/weir/pipeline"
)

// plantedArrival: WEIR_FAULT=merge-by-arrival. Set once, before main.
var plantedArrival = os.Getenv("WEIR_FAULT") == "merge-by-arrival"

// plantedOther: WEIR_FAULT=not-deterministic.
var plantedOther = os.Getenv("WEIR_FAULT") == "not-deterministic"

// otherResult is the planted fault "a result that differs at each run": it tells which process made it. The comparison of chains must find it.
func otherResult(payload []byte) []byte {
	if !plantedOther || len(payload) < 2 {
		return payload
	}
	return append(payload[:len(payload)-1], fmt.Sprintf(`,"made_by":%d}`, os.Getpid())...)
}

// plantedHang: WEIR_HANG_TASK=FILE. A task does not return, once: if the file can be removed. The watchdog must find it.
func plantedHang() {
	if once, asked := os.LookupEnv("WEIR_HANG_TASK"); asked && os.Remove(once) == nil {
		time.Sleep(24 * time.Hour)
	}
}

// arrival is the planted fault "merge by arrival": an input's rows may reach the merge with the next batch, as if its producer were slow
// and nobody waited for it. The crash run must find it with commit: immediate.
type arrival struct {
	held  [][]pipeline.Row
	edges []edge
	refs  []*edge
}

func (a *arrival) delay(inputs []*edge) []*edge {
	if !plantedArrival || len(inputs) < 2 {
		return inputs
	}
	if a.edges == nil {
		a.held, a.edges, a.refs = make([][]pipeline.Row, len(inputs)), make([]edge, len(inputs)), make([]*edge, len(inputs))
	}
	for i, in := range inputs {
		rows := append(slices.Clone(a.held[i]), in.rows...)
		a.held[i] = nil
		if len(rows) > 0 && rand.IntN(2) == 0 {
			keep := rand.IntN(len(rows))
			rows, a.held[i] = rows[:keep], rows[keep:]
		}
		a.edges[i] = edge{rows: rows, marks: in.marks}
		a.refs[i] = &a.edges[i]
	}
	return a.refs
}

// planted: a step whose input is held back takes its batch in one piece.
func (*arrival) planted() bool { return plantedArrival }
