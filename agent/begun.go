package agent

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/weirstream/weir/store/disk"
)

// begunFile in the pipeline's directory says that it once had a checkpoint: a store that was removed, or whose disk is not mounted, is
// then not taken for that of a new pipeline.
const begunFile = "begun"

func (a *attempt) begunPath() string {
	return filepath.Join(a.agent.pipelinesDir(), a.id.String(), begunFile)
}

func (a *attempt) begun() bool {
	_, err := os.Stat(a.begunPath())
	return err == nil
}

// begin notes that there is a checkpoint. Durable before the first record is read.
func (a *attempt) begin() error {
	if a.begun() {
		return nil
	}
	if err := disk.WriteFileAtomic(disk.OS, a.begunPath(), nil); err != nil {
		return fmt.Errorf("note that the pipeline has begun: %w", err)
	}
	return nil
}
