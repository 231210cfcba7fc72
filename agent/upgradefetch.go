//go:build !nocentral

package agent

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirstream/weir/agent/upgrade"
	"github.com/weirstream/weir/fleet/document"
	"github.com/weirstream/weir/store/disk"
)

// judge asks whether this gateway can take the program, and now.
func (u *upgrader) judge(ctx context.Context) error {
	artifact, err := u.artifact()
	if err != nil {
		return unfitFor(upgrade.CauseGate, "%w", err)
	}
	if err := u.space(artifact); err != nil {
		return unfitFor(upgrade.CauseSpace, "%w", err)
	}
	if u.rec.UploadS && u.agent.offsites == nil {
		return unfitFor(upgrade.CauseGate, "the savepoints have to be at the central store before the switch, and the config has none")
	}
	return u.note(upgrade.Event{Kind: upgrade.Passed})
}

// artifact is that of the release under way, verified again: the file may have been changed since.
func (u *upgrader) artifact() (*document.Artifact, error) {
	b, err := os.ReadFile(u.path(releaseFile))
	if err != nil {
		return nil, fmt.Errorf("read the release: %w", err)
	}
	_, artifact, err := u.verify(b)
	if err == nil && artifact.SHA256 != u.rec.Target.SHA256 {
		err = errors.New("it is of another artifact than the record")
	}
	return artifact, err
}

// space is for the artifact twice (here, and in its slot) and the savepoints, whose size the checkpoints tell.
func (u *upgrader) space(artifact *document.Artifact) error {
	free, err := disk.OS.Free(u.agent.config.StateDir.Value)
	if err != nil {
		return fmt.Errorf("how much of the disk is free: %w", err)
	}
	need := 2 * artifact.Bytes
	for _, s := range u.agent.all() {
		if at := s.running(); at != nil {
			m := at.coordinator.Metrics()
			need += int64(m.BaseBytes) + int64(m.FrameBytes)
			for _, l := range at.links {
				need += l.queue.Stats().WaitingBytes
			}
		}
	}
	if free -= u.agent.config.Journal.ReserveBytes; free < need {
		return fmt.Errorf("%d bytes are free for the program and the savepoints, %d are needed", max(free, 0), need)
	}
	return nil
}

// fetch copies the artifact, chunk by chunk: each is durable and has its signed digest, so that the length of what is here says where to go on.
func (u *upgrader) fetch(ctx context.Context) error {
	artifact, err := u.artifact()
	if err != nil {
		return unfitFor(upgrade.CauseGate, "%w", err)
	}
	l, err := u.readLocal()
	if err != nil {
		return err
	}
	from, err := os.Open(l.File)
	if err != nil {
		return unfitFor(upgrade.CauseFetch, "read the artifact: %w", err)
	}
	defer from.Close()
	if err := copyChunks(ctx, from, u.path(partFile), artifact, func(n int64) { u.waits(fmt.Sprintf("%d of %d bytes are here", n, artifact.Bytes)) }); err != nil {
		return err
	}
	return u.note(upgrade.Event{Kind: upgrade.Fetched})
}

// copyChunks goes on behind the last whole chunk of what is there.
func copyChunks(ctx context.Context, from io.ReaderAt, part string, artifact *document.Artifact, told func(int64)) (err error) {
	f, err := os.OpenFile(part, os.O_RDWR|os.O_CREATE, 0o700)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	buf := make([]byte, artifact.ChunkBytes)
	right := func(i int, r io.ReaderAt) ([]byte, bool, error) {
		b := buf[:artifact.Length(i)]
		n, err := r.ReadAt(b, int64(i)*artifact.ChunkBytes)
		if n < len(b) {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return nil, false, err
		}
		sum := sha256.Sum256(b)
		return b, hex.EncodeToString(sum[:]) == artifact.Chunks[i], nil
	}
	here := true
	for i := range artifact.Chunks {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if here {
			if _, here, err = right(i, f); err != nil {
				return err
			}
			if here {
				continue
			}
		}
		b, ok, err := right(i, from)
		if err != nil {
			return unfitFor(upgrade.CauseFetch, "read the artifact: %w", err)
		}
		if !ok {
			return unfitFor(upgrade.CauseFetch, "chunk %d of the artifact is not what was signed", i)
		}
		if _, err := f.WriteAt(b, int64(i)*artifact.ChunkBytes); err != nil {
			return unfitFor(upgrade.CauseSpace, "write the artifact: %w", err)
		}
		if err := f.Sync(); err != nil {
			return err
		}
		told(int64(i)*artifact.ChunkBytes + int64(len(b)))
	}
	if err := f.Truncate(artifact.Bytes); err != nil {
		return err
	}
	return f.Sync()
}

// stage has the new program test itself, and puts it into its slot. Nothing runs it yet.
func (u *upgrader) stage(ctx context.Context) error {
	f, err := os.Open(u.path(partFile))
	if err != nil {
		return unfitFor(upgrade.CauseStage, "%w", err)
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return unfitFor(upgrade.CauseStage, "%w", err)
	}
	if is := hex.EncodeToString(sum.Sum(nil)); is != u.rec.Target.SHA256 {
		return unfitFor(upgrade.CauseArtifact, "the artifact's digest is %s, and the release says %s", is, u.rec.Target.SHA256)
	}
	u.waits("the new program tests itself")
	if u.rec.Target.Backend == backendSelf {
		if err := u.selftest(ctx); err != nil {
			return err
		}
	}
	a := upgrade.Artifact{Target: u.rec.Target, Path: u.path(partFile), ReaderAt: f}
	if err := u.backend.Stage(ctx, u.rec.Standby, a, func(permille int) { u.waits(fmt.Sprintf("staged: %d of 1000", permille)) }); err != nil {
		if ctx.Err() != nil {
			return err
		}
		return unfitFor(upgrade.CauseStage, "stage: %w", err)
	}
	u.agent.die("upgrade-staged")
	return u.note(upgrade.Event{Kind: upgrade.Ready, Away: u.agent.away()})
}

const backendSelf = "self"

const (
	// selftestWait and selftestBytes bound the self-test of a program that may be anything.
	selftestWait  = time.Minute
	selftestBytes = 1 << 30
	selftestSays  = 64 << 10
)

// selftest runs the new program on the config that runs: it loads it, and says who it is. It opens nothing for writing.
func (u *upgrader) selftest(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, selftestWait)
	defer cancel()
	path := u.path(partFile)
	if err := os.Chmod(path, 0o700); err != nil {
		return unfitFor(upgrade.CauseStage, "%w", err)
	}
	cfg := u.agent.roster.Load().config
	cmd := exec.CommandContext(ctx, path, "selftest", "--stdin", "-c", cfg.File, "-o", "json")
	cmd.Stdin, cmd.Dir = bytes.NewReader(cfg.Text), filepath.Dir(path)
	var out, says firstBytes
	cmd.Stdout, cmd.Stderr = &out, &says
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = time.Second
	cmd.Env = append(os.Environ(), "GOMEMLIMIT=256MiB", "WEIR_SELFTEST=1")
	if err := cmd.Start(); err != nil { // where it lies nothing may be run, say: that says nothing against it
		return unfitFor(upgrade.CauseStage, "run the self-test: %w", err)
	}
	limit := unix.Rlimit{Cur: selftestBytes, Max: selftestBytes}
	if err := unix.Prlimit(cmd.Process.Pid, unix.RLIMIT_DATA, &limit, nil); err != nil {
		u.agent.log.Debug("the self-test runs without a bound of its memory", "error", err)
	}
	err := cmd.Wait()
	if ctx.Err() != nil && errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	if err != nil {
		return unfitFor(upgrade.CauseArtifact, "its self-test failed: %w: %s", err, strings.TrimSpace(says.String()))
	}
	var is SelftestReport
	if err := json.Unmarshal(out.Bytes(), &is); err != nil {
		return unfitFor(upgrade.CauseArtifact, "its self-test said what is not understood: %w", err)
	}
	if is.Version != u.rec.Target.Version {
		return unfitFor(upgrade.CauseArtifact, "it says that it is version %s, and the release says %s", is.Version, u.rec.Target.Version)
	}
	return nil
}

// firstBytes keeps the first bytes of what is written.
type firstBytes struct{ bytes.Buffer }

func (b *firstBytes) Write(p []byte) (int, error) {
	if room := selftestSays - b.Len(); room > 0 {
		b.Buffer.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}

// away are the sources and sinks that do not answer now.
func (a *Agent) away() (list []string) {
	for _, s := range a.sessions() {
		if s.mqtt.Stats().State != sessionReady {
			list = append(list, "source "+s.name)
		}
	}
	for _, s := range a.all() {
		at := s.running()
		if at == nil {
			continue
		}
		for _, l := range at.links {
			if !l.sender.Metrics().Prepared.Load() {
				list = append(list, "sink "+s.name+"/"+l.uid)
			}
		}
	}
	return list
}

const sessionReady = "ready"
