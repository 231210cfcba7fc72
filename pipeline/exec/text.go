package exec

import (
	"strconv"

	"github.com/weirstream/weir/pipeline"
)

// valueText is a value as a person reads it, for dead letters.
func valueText(v pipeline.Value) string {
	switch v.Kind {
	case pipeline.Null:
		return "null"
	case pipeline.Bool:
		return strconv.FormatBool(v.Bool())
	case pipeline.Int:
		return strconv.FormatInt(v.Int(), 10)
	case pipeline.Uint:
		return strconv.FormatUint(v.Uint(), 10)
	case pipeline.Float:
		return strconv.FormatFloat(v.Float(), 'g', -1, 64)
	case pipeline.Error:
		return "error: " + v.Str
	}
	return v.Str
}
