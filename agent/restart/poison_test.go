package restart

import (
	"errors"
	"fmt"
	"testing"

	"github.com/weirstream/weir/pipeline/exec"
)

func TestPoisonsAreCounted(t *testing.T) {
	at := exec.Poison{Step: "s", Position: 7}
	failure := fmt.Errorf("task main: %w", &exec.PoisonError{Poison: at, Cause: "x"})
	p := Poisons{Tolerate: 3}
	for try := 1; try <= 3; try++ {
		p.Failed(errors.New("something else"))
		tries, skipped, which := p.Failed(failure)
		if tries != try || skipped != (try == 3) || which != at {
			t.Errorf("try %d: %d %v %v", try, tries, skipped, which)
		}
	}
	if len(p.Skip) != 1 || p.Skip[0] != at {
		t.Errorf("skips %v", p.Skip)
	}
	never := Poisons{}
	for range 10 {
		if _, skipped, _ := never.Failed(failure); skipped {
			t.Error("tolerate: 0 went on without the record")
		}
	}
}
