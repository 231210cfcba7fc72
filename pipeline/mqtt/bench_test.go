package mqtt

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/weirstream/weir/pipeline"
)

// countJournal counts and keeps nothing: what is measured is the tap.
type countJournal struct{ last pipeline.Position }

func (j *countJournal) Append(*pipeline.Entry) (pipeline.Position, error) {
	j.last++
	return j.last, nil
}
func (j *countJournal) AppendAll(es []pipeline.Entry) (int, error) {
	for i := range es {
		j.last++
		es[i].Pos = j.last
	}
	return len(es), nil
}
func (j *countJournal) First() pipeline.Position { return 1 }
func (j *countJournal) ScanBack(func(pipeline.EntryKind) bool, func(*pipeline.Entry) (bool, error)) error {
	return nil
}
func (j *countJournal) Last() pipeline.Position                                   { return j.last }
func (j *countJournal) Durable() pipeline.Position                                { return 0 } // acknowledgements stay queued
func (j *countJournal) OnDurable(func(pipeline.Position, error)) func()           { return func() {} }
func (j *countJournal) OnFull(func(bool)) func()                                  { return func() {} }
func (j *countJournal) Sync(context.Context) error                                { return nil }
func (j *countJournal) Scan(pipeline.Position, func(*pipeline.Entry) error) error { return nil }

// streamConn gives the same bytes again and again, as a socket would: in chunks.
type streamConn struct {
	net.Conn
	data []byte
	off  int
}

func (c *streamConn) Read(b []byte) (int, error) {
	n := copy(b, c.data[c.off:])
	if c.off += n; c.off == len(c.data) {
		c.off = 0
	}
	return n, nil
}
func (c *streamConn) Write(b []byte) (int, error)      { return len(b), nil }
func (c *streamConn) SetWriteDeadline(time.Time) error { return nil }
func (c *streamConn) Close() error                     { return nil }

func tapOnStream(tb testing.TB, qos byte) (t *tap, messages int) {
	s, err := NewSession(testConfig("mqtt://127.0.0.1:1", qos, "site/+/dev/#"), new(countJournal), slog.New(slog.NewTextHandler(io.Discard, nil)), Hooks{})
	if err != nil {
		tb.Fatal(err)
	}
	var data []byte
	for id := 1; id <= 65535; id++ {
		payload := fmt.Appendf(nil, `{"ts":1767225600%03d,"device":"dev-%03d","temperature":%d.5,"humidity":44.1,"status":"ok","n":%05d,"pad":"xxxxx"}`, id%1000, id%100, id%40, id)
		data = append(data, encodePublish(fmt.Sprintf("site/a/dev/%d/telemetry", id%100), qos, uint16(id), false, false, payload)...)
	}
	return newTap(s, &streamConn{data: data}), 65535
}

// drain does what the acknowledger does with the queue, without the socket.
func drain(t *tap) {
	t.acks.out, _ = t.acks.take(t.session.journal.Last(), t.acks.out[:0])
}

// TestTapAllocatesNothing: in steady state a message costs no allocation.
func TestTapAllocatesNothing(t *testing.T) {
	for qos := range byte(3) {
		tp, n := tapOnStream(t, qos)
		step := func() {
			for until := tp.arrived.Load() + 1000; tp.arrived.Load() < until; {
				if err := tp.packet(); err != nil {
					t.Fatal(err)
				}
				drain(tp)
			}
		}
		for range n/1000 + 1 {
			step()
		}
		if a := testing.AllocsPerRun(20, step); a > 1 {
			t.Errorf("QoS %d: %.1f allocations per 1000 messages", qos, a)
		}
	}
}

// BenchmarkTap is the cost of a message from the read buffer to the journal's Append, acknowledgement included.
func BenchmarkTap(b *testing.B) {
	for qos := range byte(3) {
		b.Run(fmt.Sprintf("qos%d", qos), func(b *testing.B) {
			tp, n := tapOnStream(b, qos)
			for tp.arrived.Load() < uint64(n) {
				if err := tp.packet(); err != nil {
					b.Fatal(err)
				}
				drain(tp)
			}
			b.ReportAllocs()
			b.ResetTimer()
			before := cpuTime()
			for until := tp.arrived.Load() + uint64(b.N); tp.arrived.Load() < until; {
				if err := tp.packet(); err != nil {
					b.Fatal(err)
				}
				drain(tp)
			}
			b.ReportMetric(float64(cpuTime()-before)/float64(b.N), "cpu-ns/op") // steadier than wall time on a busy machine
		})
	}
}

func cpuTime() time.Duration {
	var r syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
