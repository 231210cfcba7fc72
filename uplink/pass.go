package uplink

import "context"

// Pass returns when n bytes of a priority may be sent: the link's window is open, and its bandwidth has room. A nil Link lets all pass. It is for what is sent by no Sender.
func (l *Link) Pass(ctx context.Context, n int, p Priority) error {
	if err := l.await(ctx, p, func(string) {}); err != nil {
		return err
	}
	return l.spend(ctx, n, p)
}
