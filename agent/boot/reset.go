package boot

import (
	"errors"
	"os"

	"github.com/weirstream/weir/agent/upgrade"
)

// Reset has the factory program run from the next start on, whatever the record asks for, until another upgrade asks: an operator's last resort. The slots are emptied; the newest root document and the floor stay. Nothing of the
// agent's is touched: its record stays, and whether the factory program can read the state is weir's to say. Repeating it is harmless.
func (p *Places) Reset() error {
	p.prepare()
	defer p.lock()()
	r, err := p.record()
	if err != nil { // a record that cannot be read has the factory program run as well, once nothing else is linked
		r = &upgrade.Record{}
	}
	if err := p.hold(held{Number: r.Number, SHA256: r.Target.SHA256, Why: "an operator asked for it (weir-boot reset)", Always: true}); err != nil {
		return err
	}
	if err := p.link(upgrade.Factory); err != nil {
		return err
	}
	for _, name := range []string{refusedFile, rescueFile, pacedFile, verifiedFile} {
		p.forget(name)
	}
	return nil
}

// Purge removes all that is the helper's own.
func (p *Places) Purge() error {
	return errors.Join(os.RemoveAll(p.Dir), os.RemoveAll(p.Run))
}
