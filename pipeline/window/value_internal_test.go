package window

import (
	"errors"
	"testing"

	"github.com/weirstream/weir/pipeline"
)

// TestValuesOfNoSizeAreRefused: a damaged length is larger than an int of 32 bits, in which it would be negative.
func TestValuesOfNoSizeAreRefused(t *testing.T) {
	for _, size := range [][]byte{{255, 255, 255, 255}, {251, 255, 255, 255}, {0, 0, 0, 128}, {255, 255, 255, 127}, {4, 0, 0, 0}} {
		if n, err := valueBytes(append(append([]byte{byte(pipeline.String)}, size...), "abc"...)); !errors.Is(err, ErrState) {
			t.Errorf("length %x: %d bytes, %v", size, n, err)
		}
	}
	if n, err := valueBytes([]byte{byte(pipeline.String), 3, 0, 0, 0, 'a', 'b', 'c'}); n != 8 || err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
}
