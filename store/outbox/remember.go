package outbox

import (
	"context"
	"fmt"
)

// Remember writes down what upstream has confirmed. It is durable on return; repeating it is harmless. Nothing needs it that starts again: Open upstream tells. It
// is for a device that upstream does not answer any more.
func (o *Outbox) Remember(ctx context.Context) error {
	o.sealing.Lock()
	defer o.sealing.Unlock()
	for _, s := range o.sorted() {
		if s.log.Last() < s.log.First() && s.Stats().ConfirmedUpTo == 0 {
			continue // nothing was ever in it
		}
		_, err := s.writeMarks(0)
		if err == nil {
			err = s.log.Sync(ctx)
		}
		if err != nil {
			return fmt.Errorf("remember what upstream of %s has confirmed: %w", s.uid, err)
		}
	}
	return nil
}
