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
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirstream/weir/agent/clock"
	"github.com/weirstream/weir/agent/compat"
	"github.com/weirstream/weir/agent/upgrade"
	"github.com/weirstream/weir/fleet/document"
	"github.com/weirstream/weir/fleet/signed"
	"github.com/weirstream/weir/store/disk"
)

// judge asks whether this gateway can take the program, and now.
func (u *upgrader) judge(context.Context) error {
	b, err := u.beginning()
	if err != nil {
		return unfitFor(upgrade.CauseGate, "%w", err)
	}
	if u.rec.UploadS && !u.agent.uploads() {
		return unfitFor(upgrade.CauseGate, "the savepoints have to be at the central store before the switch, and the config has none")
	}
	return u.allowed(upgrade.Begin(b), upgrade.Event{Kind: upgrade.Passed})
}

// allowed notes an event when nothing is against it. What passes by itself is waited for.
func (u *upgrader) allowed(against []upgrade.Reason, e upgrade.Event) error {
	for _, r := range against {
		if !r.Wait {
			return unfitFor(r.Cause, "%s", r.Text)
		}
	}
	if len(against) > 0 {
		u.waits(against[0].Text)
		return errWaits
	}
	return u.note(e)
}

// errWaits is of what passes by itself.
var errWaits = errors.New("it is not the time")

// beginning gathers what the gates of the beginning ask for.
func (u *upgrader) beginning() (*upgrade.Beginning, error) {
	a := u.agent
	r, artifact, err := u.release()
	if err != nil {
		return nil, err
	}
	l, err := u.readLocal()
	if err != nil {
		return nil, fmt.Errorf("what was asked for cannot be read any more: %w", err)
	}
	b := &upgrade.Beginning{
		Release: r.Release, Artifact: artifact, Policy: document.Policy{DiscardState: u.rec.Discard, Window: l.Window}, Expires: u.rec.Expires, Arch: runtime.GOARCH, Board: a.config.On.ID, Floor: u.rec.Floor, Runs: compat.Current(),
		Savepoints: a.savepointBytes(), Reserve: a.config.Journal.ReserveBytes, Now: time.Unix(0, clock.This.Read().Wall), Trusted: a.clock.Stamp().Trusted, Percent: a.config.Upgrade.PowerMin,
	}
	if b.Free, err = disk.OS.Free(a.config.StateDir.Value); err != nil {
		return nil, fmt.Errorf("how much of the disk is free: %w", err)
	}
	if b.Power, err = upgrade.ReadPower(os.DirFS(powerDir)); err != nil {
		a.log.Warn("what feeds this gateway is not known", "error", err)
	}
	return b, nil
}

// powerDir is where Linux tells of supplies.
const powerDir = "/sys/class/power_supply"

// release is that of the record, verified again: the file may have been changed since.
func (u *upgrader) release() (*release, *document.Artifact, error) {
	b, err := disk.ReadPlain(u.path(releaseFile), signed.BytesMax)
	if err != nil {
		return nil, nil, fmt.Errorf("read the release: %w", err)
	}
	r, artifact, err := u.verify(b)
	if err == nil && artifact.SHA256 != u.rec.Target.SHA256 {
		err = errors.New("the release that is here is of another artifact than the record")
	}
	return r, artifact, err
}

// savepointBytes is what savepoints of all pipelines take, as far as it is known.
func (a *Agent) savepointBytes() (n int64) {
	for _, s := range a.all() {
		if at := s.running(); at != nil {
			m := at.coordinator.Metrics()
			n += int64(m.BaseBytes) + int64(m.FrameBytes)
			for _, l := range at.links {
				n += l.Queue.Stats().WaitingBytes
			}
		}
	}
	return n
}

// fetch brings the artifact to where the backend takes it from.
func (u *upgrader) fetch(ctx context.Context) error {
	_, artifact, err := u.release()
	if err != nil {
		return unfitFor(upgrade.CauseGate, "%w", err)
	}
	l, err := u.readLocal()
	if err != nil {
		return unfitFor(upgrade.CauseGate, "what was asked for cannot be read any more: %w", err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	f := &upgrade.Fetcher{FS: disk.OS, Dir: u.store.Dir, Progress: func(n int64, waits error) { u.tellFetch(n, artifact.Bytes, waits) }}
	if l.File == "" { // a document asked for it
		if f.Chunks, f.Pause, err = u.agent.fleetChunks(); err != nil {
			return unfitFor(upgrade.CauseFetch, "%w", err)
		}
		if err := u.apart(ctx); err != nil {
			return err
		}
	} else {
		file, err := disk.OpenPlain(l.File)
		if err != nil {
			return unfitFor(upgrade.CauseFetch, "read the artifact: %w", err)
		}
		defer file.Close()
		f.Chunks = &fileChunks{file: file, artifact: artifact, gone: cancel}
	}
	if err := u.makeWay(fetchedFiles...); err != nil {
		return unfitFor(upgrade.CauseFetch, "%w", err)
	}
	_, err = f.Fetch(ctx, artifact)
	switch {
	case errors.Is(err, upgrade.ErrSpace):
		return unfitFor(upgrade.CauseSpace, "%w", err)
	case errors.Is(err, upgrade.ErrArtifact):
		return unfitFor(upgrade.CauseArtifact, "%w", err)
	case errors.Is(err, upgrade.ErrMedium): // each further try would fetch and write all of it three times more
		return unfitFor(upgrade.CauseFetch, "%w", err)
	case err != nil:
		return err
	}
	return u.note(upgrade.Event{Kind: upgrade.Fetched})
}

// tellFetch says how far the fetch is and, once for each reason, what keeps it waiting: a piece that somebody has exchanged in the store never comes, and that has to be seen.
func (u *upgrader) tellFetch(n, of int64, waits error) {
	text := fmt.Sprintf("%d of %d bytes are here", n, of)
	if waits != nil {
		u.repeated.Add(1)
		text += "; the next piece is asked for again: " + waits.Error()
		if waits.Error() != u.lacks {
			u.lacks = waits.Error()
			u.agent.log.Warn("a piece of the new program is not to be had; it is asked for again", "error", waits)
		}
	}
	u.waits(text)
}

// fileChunks gives the pieces of a file on this device. One that is wrong stays so: waiting for it would be in vain.
type fileChunks struct {
	file     *os.File
	artifact *document.Artifact
	gone     context.CancelCauseFunc
}

// Get implements upgrade.Chunks.
func (c *fileChunks) Get(_ context.Context, sha string) ([]byte, error) {
	i := slices.Index(c.artifact.Chunks, sha)
	b := make([]byte, c.artifact.Length(i))
	_, err := c.file.ReadAt(b, int64(i)*c.artifact.ChunkBytes)
	if sum := sha256.Sum256(b); err == nil && hex.EncodeToString(sum[:]) != sha {
		err = fmt.Errorf("piece %d is not what was signed", i)
	}
	if err != nil {
		c.gone(unfitFor(upgrade.CauseFetch, "read the artifact: %w", err))
		return nil, err
	}
	return b, nil
}

// stage has the new program test itself, and puts it into its slot. Nothing runs it yet.
func (u *upgrader) stage(ctx context.Context) error {
	f, err := disk.OpenPlain(u.path(slotFile))
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
	a := upgrade.Artifact{Target: u.rec.Target, Path: u.path(slotFile), ReaderAt: f}
	if err := u.put(ctx, a); err != nil {
		return err
	}
	u.agent.die("upgrade-staged")
	b, err := u.beginning()
	if err != nil {
		return unfitFor(upgrade.CauseGate, "%w", err)
	}
	return u.allowed(upgrade.Now(b), upgrade.Event{Kind: upgrade.Ready, Contact: u.contact(), Away: u.agent.away()})
}

// stagesMax is how often in a process an artifact is put into its slot, when what writes it is not there or ends in the middle: each try may write a whole slot of flash.
const stagesMax = 5

// put has the backend take the artifact.
func (u *upgrader) put(ctx context.Context, a upgrade.Artifact) error {
	bounded, stop := context.WithTimeout(ctx, upgrade.StageLimit)
	defer stop()
	err := u.backend.Stage(bounded, u.rec.Standby, a, func(permille int) { u.waits(fmt.Sprintf("staged: %d of 1000", permille)) })
	if err == nil || ctx.Err() != nil {
		return err
	}
	if passing := upgrade.Passing(""); errors.As(err, &passing) && bounded.Err() == nil {
		if u.tally["stage"]++; u.tally["stage"] < stagesMax {
			return fmt.Errorf("stage: %w", err)
		}
	}
	return unfitFor(upgrade.CauseStage, "stage: %w", err)
}

const backendSelf = "self"

const (
	// selftestWait and selftestBytes bound the self-test of a program that may be anything.
	selftestWait  = time.Minute
	selftestBytes = 1 << 30
	// selftestDrain is how long what it has printed may take to get here behind its end.
	selftestDrain = 10 * time.Second
	selftestSays  = 64 << 10
)

// selftestPatience is how long a self-test may take, and what it has printed may take behind its end: a test has no time.
type selftestPatience struct{ wait, drain time.Duration }

// selftest runs the new program on the config that runs: it loads it, and says who it is and what it reads and writes. It opens nothing for writing.
func (u *upgrader) selftest(ctx context.Context) error {
	_, artifact, err := u.release()
	if err != nil {
		return unfitFor(upgrade.CauseGate, "%w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, u.patient.wait)
	defer cancel()
	path := u.path(slotFile)
	if err := os.Chmod(path, 0o700); err != nil {
		return unfitFor(upgrade.CauseStage, "%w", err)
	}
	cfg := u.agent.roster.Load().config
	cmd := exec.CommandContext(ctx, path, "selftest", "--stdin", "-c", cfg.File, "-o", "json")
	cmd.Stdin, cmd.Dir = bytes.NewReader(cfg.Text), filepath.Dir(path)
	var out, says firstBytes
	cmd.Stdout, cmd.Stderr = &out, &says
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = u.patient.drain
	cmd.Env = append(os.Environ(), "GOMEMLIMIT=256MiB", "WEIR_SELFTEST=1")
	if err := cmd.Start(); err != nil { // where it lies nothing may be run, say: that says nothing against it
		return unfitFor(upgrade.CauseStage, "run the self-test: %w", err)
	}
	limit := unix.Rlimit{Cur: selftestBytes, Max: selftestBytes}
	if err := unix.Prlimit(cmd.Process.Pid, unix.RLIMIT_DATA, &limit, nil); err != nil {
		u.agent.log.Debug("the self-test runs without a bound of its memory", "error", err)
	}
	err = cmd.Wait()
	if ctx.Err() != nil && errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	switch {
	case err == nil:
	case ctx.Err() != nil, errors.Is(err, exec.ErrWaitDelay): // so does a good program on a machine that has no time for it: what is not known is not held against it
		return unfitFor(upgrade.CauseStage, "its self-test did not come to its end within %s: %w", u.patient.wait, err)
	default:
		return unfitFor(upgrade.CauseArtifact, "its self-test failed: %w: %s", err, strings.TrimSpace(says.String()))
	}
	var is SelftestReport
	if err := json.Unmarshal(out.Bytes(), &is); err != nil {
		return unfitFor(upgrade.CauseArtifact, "its self-test said what is not understood: %w", err)
	}
	if is.Version != u.rec.Target.Version {
		return unfitFor(upgrade.CauseArtifact, "it says that it is version %s, and the release says %s", is.Version, u.rec.Target.Version)
	}
	if broken := upgrade.Broken(artifact.Compat, is.Compat); len(broken) > 0 { // the gates have judged by what was promised
		return unfitFor(upgrade.CauseArtifact, "%s", strings.Join(broken, "; "))
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
	for _, e := range a.farEnds() {
		if !e.Answered {
			list = append(list, e.Name)
		}
	}
	return list
}
