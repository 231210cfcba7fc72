package cases

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/tests/rig"
)

// notified is the socket of a service manager that counts what feeds the watchdog.
type notified struct {
	*net.UnixConn
	fed  atomic.Int64
	done chan struct{}
}

// serviceManager has the agent fed by a watchdog of so long.
func (s *site) serviceManager(watchdog time.Duration) *notified {
	s.t.Helper()
	path := filepath.Join(s.dir, "n")
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	s.must(err)
	n := &notified{UnixConn: c, done: make(chan struct{})}
	go func() { // ends with the socket
		defer close(n.done)
		b := make([]byte, 4096)
		for {
			k, err := c.Read(b)
			if err != nil {
				return
			}
			if strings.Contains(string(b[:k]), "WATCHDOG=1") {
				n.fed.Add(1)
			}
		}
	}()
	s.t.Cleanup(func() { c.Close(); <-n.done })
	s.env = append(s.env, "NOTIFY_SOCKET="+path, fmt.Sprintf("WATCHDOG_USEC=%d", watchdog.Microseconds()), "WATCHDOG_PID=")
	return n
}

// TestStarvedOfCPU: the agent has the least priority beside processes that take all there is, and does not run at all for a while. It goes on to feed the watchdog, holds itself for no hanging one,
// and loses nothing.
func TestStarvedOfCPU(t *testing.T) {
	p := newPlant(t, "")
	watch := p.serviceManager(3 * time.Second)
	p.under = []string{"nice", "-n", "19"}
	p.startReady()
	p.send(100)
	p.delivered()
	pid := p.agent.PID()
	for i := range 4 {
		busy, err := rig.StartChild(filepath.Join(p.dir, fmt.Sprintf("busy%d", i)), nil, "nice", "-n", "5", "sh", "-c", "while :; do :; done")
		p.must(err)
		t.Cleanup(busy.Kill)
		defer busy.Kill()
	}
	for range 3 {
		p.send(150)
		p.must(syscall.Kill(pid, syscall.SIGSTOP))
		p.send(150)
		time.Sleep(1500 * time.Millisecond) // what it is kept from, not what is waited for
		p.must(syscall.Kill(pid, syscall.SIGCONT))
		before := watch.fed.Load()
		p.delivered()
		p.eventually("it feeds the watchdog", func(api.Status) bool { return watch.fed.Load() > before+1 })
	}
	if p.agent.PID() != pid || strings.Contains(p.log(), "no progress") {
		t.Error("the agent ended, or took itself for hanging")
	}
	p.stop()
}

// memoryGroup makes a cgroup for a process alone; setLimit changes how many bytes it may have. under starts something in it.
func memoryGroup(t *testing.T) (under []string, setLimit func(bytes int64)) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("NOT TESTED HERE: a limit of memory needs root")
	}
	name, file := "", ""
	for root, limit := range map[string]string{"/sys/fs/cgroup/memory": "memory.limit_in_bytes", "/sys/fs/cgroup": "memory.max"} {
		dir := filepath.Join(root, fmt.Sprintf("weir-cases-%d", os.Getpid()))
		if os.Mkdir(dir, 0o755) != nil {
			continue
		}
		if _, err := os.Stat(filepath.Join(dir, limit)); err == nil {
			name, file = dir, filepath.Join(dir, limit)
			break
		}
		_ = os.Remove(dir)
	}
	if name == "" {
		t.Skip("NOT TESTED HERE: no cgroup with a limit of memory can be made")
	}
	t.Cleanup(func() {
		var err error
		for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
			if err = os.Remove(name); err == nil { // until the kernel has let go of who was killed
				return
			}
		}
		t.Error(err)
	})
	setLimit = func(bytes int64) {
		t.Helper()
		if err := os.WriteFile(file, []byte(strconv.FormatInt(bytes, 10)), 0o600); err != nil {
			t.Skip("NOT TESTED HERE: the limit of a cgroup cannot be set: ", err)
		}
	}
	return []string{"sh", "-c", `echo $$ >` + name + `/cgroup.procs && exec "$@"`, "sh"}, setLimit
}

// TestMemoryLimit: the agent works beneath a limit; with less and less it is killed in the end, at work or as it starts, by the kernel. The next start, with enough, goes on, exactly. Starts that are killed
// again and again wait longer and longer, and write next to nothing.
func TestMemoryLimit(t *testing.T) {
	under, limit := memoryGroup(t)
	p := newPlant(t, "journal: {segment: 256KiB, reserve: 0, max_bytes: 16MiB}")
	state := filepath.Join(p.dir, "state")
	p.must(os.Mkdir(state, 0o755))
	device := smallExt4(t, state, 64)
	t.Cleanup(func() {
		if p.agent != nil {
			p.agent.Kill()
		}
	})
	p.must(os.Mkdir(filepath.Join(p.dir, "run"), 0o755))
	p.env = append(p.env, "RUNTIME_DIRECTORY="+filepath.Join(p.dir, "run"))
	const plenty = 256 << 20
	limit(plenty)
	p.startReady()
	p.send(100)
	p.delivered()
	p.stop()

	p.under = under
	lived, deadly := int64(0), int64(0)
	for mib := int64(64); mib >= 4 && deadly == 0; mib = mib * 3 / 4 {
		limit(mib << 20)
		p.start()
		p.send(300)
		if p.killed() {
			deadly = mib
			break
		}
		lived = mib
		p.exactly(p.far, p.sent)
		p.stop()
	}
	if lived == 0 || deadly == 0 {
		t.Fatalf("it lived with %d MiB, and was killed with %d", lived, deadly)
	}
	t.Logf("it lives with %d MiB, and is killed with %d", lived, deadly)

	syscall.Sync()
	sectors := p.sectorsWritten(device)
	const starts = 8
	for n := 0; n < starts; n++ {
		p.start()
		p.send(100)
		if p.killed() {
			continue
		}
		p.stop() // by a hair, this once: with less
		if deadly--; deadly < 2 {
			t.Fatal("it lives with 2 MiB")
		}
		limit(deadly << 20)
		n = -1
		syscall.Sync()
		sectors = p.sectorsWritten(device)
	}
	syscall.Sync()
	if sectors = p.sectorsWritten(device) - sectors; sectors > starts*killedSectors {
		t.Errorf("%d starts that were killed wrote %d sectors", starts, sectors)
	}
	t.Logf("%d starts that were killed wrote %d sectors", starts, sectors)
	if !strings.Contains(p.log(), "the runs before ended soon; this start waits") {
		t.Error("starts that are killed do not wait")
	}
	limit(plenty)
	p.startReady()
	p.send(50)
	p.delivered()
	p.stop()
}

// killedSectors bounds what a start writes that is killed: a tail of the journal and of each log that is recovered, with what ext4 adds.
const killedSectors = 512

// killed waits until the agent has delivered everything (false) or was killed.
func (p *plant) killed() bool {
	p.t.Helper()
	_, err := rig.AwaitStatus(p.t.Context(), p.socket(), p.agent, patience, "all is delivered", func(st *api.Status) bool {
		return len(st.Pipelines) > 0 && len(st.Pipelines[0].Sinks) > 0 && st.Pipelines[0].Lag == 0 && st.Pipelines[0].Sinks[0].Pending == 0 && st.Pipelines[0].Sinks[0].Confirmed >= uint64(p.sent)
	})
	if err == nil {
		return false
	}
	select {
	case <-p.agent.Done():
		return true
	default:
		p.t.Fatal(err)
		return false
	}
}
