package optest

import (
	"fmt"
	"slices"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/expr"
)

// fields are the names that Expr knows, in the order of the slots.
var fields = [...]string{SlotKey: "key", SlotValue: "value", SlotSeq: "seq", SlotTopic: "topic"}

type env struct{}

func (env) Field(p pipeline.Path) (slot int, kind pipeline.Kind, err error) {
	if slot = slices.Index(fields[:], p.String()); slot < 0 {
		return 0, pipeline.Null, fmt.Errorf("unknown field %s", p)
	}
	return slot, pipeline.Null, nil
}

// Expr compiles an expression over the fields key, value, seq and topic, which are slots 0 to 3 and of any kind.
func Expr(src string) *expr.Program {
	p, err := expr.Compile(src, env{})
	if err != nil {
		panic(err)
	}
	return p
}
