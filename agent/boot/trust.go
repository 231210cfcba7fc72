package boot

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/weirstream/weir/fleet/signed"
)

// errNoRoot: the gateway was given no root document, so that nothing can be verified.
var errNoRoot = errors.New("there is no root document")

// trust is the newest root that is known: what was provisioned or the helper's own newer copy, and from there the chain that the agent has fetched, each link verified. A newer one is kept before anything is judged by it, so that
// a root that is taken away again stays known.
func (p *Places) trust() (*signed.Trust, error) {
	t, own, err := p.ownTrust()
	if err != nil {
		return nil, err
	}
	before := t.Version()
	for range rootStepsMax {
		b, err := readGuarded(p.State, filepath.Join(upgradeDir, fmt.Sprintf("root-%d.json", t.Version()+1)), documentMax)
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err == nil {
			err = t.Advance(b)
		}
		if err != nil { // a stranger's file keeps nobody from what is known
			p.say(warning, "root document %d is not taken: %v", t.Version()+1, err)
			break
		}
	}
	if t.Version() > before || !own {
		if err := p.makeDir(p.Dir); err != nil {
			return nil, err
		}
		if err := p.keep(filepath.Join(p.Dir, rootFile), t.Envelope()); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// ownTrust is the newer one of the two that belong to root. A provisioned one of another fleet is an operator's word.
func (p *Places) ownTrust() (t *signed.Trust, own bool, err error) {
	given, errGiven := p.readRoot(p.Provisioned)
	kept, errKept := p.readRoot(filepath.Join(p.Dir, rootFile))
	switch {
	case kept == nil && given == nil:
		return nil, false, errors.Join(errNoRoot, errGiven, errKept)
	case given == nil:
		return kept, true, nil
	case kept == nil || kept.Fleet() != given.Fleet() || kept.Version() < given.Version():
		return given, false, nil
	}
	return kept, true, nil
}

func (p *Places) readRoot(name string) (*signed.Trust, error) {
	b, there, err := readOwn(name, p.Owner, documentMax)
	if err != nil || !there {
		return nil, err
	}
	t, err := signed.NewTrust(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return t, nil
}
