package agent

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
)

// damageLog takes what recoveries tell as errors into a report: records lost, segments and files set aside. What they only warn of is no damage.
type damageLog struct {
	report *CheckReport
	with   string
}

func (*damageLog) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelError }

// Handle implements slog.Handler.
func (d *damageLog) Handle(_ context.Context, rec slog.Record) error {
	var b strings.Builder
	b.WriteString(rec.Message + d.with)
	rec.Attrs(func(a slog.Attr) bool {
		if a.Key == "what" { // a sentence
			fmt.Fprintf(&b, ": %v", a.Value)
		} else {
			fmt.Fprintf(&b, ", %s %v", a.Key, a.Value)
		}
		return true
	})
	d.report.damage("%s", b.String())
	return nil
}

// WithAttrs implements slog.Handler.
func (d *damageLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	n := *d
	for _, a := range attrs {
		n.with += fmt.Sprintf(", %s %v", a.Key, a.Value)
	}
	return &n
}

// WithGroup implements slog.Handler.
func (d *damageLog) WithGroup(string) slog.Handler { return d }
