package config

import (
	"fmt"
	"strconv"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/plan"
)

// parallelismKind is a number of instances, or auto: one per core.
type parallelismKind struct{}

func (k parallelismKind) label() string {
	return fmt.Sprintf("a whole number from 1 to %d, or auto", pipeline.KeyGroups)
}
func (k parallelismKind) schema() map[string]any {
	return map[string]any{"anyOf": []any{
		map[string]any{"type": "integer", "minimum": 1, "maximum": pipeline.KeyGroups}, map[string]any{"const": "auto"},
	}}
}

func (parallelismKind) reads(*int) {}
func (k parallelismKind) read(r *reader, n *node, place any) {
	into := place.(*int)
	if n.shape == shapeScalar && n.text == "auto" {
		*into = plan.ParallelismAuto
		return
	}
	i, err := strconv.Atoi(n.text)
	if n.shape != shapeScalar || n.scalar != scalarInt || err != nil || i < 1 || i > pipeline.KeyGroups {
		r.wrong(n, k.label())
		return
	}
	*into = i
}
