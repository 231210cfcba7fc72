package agent

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/weirstream/weir/pipeline/plan"
	"github.com/weirstream/weir/snapshot"
	"github.com/weirstream/weir/store/disk"
)

// The content of a lookup's file is part of the plan. So that an edited file does not make a pipeline's checkpoints unusable, the content
// that they were made with is kept in the pipeline's directory, and the pipeline goes on with it: the journal behind the checkpoint is
// replayed with the rows that it was worked on with before, and what was sent already is made again as it was.

// lookupsFile holds the files of one plan: lookups-HASH.json in the pipeline's directory, HASH being the plan's.
const lookupsFile = "lookups-"

// keptLookup is the file of one step.
type keptLookup struct {
	Step string `json:"step"`
	File string `json:"file"`
	Data []byte `json:"data"`
}

func (a *attempt) dir() string { return filepath.Join(a.agent.pipelinesDir(), a.id.String()) }

func lookupsName(hash [32]byte) string { return lookupsFile + hex.EncodeToString(hash[:]) + ".json" }

// keepLookups writes down the files that the plan's lookups have now, before a checkpoint can name the plan, and removes those of other
// plans. Repeating it is harmless. Durable on return.
func (a *attempt) keepLookups(steps []*plan.StepSpec) error {
	var kept []keptLookup
	for _, s := range steps {
		if s.Lookup != nil {
			kept = append(kept, keptLookup{Step: s.UID.Value, File: s.Lookup.File.Value, Data: s.Lookup.Data})
		}
	}
	name := lookupsName(a.graph.Hash)
	if _, err := os.Stat(filepath.Join(a.dir(), name)); len(kept) > 0 && errors.Is(err, fs.ErrNotExist) {
		data, err := json.Marshal(kept)
		if err == nil {
			err = disk.WriteFileAtomic(disk.OS, filepath.Join(a.dir(), name), data)
		}
		if err != nil {
			return fmt.Errorf("keep the lookup files of the plan: %w", err)
		}
	}
	names, err := disk.OS.List(a.dir())
	if err != nil {
		return fmt.Errorf("keep the lookup files of the plan: %w", err)
	}
	for _, other := range names {
		if strings.HasPrefix(other, lookupsFile) && other != name {
			a.tell("remove the lookup files of an earlier plan", disk.OS.Remove(filepath.Join(a.dir(), other)))
		}
	}
	return nil
}

// earlierLookups makes the graph of a checkpoint whose plan differs from the config's in the content of lookup files alone; nil when it
// differs in something else, or the files were not kept.
func (a *attempt) earlierLookups(m *snapshot.Manifest) (graph *plan.Graph, steps []*plan.StepSpec, changed []string) {
	data, err := disk.ReadFile(disk.OS, filepath.Join(a.dir(), lookupsName(m.PlanHash)))
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			a.log.Warn("the kept lookup files are not readable", "error", err)
		}
		return nil, nil, nil
	}
	var kept []keptLookup
	if err := json.Unmarshal(data, &kept); err != nil {
		a.log.Warn("the kept lookup files are not readable", "error", err)
		return nil, nil, nil
	}
	spec := a.spec.Spec
	spec.Steps = slices.Clone(spec.Steps)
	for i, s := range spec.Steps {
		at := slices.IndexFunc(kept, func(k keptLookup) bool { return s.Lookup != nil && k.Step == s.UID.Value })
		if at < 0 || string(kept[at].Data) == string(s.Lookup.Data) {
			continue
		}
		step, lookup := *s, *s.Lookup
		lookup.Data = kept[at].Data
		step.Lookup = &lookup
		spec.Steps[i] = &step
		changed = append(changed, lookup.File.Value)
	}
	graph, _, _ = plan.Compile(&spec)
	if graph == nil || graph.Hash != m.PlanHash { // the hash proves that the files are those
		return nil, nil, nil
	}
	return graph, spec.Steps, changed
}

// lookupFiles names the files of the plan's lookups, "" when it has none.
func (a *attempt) lookupFiles() string {
	var files []string
	for _, s := range a.spec.Steps {
		if s.Lookup != nil && !slices.Contains(files, s.Lookup.File.Value) {
			files = append(files, s.Lookup.File.Value)
		}
	}
	return strings.Join(files, ", ")
}
