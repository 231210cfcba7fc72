package exec

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/state"
)

// TestBackingFailureIsNoPoison: when the store beneath the state fails at a row, the region fails and the row is not blamed: a disk's fault must
// not make dead letters.
func TestBackingFailureIsNoPoison(t *testing.T) {
	s := newStep("s", nil, 1, 1)
	s.row = &pipeline.Row{At: pipeline.At{Pos: 7, Phase: pipeline.During}}
	err := s.failed(&state.BackingError{Table: "t", Err: io.ErrUnexpectedEOF}, nil)
	var poison *PoisonError
	if errors.As(err, &poison) || !errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(err.Error(), "step s") {
		t.Errorf("the failure is %v", err)
	}
}
