//go:build weirfault

package expr

import (
	"math/rand/v2"

	"github.com/weirstream/weir/pipeline"
)

// withPlanted adds random(x), an int of 0 to 999 whatever x is: the crash run needs a step that is not deterministic to find results that
// leave before their manifest (RULES 14).
func withPlanted(all map[string]*function) map[string]*function {
	all["random"] = &function{
		usage: "random(x)", min: 1, max: 1, args: []kindSet{anyMask}, result: always(intMask), chance: true,
		one: func(value) value { return pipeline.IntValue(rand.Int64N(1000)) },
	}
	return all
}
