package agent

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/weirstream/weir/pipeline/plan"
	"github.com/weirstream/weir/snapshot"
	"github.com/weirstream/weir/store/disk"
)

// What the plan of a pipeline's checkpoints means is kept as text in its directory, so that a pipeline that is refused because its plan has changed can
// tell in what. Nothing depends on it.

// planFile holds the meaning of one plan: plan-HASH.txt, HASH being the plan's.
const planFile = "plan-"

func planName(hash [32]byte) string { return planFile + hex.EncodeToString(hash[:]) + ".txt" }

// keepPlan writes down what the plan means, before a checkpoint can name it, and removes that of other plans. Repeating it is harmless.
func (a *attempt) keepPlan() error {
	name := planName(a.graph.Hash)
	if _, err := os.Stat(filepath.Join(a.dir(), name)); errors.Is(err, fs.ErrNotExist) {
		if err := disk.WriteFileAtomic(disk.OS, filepath.Join(a.dir(), name), []byte(plan.Meaning(a.graph))); err != nil {
			return fmt.Errorf("keep the plan: %w", err)
		}
	}
	names, err := disk.OS.List(a.dir())
	if err != nil {
		return fmt.Errorf("keep the plan: %w", err)
	}
	for _, other := range names {
		if strings.HasPrefix(other, planFile) && other != name {
			a.tell("remove an earlier plan", disk.OS.Remove(filepath.Join(a.dir(), other)))
		}
	}
	return nil
}

// difference tells in what the plan differs from that of a checkpoint: "" when that is not known.
func (a *attempt) difference(m *snapshot.Manifest) string {
	before, err := disk.ReadFile(disk.OS, filepath.Join(a.dir(), planName(m.PlanHash)))
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			a.log.Warn("the kept plan is not readable", "error", err)
		}
		return ""
	}
	return strings.Join(plan.Difference(string(before), plan.Meaning(a.graph)), ", ")
}
