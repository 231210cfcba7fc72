package savepoint

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"os"
	"testing"

	"github.com/fxamacker/cbor/v2"

	"github.com/weirstream/weir/store/log"
)

// seal puts the right sha256 at the end: what the checksum cannot find.
func seal(b []byte) []byte {
	sum := sha256.Sum256(b[:len(b)-32])
	return append(bytes.Clone(b[:len(b)-32]), sum[:]...)
}

func TestNewerVersionIsNotDamage(t *testing.T) {
	head, _ := encoding.Marshal(cbor.Tag{Number: selfDescribed, Content: map[string]any{"format": Format, "version": 2, "writer": "9.9", "else": 1}})
	b := seal(append(head, make([]byte, 32)...))
	_, err := Open(t.Context(), bytes.NewReader(b), int64(len(b)), log.NewCodec(), nil)
	if !errors.Is(err, ErrVersion) || errors.Is(err, ErrCorrupt) {
		t.Fatal(err)
	}
}

// FuzzOpen: whatever a file holds behind a right checksum, Open gives an error or a file that can be read to its end.
func FuzzOpen(f *testing.F) {
	golden, err := os.ReadFile("testdata/savepoint-v1.cbor")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(golden)
	codec := log.NewCodec()
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < 32 {
			return
		}
		b = seal(b)
		file, err := Open(t.Context(), bytes.NewReader(b), int64(len(b)), codec, nil)
		if err != nil {
			return
		}
		for i := range file.Head.Tables {
			if err := file.table(i, func(_, _, _ []byte) error { return nil }); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestByteStringsHaveOneForm(t *testing.T) {
	for _, n := range []int{0, 1, 23, 24, 255, 256, 65535, 65536, 1 << 20} {
		b := appendBytes(nil, make([]byte, n))
		lib, _ := encoding.Marshal(make([]byte, n))
		if !bytes.Equal(b, lib) {
			t.Errorf("%d bytes: not as the library writes them", n)
		}
		if s, rest, ok := nextBytes(b); !ok || len(s) != n || len(rest) != 0 {
			t.Errorf("%d bytes: read %d, %v", n, len(s), ok)
		}
	}
	for _, long := range [][]byte{{0x58, 5, 1, 2, 3, 4, 5}, {0x59, 0, 1, 1}, {0x5a, 0, 0, 0, 1, 1}, {0x5f, 0x41, 1, 0xff}} {
		if _, _, ok := nextBytes(long); ok {
			t.Errorf("% x is read", long)
		}
	}
}
