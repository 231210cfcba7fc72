package statedir

import (
	"path/filepath"

	"github.com/weirstream/weir/agent/record"
)

// Small is the form of a small file in a pipeline's directory: version 1 is all that there is yet.
func Small(name string) record.Form { return record.Form{What: filepath.Base(name), Reads: 1} }
