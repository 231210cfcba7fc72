package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

const notifySocket = "/run/notify"

// runWeir runs weir as systemd runs a service of Type=notify, and says when it is ready. It returns when weir has ended.
func runWeir(o options) error {
	if err := os.MkdirAll("/run", 0o755); err != nil {
		return err
	}
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: notifySocket, Net: "unixgram"})
	if err != nil {
		return err
	}
	output, in, err := os.Pipe()
	if err != nil {
		return err
	}
	cmd := exec.Command("/weir", "run", "-c", "/weir.yaml")
	cmd.Env = append([]string{"PATH=/", "NOTIFY_SOCKET=" + notifySocket, "HOME=/"}, o.env...)
	cmd.Stdout, cmd.Stderr = in, in
	begun := uptime()
	if err := cmd.Start(); err != nil {
		return err
	}
	in.Close()
	p := &process{pid: cmd.Process.Pid, begun: begun, measure: o.measure}
	var wg sync.WaitGroup
	wg.Go(func() { p.echo(output) })
	wg.Go(func() { p.listen(socket) })
	err = cmd.Wait()
	socket.Close()
	wg.Wait()
	return fmt.Errorf("weir ended: %w", errors.Join(err, errors.New("nobody told it to")))
}

// process is weir as its service manager sees it.
type process struct {
	pid     int
	begun   time.Duration
	measure bool
}

// echo passes weir's log on. The first line that says that its session is ready tells how long that took: SUBSCRIBE was answered.
func (p *process) echo(output io.Reader) {
	subscribed := false
	for lines := bufio.NewScanner(output); lines.Scan(); {
		fmt.Printf("weir: %s\n", lines.Text())
		if !subscribed && strings.Contains(lines.Text(), "session is ready") {
			subscribed = true
			say("subscribed wall %v cpu %v", (uptime() - p.begun).Round(time.Millisecond), p.cpu())
		}
	}
}

func (p *process) listen(socket *net.UnixConn) {
	b := make([]byte, 4096)
	for {
		n, err := socket.Read(b)
		if err != nil {
			return
		}
		if strings.Contains(string(b[:n]), "READY=1") {
			say("ready wall %v cpu %v", (uptime() - p.begun).Round(time.Millisecond), p.cpu())
			if p.measure {
				p.rest()
			}
		}
	}
}

// restFor is how long an agent that has nothing to do is watched. Before, it and the kernel are let come to rest, which writes what is dirty 30 s later.
const restBefore, restFor = 90 * time.Second, 60 * time.Second

// rest measures the agent at rest.
func (p *process) rest() {
	time.Sleep(restBefore)
	cpu := p.cpu()
	say("rest begins")
	time.Sleep(restFor)
	say("rest ends cpu %v in %v rss %s (anonymous %s)", p.cpu()-cpu, restFor, p.status("VmRSS:"), p.status("RssAnon:"))
}

// cpu is the time that the process's threads have used: the kernel counts it in nanoseconds.
func (p *process) cpu() (sum time.Duration) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", p.pid))
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			continue // a thread that has ended: Go keeps them
		}
		var ran int64
		if _, err := fmt.Sscan(string(b), &ran); err == nil {
			sum += time.Duration(ran)
		}
	}
	return sum.Round(10 * time.Microsecond)
}

// status is a line of /proc/PID/status.
func (p *process) status(name string) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.pid))
	if err != nil {
		return err.Error()
	}
	_, rest, _ := strings.Cut(string(b), name)
	line, _, _ := strings.Cut(rest, "\n")
	return strings.Join(strings.Fields(line), " ")
}
