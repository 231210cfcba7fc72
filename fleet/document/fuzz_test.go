package document

import (
	"bytes"
	"errors"
	"testing"
)

// again checks that a document that was read is written and read again as the same bytes. Reports that were cleaned are their own.
func again[T interface{ Encode() ([]byte, error) }](t *testing.T, payload []byte, decode func([]byte) (T, error)) {
	v, err := decode(payload)
	if err != nil {
		if !errors.Is(err, ErrForm) {
			t.Errorf("an error of another kind: %v", err)
		}
		return
	}
	b, err := v.Encode()
	if err != nil {
		t.Fatalf("read, but not written: %v", err)
	}
	w, err := decode(b)
	if err != nil {
		t.Fatalf("written, but not read: %v", err)
	}
	if c, err := w.Encode(); err != nil || !bytes.Equal(b, c) {
		t.Errorf("%v\n%s\n%s", err, b, c)
	}
}

func seed(f *testing.F, v interface{ Encode() ([]byte, error) }) {
	b, err := v.Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
}

func FuzzDecodeRelease(f *testing.F) {
	seed(f, aRelease())
	f.Fuzz(func(t *testing.T, b []byte) {
		again(t, b, DecodeRelease)
		if r, err := DecodeRelease(b); err == nil {
			for _, a := range r.Artifacts {
				board := ""
				if len(a.Boards) > 0 {
					board = a.Boards[0]
				}
				if found, err := r.Find(a.Backend, a.Arch, board); err != nil || found.SHA256 != a.SHA256 {
					t.Errorf("%s is not found: %v", a.who(), err)
				}
			}
		}
	})
}

func FuzzDecodeRollout(f *testing.F) {
	seed(f, aRollout())
	f.Fuzz(func(t *testing.T, b []byte) { again(t, b, DecodeRollout) })
}

func FuzzDecodeCommands(f *testing.F) {
	seed(f, someCommands())
	f.Fuzz(func(t *testing.T, b []byte) { again(t, b, DecodeCommands) })
}

func FuzzDecodeState(f *testing.F) {
	seed(f, aState())
	f.Fuzz(func(t *testing.T, b []byte) { again(t, b, DecodeState) })
}

func FuzzDecodeProgress(f *testing.F) {
	seed(f, aProgress())
	f.Fuzz(func(t *testing.T, b []byte) { again(t, b, DecodeProgress) })
}

func FuzzDecodeResult(f *testing.F) {
	seed(f, aResult())
	f.Fuzz(func(t *testing.T, b []byte) { again(t, b, DecodeResult) })
}
