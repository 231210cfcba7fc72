package central

import (
	"errors"
	"fmt"
	"slices"
	"testing"
)

const hourMs = int64(3_600_000)

// grace uploads beside an object that no upload needs, as one leaves that was given up, by the store's clock. The object must stay until it is 24 h old and was found twice, and then go.
func grace(t *testing.T, plant planted) error {
	w := newWorld(t, 13)
	w.plant = plant
	w.start()
	upload := func() error {
		w.checkpoint(5)
		if _, err := w.cut(); err != nil {
			return err
		}
		return w.drive()
	}
	if err := upload(); err != nil {
		return err
	}
	stray := w.up.names.Of(KindObject, Sum([]byte("stray")))
	if err := w.bucket.Put(t.Context(), stray, []byte("stray")); err != nil {
		return err
	}
	there := func() bool { return slices.Contains(w.bucket.Names(""), stray) }
	for h := range int64(24) {
		if err := upload(); err != nil {
			return err
		}
		if !there() {
			return fmt.Errorf("an object of %d h was collected", h)
		}
		w.bucket.Advance(hourMs)
	}
	w.bucket.Advance(1)
	if err := upload(); err != nil {
		return err
	}
	if !there() {
		return errors.New("an object was collected the first time that it was found")
	}
	if err := upload(); err != nil {
		return err
	}
	if there() {
		return errors.New("an object that nothing needs stays for ever")
	}
	_, err := w.check(w.bucket.Clone(), w.id)
	return err
}

// TestGraceOfCollection: 24 hours, by the store's clock, and twice; both are needed.
func TestGraceOfCollection(t *testing.T) {
	if err := grace(t, planted{}); err != nil {
		t.Fatal(err)
	}
	for name, plant := range map[string]planted{"what is young is collected": {young: true}, "at first sight": {once: true}} {
		err := grace(t, plant)
		if err == nil {
			t.Errorf("the planted fault (%s) was not found", name)
		}
		t.Logf("%s: %v", name, err)
	}
}
