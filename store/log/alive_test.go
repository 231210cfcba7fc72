package log

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirstream/weir/store/disk/disktest"
)

// TestBeat: a committer that hangs in a sync works on one beat; one that waits for records does not work, and one that waits for space gets on.
func TestBeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		hang := false
		l, _, err := open(Options{FS: disktest.NewMem(), Dir: "/l", Config: small()}, faults{hang: func() {
			if hang {
				<-release
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		sync := func() {
			if err := l.Sync(t.Context()); err != nil {
				t.Error(err)
			}
		}
		_, _ = l.Append([]byte("one"))
		sync()
		synctest.Wait()
		if _, working := l.Beat(); working {
			t.Error("it works though nothing comes")
		}
		hang = true
		_, _ = l.Append([]byte("two"))
		ended := make(chan struct{})
		go func() { defer close(ended); sync() }()
		synctest.Wait()
		before, working := l.Beat()
		time.Sleep(time.Hour)
		if after, still := l.Beat(); !working || !still || after != before {
			t.Errorf("within a hanging sync: beat %d, then %d, working %v, %v", before, after, working, still)
		}
		close(release)
		<-ended
		synctest.Wait()
		if after, working := l.Beat(); working || after == before {
			t.Errorf("behind it: beat %d, working %v", after, working)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestBeatOnAFullDisk: a disk without space is no committer that hangs.
func TestBeatOnAFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := disktest.NewFaulty(disktest.NewMem())
		f.LimitSpace(small().SegmentBytes + 100)
		l, _, err := open(Options{FS: f, Dir: "/l", Config: small()}, faults{})
		if err != nil {
			t.Fatal(err)
		}
		for range 3 * small().SegmentBytes / 1000 {
			if _, err := l.Append(record(l.Last()+1, 1000)); err != nil {
				break
			}
		}
		time.Sleep(time.Minute)
		before, _ := l.Beat()
		time.Sleep(time.Minute)
		if after, working := l.Beat(); working && after == before {
			t.Error("it is taken for hanging")
		}
		f.LimitSpace(1 << 30)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
