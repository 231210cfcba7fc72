package known

import (
	"os"
	"testing"

	"github.com/weirstream/weir/tests/rig"
)

// weir is the program under test, built once.
var weir string

func TestMain(m *testing.M) { os.Exit(rig.RunWithWeir(m, &weir)) }
