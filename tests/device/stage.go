package device

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/tests/rig"
	"github.com/weirstream/weir/tests/rig/nbd"
	"github.com/weirstream/weir/tests/rig/volatiledisk"
	"github.com/weirstream/weir/uplink/receiver"
)

// stage is the host's side of a run: broker, receiver, data disk, and the machine of the moment.
type stage struct {
	t        *testing.T
	dir      string
	hardware hardware
	random   *rand.Rand
	modes    []volatiledisk.Mode // of the cuts

	broker *rig.Mosquitto
	feed   *feed
	oracle *oracle

	disk     *volatiledisk.Disk
	server   *nbd.Server
	vm       *machine
	commands *commands

	restartsMost        int // of weir by systemd until a machine is ready
	boots, ready        int
	cuts, whileBooting  int
	lostRequests, spent int64 // by cuts; of the disk, requests in all
	bootsTook           []time.Duration
	cpu                 time.Duration // of all machines
}

// bootMost bounds a boot. An idle host of two cores needs 3 s for one without systemd, 12 s for one with.
const bootMost = 20 * time.Minute

func (st *stage) must(err error) {
	st.t.Helper()
	if err != nil {
		st.t.Fatal(err)
	}
}

// newStage starts what is on the host. h lacks only what belongs to the stage. sinks are those of the config; none: all that whole has.
func newStage(t *testing.T, h hardware, seed uint64, sinks ...string) *stage {
	t.Helper()
	st := &stage{t: t, dir: stageDir(t), hardware: h, random: rand.New(rand.NewPCG(seed, 6)), modes: volatiledisk.Modes}
	brokerDir := filepath.Join(st.dir, "broker")
	st.must(os.Mkdir(brokerDir, 0o777))
	var err error
	st.broker, err = rig.StartMosquitto(brokerDir, "log_type subscribe\n")
	if errors.Is(err, rig.ErrNoMosquitto) {
		t.Skipf("%v: %v", errNotHere, err)
	}
	st.must(err)
	t.Cleanup(st.broker.Kill)
	addr := st.startReceiver(sinks)
	st.hardware.forward = map[string]string{brokerPort: st.broker.Addr, receiverPort: addr}
	st.hardware.data = filepath.Join(st.dir, "disk")
	var dirs []string
	if h.root != "" {
		dirs = stateDirs
	}
	st.disk, err = newDataDisk(t.Context(), st.dir, dirs...)
	st.must(err)
	st.commands, err = newCommands()
	st.must(err)
	t.Cleanup(st.commands.close)
	st.hardware.forward[commandPort] = st.commands.addr()
	t.Cleanup(func() {
		if st.vm != nil {
			st.vm.powerOff()
		}
		if st.server != nil {
			st.server.Close()
		}
	})
	return st
}

// keep is the directory that keeps what a run leaves; "": nothing is kept.
var keep string

// restarted is what a machine with systemd says of itself when it is ready.
var restarted = regexp.MustCompile(`restarts=(\d+) failed=(\S*)`)

// readyWithoutHelp: systemd did not have to start weir more often than that again, and nothing else failed.
func readyWithoutHelp(line string, restartsMost int) bool {
	m := restarted.FindStringSubmatch(line)
	if m == nil {
		return !strings.Contains(line, "restarts=")
	}
	n, err := strconv.Atoi(m[1])
	return err == nil && n <= restartsMost && m[2] == ""
}

// stageDir is short: the path of a unix socket has 108 bytes at most.
func stageDir(t *testing.T) string {
	t.Helper()
	if keep != "" {
		dir, err := os.MkdirTemp(keep, "run-")
		if err != nil {
			t.Fatal(err)
		}
		return dir
	}
	dir, err := os.MkdirTemp("", "weir-device-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// startReceiver gives the receiver's address.
func (st *stage) startReceiver(sinks []string) string {
	st.t.Helper()
	r, err := receiver.Open(receiver.Options{Path: filepath.Join(st.dir, "receiver.db"), Config: receiver.Default(), Logger: slog.New(slog.DiscardHandler)})
	st.must(err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	st.must(err)
	server := &http.Server{Handler: r, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = server.Serve(l) }() // ends with Close
	st.t.Cleanup(func() { server.Close(); <-ended; r.Close() })
	st.oracle = newOracle(r, sinks...)
	return l.Addr().String()
}

const dataBytes = 256 << 20

// stateDirs are on the data disk of a machine with systemd: weir's state_dir, and what weir-boot keeps.
var stateDirs = []string{"weir", "weir-boot"}

// newDataDisk is an ext4 as Debian makes it on disks that are larger, with blocks of 4 KiB, and nothing on it but empty directories.
func newDataDisk(ctx context.Context, dir string, dirs ...string) (*volatiledisk.Disk, error) {
	name := filepath.Join(dir, "data.img")
	f, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	defer os.Remove(name)
	defer f.Close()
	if err := f.Truncate(dataBytes); err != nil {
		return nil, err
	}
	tree := filepath.Join(dir, "data-tree")
	defer os.RemoveAll(tree)
	for _, d := range append(dirs, ".") {
		if err := os.MkdirAll(filepath.Join(tree, d), 0o755); err != nil {
			return nil, err
		}
	}
	if _, err := command(ctx, nil, "", mkfs(), "-q", "-F", "-t", "ext4", "-L", "data", "-b", "4096", "-E", "lazy_itable_init=0,lazy_journal_init=0", "-d", tree, name); err != nil {
		return nil, err
	}
	return volatiledisk.Load(f, dataBytes)
}

// powerOn starts the machine with power on its disk.
func (st *stage) powerOn() {
	st.t.Helper()
	st.must(os.RemoveAll(st.hardware.data))
	l, err := net.Listen("unix", st.hardware.data)
	st.must(err)
	st.server = nbd.Serve(l, slow{st.disk})
	st.vm, err = st.hardware.powerOn(st.dir, st.boots)
	st.must(err)
	st.boots++
}

// boot starts the machine, and waits until weir is ready without anybody's help.
func (st *stage) boot() {
	st.t.Helper()
	st.must(st.tryBoot())
}

func (st *stage) tryBoot() error {
	st.t.Helper()
	begun := time.Now()
	st.powerOn()
	line, err := st.vm.await(st.t.Context(), "ready", bootMost)
	if err == nil && !readyWithoutHelp(line, st.restartsMost) {
		err = fmt.Errorf("ready, but not without help: %s\n%s", line, st.console())
	}
	if err != nil {
		return fmt.Errorf("boot %d: %w", st.boots, err)
	}
	st.ready++
	if st.feed != nil {
		st.feed.resume()
	}
	st.bootsTook = append(st.bootsTook, time.Since(begun))
	st.t.Logf("boot %d: ready %s (%.1f s on the host)", st.boots, line, time.Since(begun).Seconds())
	return nil
}

// cut takes the power: first the disk's, so that nothing that it loses was ever told to be durable, then the processor's.
func (st *stage) cut() {
	st.t.Helper()
	cut := volatiledisk.Cut{Mode: st.modes[st.random.IntN(len(st.modes))], Seed: st.random.Uint64()}
	count := st.disk.Counters()
	image := st.disk.Cut(cut)
	select {
	case <-st.vm.child.Done():
		st.t.Fatalf("%v\n%s", errEnded, st.console())
	default:
	}
	st.vm.powerOff()
	if st.feed != nil {
		st.feed.pause()
	}
	st.commands.forget()
	used, _ := st.vm.child.Usage()
	st.server.Close()
	st.disk = volatiledisk.FromImage(image)
	st.cuts++
	st.cpu += used
	st.lostRequests += count.Unflushed
	st.spent += count.Writes + count.Flushes
	st.t.Logf("cut %d, %v: %d requests of %d KiB were not flushed; %d writes and %d flushes since power on", st.cuts, cut, count.Unflushed, count.UnflushedBytes>>10,
		count.Writes, count.Flushes)
}

// slow takes a while to flush, as an SD card does: a cut may then come between a write and its flush, or into the flush.
type slow struct{ *volatiledisk.Disk }

const flushTakes = 20 * time.Millisecond

// Flush implements nbd.Disk.
func (s slow) Flush() error {
	time.Sleep(flushTakes)
	return s.Disk.Flush()
}

// instant waits for one to cut at: more often than not one at which something is not flushed, else any.
func (st *stage) instant() {
	time.Sleep(time.Duration(st.random.IntN(300)) * time.Millisecond) // no arrival determines it
	if st.random.IntN(4) == 0 {
		return
	}
	for deadline := time.Now().Add(unflushedMost); time.Now().Before(deadline) && st.disk.Counters().Unflushed == 0; time.Sleep(time.Millisecond) {
	}
}

// unflushedMost bounds the wait for a write that is not flushed. A machine that has nothing to do writes nothing.
const unflushedMost = 3 * time.Second

func (st *stage) wholeConsole() []byte {
	st.t.Helper()
	b, err := os.ReadFile(st.vm.console)
	st.must(err)
	return b
}

// console is the end of what the machine has printed.
func (st *stage) console() string {
	b, err := os.ReadFile(st.vm.console)
	if err != nil {
		return err.Error()
	}
	return tail(b)
}

// startFeed begins to publish. A machine that is ready has pipelines that run; what is published before its session has subscribed is nobody's.
func (st *stage) startFeed() {
	st.t.Helper()
	for deadline := time.Now().Add(rig.Patience); ; time.Sleep(followPoll) {
		b, err := os.ReadFile(filepath.Join(st.dir, "broker", "mosquitto.log"))
		st.must(err)
		if bytes.Contains(b, []byte(": weir-device 1 t/a/")) && bytes.Contains(b, []byte(": weir-device 2 t/b/")) {
			break
		}
		if time.Now().After(deadline) {
			st.t.Fatalf("the machine did not subscribe in %s:\n%s", rig.Patience, st.console())
		}
	}
	st.feed = startFeed(st.t.Context(), st.broker.Addr)
	st.t.Cleanup(st.feed.close)
}

// follow waits until so many records more have arrived. It gives up when none comes for patience.
func (st *stage) follow(more int, patience time.Duration) error {
	want, last, moved := st.oracle.arrived+more, st.oracle.arrived, time.Now()
	for {
		if err := st.oracle.follow(); err != nil {
			return err
		}
		switch {
		case st.oracle.arrived >= want:
			return nil
		case st.oracle.arrived > last:
			last, moved = st.oracle.arrived, time.Now()
		case time.Since(moved) > patience:
			return fmt.Errorf("nothing has arrived for %s:\n%s", patience, st.console())
		}
		select {
		case <-st.vm.child.Done():
			return fmt.Errorf("%w:\n%s", errEnded, st.console())
		case err := <-st.feed.ended:
			st.feed.ended <- err
			if err != nil {
				return fmt.Errorf("publish: %w", err)
			}
		case <-time.After(followPoll):
		}
	}
}

const followPoll = 100 * time.Millisecond

// finish publishes what closes every window and waits until nothing is missing any more, or will come, or has come for patience.
func (st *stage) finish(patience time.Duration) *verdict {
	st.t.Helper()
	n, err := st.feed.finish(st.t.Context())
	st.must(err)
	for last, moved := -1, time.Now(); ; {
		st.must(st.oracle.follow())
		v := st.oracle.judge(n)
		if st.oracle.arrived > last {
			last, moved = st.oracle.arrived, time.Now()
		}
		if over := st.oracle.over(n); over && (v.lost == 0 || v.lostMessages > 0) || time.Since(moved) > patience {
			st.t.Logf("%d messages: %v", n, v)
			return v
		}
		select {
		case <-st.vm.child.Done():
			st.t.Fatalf("%v:\n%s", errEnded, st.console())
		case <-time.After(followPoll):
		}
	}
}
