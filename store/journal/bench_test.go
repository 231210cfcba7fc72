package journal

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/store/disk/disktest"
	"github.com/weirstream/weir/store/log"
)

// BenchmarkAppendCommit appends 120-byte messages, 64 per commit or as the linger has it, with a reader at the tail. cpu-s/1M is the process's CPU time per
// million messages, flash-B/B the bytes of the 4 KiB pages written per payload byte.
func BenchmarkAppendCommit(b *testing.B) {
	for _, where := range []string{"os", "os-linger", "mem"} { // os-linger: commits as they come, nobody waits
		perCommit := 64
		if where == "os-linger" {
			perCommit = 1 << 30
		}
		b.Run(where, func(b *testing.B) {
			c := log.Default()
			c.ReserveBytes, c.MaxUnsynced = 0, 8<<20
			o := Options{FS: disk.OS, Dir: b.TempDir(), Config: c}
			if where == "mem" {
				o.FS, o.Dir = disktest.NewMem(), "/journal"
			}
			j, _, err := Open(o)
			if err != nil {
				b.Fatal(err)
			}
			defer j.Close()
			entries := make([]pipeline.Entry, 1000)
			payload := 0
			for i := range entries {
				p := fmt.Appendf(nil, `{"device":"dev-%03d","ts":%d,"temp":%d.%d,"hum":%d,"seq":%d,"state":"running"`, i%100, 1700000000000+int64(i)*977, i%40, i%10, i%100, i)
				for len(p) < 119 {
					p = append(p, ' ')
				}
				entries[i] = pipeline.Entry{Kind: pipeline.EntryMessage, QoS: 1, PacketID: uint16(i), Session: "plant", Source: "telemetry",
					Topic: fmt.Appendf(nil, "site/a/dev/%03d/telemetry", i%100), Payload: append(p, '}')}
			}
			r, _ := j.Reader(1)
			done := make(chan struct{})
			go func() {
				defer close(done)
				for {
					if _, err := r.Next(b.Context()); err != nil {
						return
					}
				}
			}()
			before, cpu := j.Stats().Log, cpuSeconds()
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				e := &entries[i%len(entries)]
				if _, err := j.Append(e); err != nil {
					b.Fatal(err)
				}
				payload += len(e.Payload)
				if i%perCommit == perCommit-1 {
					if err := j.Sync(b.Context()); err != nil {
						b.Fatal(err)
					}
				}
				if i%100000 == 99999 {
					j.Retain("bench", j.Durable())
					if err := j.Trim(b.Context()); err != nil {
						b.Fatal(err)
					}
				}
			}
			if err := j.Sync(b.Context()); err != nil {
				b.Fatal(err)
			}
			b.StopTimer()
			after := j.Stats().Log
			b.ReportMetric((cpuSeconds()-cpu)/float64(b.N)*1e6, "cpu-s/1M")
			b.ReportMetric(float64(after.PagesWritten-before.PagesWritten)*4096/float64(payload), "flash-B/B")
			b.ReportMetric(float64(b.N)/float64(after.Syncs-before.Syncs), "records/commit")
			_ = j.Close()
			<-done
		})
	}
}

func cpuSeconds() float64 {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// BenchmarkAppend is Append alone, without a commit in the measured time.
func BenchmarkAppend(b *testing.B) {
	c := log.Default()
	c.ReserveBytes, c.Compress, c.MaxUnsynced = 0, false, 64<<20
	j, _, err := Open(Options{FS: disktest.NewMem(), Dir: "/journal", Config: c})
	if err != nil {
		b.Fatal(err)
	}
	defer j.Close()
	e := entry(1, 100)
	b.ReportAllocs()
	for i := range b.N {
		if _, err := j.Append(e); err != nil {
			b.Fatal(err)
		}
		if i%10000 == 9999 {
			b.StopTimer()
			_ = j.Sync(b.Context())
			j.Retain("bench", j.Durable())
			_ = j.Trim(b.Context())
			b.StartTimer()
		}
	}
}
