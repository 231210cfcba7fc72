package fleet

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/weirstream/weir/fleet/depot"
	"github.com/weirstream/weir/fleet/document"
	"github.com/weirstream/weir/fleet/signed"
	"github.com/weirstream/weir/tests/rig"
)

// says runs weir, as somebody at a terminal, and wants an exit code, and words in what it says.
func (p *plant) says(code int, words string, args ...string) string {
	p.t.Helper()
	out, got := p.try(nil, args...)
	if got != code || !strings.Contains(out, words) {
		p.dump()
		p.t.Fatalf("weir %s: exit code %d, want %d with %q:\n%s", strings.Join(args, " "), got, code, words, out)
	}
	return out
}

func (p *plant) try(env []string, args ...string) (out string, code int) {
	p.t.Helper()
	cmd := exec.CommandContext(p.t.Context(), binary, args...)
	cmd.Env = append(os.Environ(), env...)
	b, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return string(b), exit.ExitCode()
	}
	p.must(err)
	return string(b), 0
}

// flags name the fleet's store, and whom to trust.
func (p *plant) flags() []string {
	return []string{"--store", "s3://" + p.store.Bucket + "/central", "--endpoint", "http://" + p.store.Addr, "--credentials-file", p.store.CredentialsFile, "--root", p.at("keys/root.1.json")}
}

// operator runs a command on the fleet.
func (p *plant) operator(code int, words string, args ...string) string {
	p.t.Helper()
	return p.says(code, words, append(args, p.flags()...)...)
}

// deploy runs a command that the deploy key signs.
func (p *plant) deploy(code int, words string, args ...string) string {
	p.t.Helper()
	return p.operator(code, words, append(args, "--yes", "--key", p.at("keys/deploy-1.key"))...)
}

// release makes a program and its release, and gives its digest.
func (p *plant) release(version, bad string) string {
	p.t.Helper()
	file := p.at("programs/" + version)
	p.must(program(file, version, bad))
	out := p.operator(0, "", "release", "create", "--version", version, "--artifact", runtime.GOARCH+"="+file, "--secure-version", "1", "--chunk-bytes", "4194304", "--yes", "--key", p.at("keys/release-1.key"), "-o", "json")
	p.must(os.Remove(file)) // the store has it
	var made struct{ Release string }
	p.must(json.Unmarshal(lineOf(out, "{"), &made))
	return made.Release
}

// reconciler is an operator who stays until the roll-out is done, or waits for somebody.
type reconciler struct {
	child *rig.Child
	log   string
}

// reconciles starts one.
func (p *plant) reconciles(name string, env ...string) *reconciler {
	p.t.Helper()
	r := &reconciler{log: p.at("reconcile-" + name + ".log")}
	args := append([]string{"fleet", "reconcile", "--watch", "1s", "--key", p.at("keys/deploy-1.key")}, p.flags()...)
	child, err := rig.StartChild(r.log, env, binary, args...)
	p.must(err)
	p.t.Cleanup(child.Kill)
	r.child = child
	return r
}

// ends waits for the reconciler's end, and gives what it said.
func (p *plant) ends(r *reconciler) string {
	p.t.Helper()
	p.await("the operator's reconciler ends", func() (bool, string) {
		select {
		case <-r.child.Done():
			return true, ""
		default:
		}
		b, _ := os.ReadFile(r.log)
		return false, string(b)
	})
	b, err := os.ReadFile(r.log)
	p.must(err)
	return string(b)
}

// standing is what weir fleet status says.
type standing struct {
	ID      string
	Serial  uint64
	Wave    int
	Halted  bool
	Verdict struct {
		Counts struct {
			Known, Waiting, Committed, Halted, Failed, Silent, Gated int
			UnderWay                                                 int `json:"under_way"`
			RolledBack                                               int `json:"rolled_back"`
		}
		Done bool
		Why  string
	}
	Refused map[string]int
}

// standing asks; halted roll-outs have exit code 10.
func (p *plant) standing(args ...string) (s standing) {
	p.t.Helper()
	out, code := p.try(nil, append(append([]string{"fleet", "status", "-o", "json"}, args...), p.flags()...)...)
	if err := json.Unmarshal(lineOf(out, "{"), &s); err != nil || code != 0 && code != 10 {
		p.t.Fatalf("exit code %d: %v: %s", code, err, out)
	}
	return s
}

// lineOf is the first line that begins so: warnings may stand before it.
func lineOf(out, begin string) []byte {
	for l := range strings.Lines(out) {
		if strings.HasPrefix(l, begin) {
			return []byte(l)
		}
	}
	return nil
}

// current is the channel's roll-out, as it lies there.
func (p *plant) current() *document.Rollout {
	p.t.Helper()
	e, err := signed.Parse(p.read(depot.Rollout("stable")))
	p.must(err)
	r, err := document.DecodeRollout(e.Payload)
	p.must(err)
	return r
}

// history is every roll-out document of the channel, in order.
func (p *plant) history() (list []*document.Rollout) {
	p.t.Helper()
	root, err := os.ReadFile(p.at("keys/root.1.json"))
	p.must(err)
	trust, err := signed.NewTrust(root)
	p.must(err)
	_, current, err := p.depot.CurrentRollout(p.t.Context(), trust, "stable")
	p.must(err)
	if current == nil {
		return nil
	}
	for serial := uint64(1); serial <= current.Serial; serial++ {
		body, _, err := p.depot.Read(p.t.Context(), depot.History("stable", serial), "")
		if serial == current.Serial { // it may not be there yet: the next one puts it there
			body, _, err = p.depot.Read(p.t.Context(), depot.Rollout("stable"), "")
		}
		p.must(err)
		payload, err := trust.Verify(body, signed.TypeRollout)
		p.must(err)
		r, err := document.DecodeRollout(payload)
		p.must(err)
		list = append(list, r)
	}
	return list
}

// cohort are the gateways of a roll-out below a share.
func (p *plant) cohort(id string, permille int) (in, out []*gateway) {
	for _, g := range p.gateways {
		if document.Cohort(id, g.name) < permille {
			in = append(in, g)
		} else {
			out = append(out, g)
		}
	}
	return in, out
}

// named draws names of roll-outs until its waves have gateways enough: a small fleet has few.
func (p *plant) named(id string, fits func(id string) bool) string {
	p.t.Helper()
	const names = 3600
	for n := range names {
		if name := id + "-" + time.Unix(int64(n), 0).UTC().Format("0405"); fits(name) {
			return name
		}
	}
	p.t.Fatalf("no name of %d puts as many of %d gateways into the waves of %s as the test wants", names, len(p.gateways), id)
	return ""
}
