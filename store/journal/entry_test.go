package journal

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/store/disk/disktest"
	"github.com/weirstream/weir/store/log"
)

// entry makes a message entry that can be told from every other.
func entry(serial, size int) *pipeline.Entry {
	p := fmt.Appendf(nil, "payload %d ", serial)
	for len(p) < size {
		p = append(p, byte(serial+len(p)*3))
	}
	return &pipeline.Entry{
		Kind: pipeline.EntryMessage, QoS: uint8(serial % 3), Retain: serial%5 == 0, Dup: serial%7 == 0, PacketID: uint16(serial),
		Session: "plant", Source: "telemetry", Topic: fmt.Appendf(nil, "site/a/dev/%d", serial%10), Payload: p,
	}
}

func same(a, b *pipeline.Entry) bool {
	return a.Kind == b.Kind && a.QoS == b.QoS && a.Retain == b.Retain && a.Dup == b.Dup && a.PacketID == b.PacketID &&
		a.Session == b.Session && a.Source == b.Source && bytes.Equal(a.Topic, b.Topic) && bytes.Equal(a.Payload, b.Payload)
}

func TestAppendAllocatesNothing(t *testing.T) {
	c := log.Default()
	c.Linger, c.MaxUnsynced, c.ReserveBytes, c.Compress = 10e9, 64<<20, 0, false
	j, _ := mustOpen(t, Options{FS: disktest.NewMem(), Config: c})
	defer j.Close()
	e := entry(1, 100)
	for range 2000 { // grow the block
		_, _ = j.Append(e)
	}
	_ = j.Sync(t.Context())
	for range 2000 {
		_, _ = j.Append(e)
	}
	_ = j.Sync(t.Context())
	if n := testing.AllocsPerRun(500, func() { _, _ = j.Append(e) }); n != 0 {
		t.Fatalf("%v allocations per Append", n)
	}
	es := []pipeline.Entry{*e, *e}
	if n := testing.AllocsPerRun(250, func() { _, _ = j.AppendAll(es) }); n != 0 {
		t.Fatalf("%v allocations per AppendAll", n)
	}
}

func TestEntryRoundTripCutAndFlipped(t *testing.T) {
	var names interner
	for serial := range 50 {
		e := entry(serial, serial)
		b := append(append(appendHead(nil, e), e.Topic...), e.Payload...)
		if size(e) != len(b) {
			t.Fatalf("size %d, encoded %d bytes", size(e), len(b))
		}
		var got pipeline.Entry
		if err := decode(b, &got, &names); err != nil || !same(e, &got) {
			t.Fatal(err, got)
		}
		head := len(b) - len(e.Payload)
		for n := range head {
			if err := decode(b[:n], &got, &names); !errors.Is(err, ErrEntry) {
				t.Fatalf("cut at %d: %v", n, err)
			}
		}
		for n := range b {
			for bit := range 8 {
				bad := bytes.Clone(b)
				bad[n] ^= 1 << bit
				got = pipeline.Entry{}
				if err := decode(bad, &got, &names); err == nil && same(e, &got) {
					t.Fatalf("bit %d of byte %d flipped makes no difference", bit, n)
				}
			}
		}
	}
	if err := decode([]byte{99, 0, 0, 0, 0, 0, 0}, &pipeline.Entry{}, &names); !errors.Is(err, ErrKind) {
		t.Fatal(err)
	}
}

func FuzzDecode(f *testing.F) {
	e := entry(3, 20)
	f.Add(append(append(appendHead(nil, e), e.Topic...), e.Payload...))
	f.Add([]byte{6, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		var e, again pipeline.Entry
		if decode(b, &e, &interner{}) != nil {
			return
		}
		enc := append(append(appendHead(nil, &e), e.Topic...), e.Payload...)
		if err := decode(enc, &again, &interner{}); err != nil || !same(&e, &again) {
			t.Fatal(err)
		}
	})
}
