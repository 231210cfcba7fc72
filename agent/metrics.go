package agent

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/VictoriaMetrics/metrics"

	"github.com/weirstream/weir/agent/api"
)

// WriteMetrics writes the status as Prometheus metrics, then those of the process.
func (a *Agent) WriteMetrics(w io.Writer) {
	s := a.Status()
	metrics.WriteGaugeUint64(w, fmt.Sprintf("weir_info{version=%q,gateway=%q}", s.Version, s.Gateway), 1)
	metrics.WriteGaugeUint64(w, "weir_fenced", flag(s.Identity.Fenced != ""))
	left := api.StrandedStatus{}
	if s.Identity.Stranded != nil {
		left = *s.Identity.Stranded
	}
	metrics.WriteGaugeUint64(w, "weir_stranded_results", left.Results)
	metrics.WriteGaugeUint64(w, "weir_stranded_records", left.Records)
	metrics.WriteGaugeUint64(w, "weir_clock_trusted", flag(s.Clock.Trusted))
	metrics.WriteCounterUint64(w, "weir_clock_steps_total", s.Clock.Steps)
	metrics.WriteGaugeFloat64(w, "weir_clock_floor_seconds", float64(s.Clock.FloorMs)/1e3)
	metrics.WriteGaugeUint64(w, "weir_journal_first_position", s.Journal.First)
	metrics.WriteGaugeUint64(w, "weir_journal_last_position", s.Journal.Last)
	metrics.WriteGaugeUint64(w, "weir_journal_bytes", uint64(s.Journal.Bytes))
	metrics.WriteGaugeUint64(w, "weir_journal_max_bytes", uint64(s.Journal.BytesMax))
	metrics.WriteCounterUint64(w, "weir_journal_written_bytes_total", s.Journal.Written)
	metrics.WriteCounterUint64(w, "weir_journal_syncs_total", s.Journal.Syncs)
	metrics.WriteGaugeUint64(w, "weir_journal_full", flag(s.Journal.Full))
	metrics.WriteGaugeUint64(w, "weir_journal_failed", flag(s.Journal.Failed != ""))
	if s.Flash != nil {
		writeFlash(w, s.Flash)
	}
	if s.Fleet != nil {
		writeFleet(w, s.Fleet)
	}
	if s.Upgrade != nil {
		writeUpgrade(w, s.Upgrade)
	}
	for _, b := range s.Sessions {
		metrics.WriteGaugeUint64(w, fmt.Sprintf("weir_mqtt_ready{broker=%q}", b.Name), flag(b.State == "ready"))
		for name, v := range b.Counters {
			metrics.WriteCounterUint64(w, fmt.Sprintf("weir_mqtt_%s_total{broker=%q}", name, b.Name), v)
		}
	}
	for i := range s.Pipelines {
		p := &s.Pipelines[i]
		l := fmt.Sprintf("{pipeline=%q}", p.Name)
		metrics.WriteGaugeUint64(w, "weir_pipeline_running"+l, flag(p.State == string(PipelineRunning)))
		metrics.WriteCounterUint64(w, "weir_pipeline_restarts_total"+l, p.Restarts)
		metrics.WriteGaugeUint64(w, "weir_pipeline_position"+l, p.Position)
		metrics.WriteGaugeUint64(w, "weir_pipeline_lag_records"+l, p.Lag)
		// 0 is an alarm: a pipeline that was refused, or is between two attempts, counts nothing, so nothing is missing.
		metrics.WriteGaugeUint64(w, "weir_pipeline_ledger_balanced"+l, flag(p.Balanced || p.Imbalance == ""))
		metrics.WriteGaugeFloat64(w, "weir_checkpoint_age_seconds"+l, p.Checkpoint.AgeSeconds)
		metrics.WriteGaugeUint64(w, "weir_checkpoint_bytes"+l, uint64(p.Checkpoint.Bytes))
		metrics.WriteGaugeFloat64(w, "weir_checkpoint_duration_seconds"+l, p.Checkpoint.DurationMs/1e3)
		metrics.WriteCounterUint64(w, "weir_checkpoint_completed_total"+l, p.Checkpoint.Completed)
		metrics.WriteCounterUint64(w, "weir_checkpoint_failed_total"+l, p.Checkpoint.Failed)
		if p.Large != nil {
			metrics.WriteGaugeUint64(w, "weir_state_disk_bytes"+l, p.Large.Disk)
			metrics.WriteCounterUint64(w, "weir_state_written_bytes_total"+l, p.Large.Written)
			metrics.WriteGaugeUint64(w, "weir_state_memory_bytes"+l, p.Large.Memory)
		}
		if c := p.Central; c != nil {
			metrics.WriteGaugeUint64(w, "weir_central_position"+l, c.Position)
			metrics.WriteGaugeFloat64(w, "weir_central_age_seconds"+l, c.AgeSeconds)
			metrics.WriteGaugeFloat64(w, "weir_central_loss_seconds"+l, c.LossSeconds)
			metrics.WriteGaugeUint64(w, "weir_central_pending_bytes"+l, c.Pending)
			metrics.WriteGaugeUint64(w, "weir_central_ok"+l, flag(c.Error == ""))
			metrics.WriteGaugeUint64(w, "weir_central_fenced"+l, flag(c.Fenced))
			counters(w, "weir_central", l, "uploads", c.Uploads, "sent_bytes", c.Sent)
		}
		if d := p.Dead; d != nil {
			counters(w, "weir_deadletter", l, "kept", d.Kept, "evicted", d.Evicted, "expired", d.Expired, "requeued", d.Requeued)
			metrics.WriteGaugeUint64(w, "weir_deadletter_held"+l, d.Held)
			metrics.WriteGaugeUint64(w, "weir_deadletter_bytes"+l, uint64(d.Bytes))
			if k := d.Sink; k != nil {
				counters(w, "weir_deadletter_sink", l, "delivered", k.Before+k.Delivered, "dropped", k.Dropped, "rejected", k.Rejected)
				metrics.WriteGaugeUint64(w, "weir_deadletter_sink_pending"+l, k.Pending)
			}
		}
		for _, x := range p.Sources {
			l := fmt.Sprintf("{pipeline=%q,source=%q}", p.Name, x.Name)
			counters(w, "weir_source", l, "received", x.Received, "split", x.Split, "processed", x.Processed, "rows", x.Rows, "tombstones", x.Tombstones, "dead", x.Dead, "stubs", x.Stubs)
		}
		for _, x := range p.Steps {
			l := fmt.Sprintf("{pipeline=%q,step=%q}", p.Name, x.UID)
			counters(w, "weir_step", l, "in", x.In, "emitted", x.Emitted, "late", x.Late, "dropped", x.Dropped, "dead", x.Dead)
		}
		for _, x := range p.Sinks {
			l := fmt.Sprintf("{pipeline=%q,sink=%q}", p.Name, x.UID)
			counters(w, "weir_sink", l, "emitted", x.Emitted, "confirmed", x.Confirmed, "rejected", x.Rejected, "dropped", x.Dropped, "expired", x.Expired, "overflowed", x.Overflowed,
				"retries", x.Retries, "divergences", x.Divergences)
			metrics.WriteGaugeUint64(w, "weir_sink_pending"+l, x.Pending)
			metrics.WriteGaugeUint64(w, "weir_sink_waiting_bytes"+l, uint64(x.Bytes))
			metrics.WriteGaugeUint64(w, "weir_sink_limit_bytes"+l, uint64(x.BytesMax))
			metrics.WriteGaugeUint64(w, "weir_sink_disk_bytes"+l, uint64(x.DiskBytes))
			metrics.WriteGaugeUint64(w, "weir_sink_full"+l, flag(x.Full))
			metrics.WriteGaugeUint64(w, "weir_sink_held"+l, flag(x.Held != ""))
			metrics.WriteGaugeUint64(w, "weir_sink_ok"+l, flag(x.State == "ok"))
		}
	}
	metrics.WriteProcessMetrics(w)
}

func writeFlash(w io.Writer, f *api.FlashStatus) {
	l := fmt.Sprintf("{disk=%q}", f.Disk)
	counters(w, "weir_flash", l, "written_bytes", f.TotalBytes, "own_bytes", f.TotalOwn)
	for _, g := range []struct {
		name  string
		value float64
	}{
		{"day_bytes", float64(f.DayBytes)}, {"day_own_bytes", float64(f.DayOwn)}, {"day_seconds", f.DaySeconds}, {"bytes_per_day", f.PerDay}, {"budget_bytes", f.Budget},
		{"years_left", f.Years}, {"used_ratio", f.UsedMost}, {"spare_level", float64(f.Spare)}, {"linger_seconds", f.Linger.Now}, {"checkpoint_interval_seconds", f.Interval.Now},
		{"stretched", float64(flag(f.Linger.Stretched() || f.Interval.Stretched()))}, {"findings", float64(len(f.Findings))},
	} {
		metrics.WriteGaugeFloat64(w, "weir_flash_"+g.name+l, g.value)
	}
}

func writeUpgrade(w io.Writer, u *api.UpgradeStatus) {
	metrics.WriteGaugeUint64(w, fmt.Sprintf("weir_upgrade_state{state=%q,cause=%q}", u.State, u.Cause), 1)
	metrics.WriteGaugeUint64(w, "weir_upgrade_tries", uint64(u.Tries))
	metrics.WriteGaugeUint64(w, "weir_upgrade_held_bytes", uint64(u.Held))
	metrics.WriteGaugeUint64(w, "weir_upgrade_vain_tries", uint64(u.Vain))
	metrics.WriteCounterUint64(w, "weir_upgrade_pieces_repeated_total", u.Repeated)
	metrics.WriteGaugeUint64(w, "weir_upgrade_not_usable", flag(u.NotUsable != ""))
}

func writeFleet(w io.Writer, f *api.FleetStatus) {
	for _, g := range []struct {
		name  string
		value float64
	}{
		{"broken", float64(flag(f.Broken != ""))}, {"ok", float64(flag(f.Broken == "" && f.Error == ""))}, {"contact_seconds", f.ContactSeconds}, {"document_age_seconds", f.AgeSeconds}, {"root_version", float64(f.Root)},
		{"bell", float64(flag(f.Bell))}, {"commands_begun", float64(f.Begun)}, {"results_unsent", float64(f.Unsent)},
	} {
		metrics.WriteGaugeFloat64(w, "weir_fleet_"+g.name, g.value)
	}
	counters(w, "weir_fleet", "", "polls", f.Polls, "poll_failures", f.Failures, "rings", f.Rings, "bad_rings", f.BadRings, "reports", f.Reports, "ledger_writes", f.Writes)
	for _, scope := range slices.Sorted(maps.Keys(f.Serials)) {
		metrics.WriteGaugeUint64(w, fmt.Sprintf("weir_fleet_serial{scope=%q}", scope), f.Serials[scope])
	}
	for _, result := range slices.Sorted(maps.Keys(f.Commands)) {
		metrics.WriteCounterUint64(w, fmt.Sprintf("weir_fleet_commands_total{result=%q}", result), f.Commands[result])
	}
	for _, reason := range slices.Sorted(maps.Keys(f.Refused)) {
		metrics.WriteCounterUint64(w, fmt.Sprintf("weir_fleet_refused_total{reason=%q}", reason), f.Refused[reason])
	}
}

// counters writes pairs of name and value.
func counters(w io.Writer, prefix, labels string, pairs ...any) {
	for i := 0; i+1 < len(pairs); i += 2 {
		name := strings.Join([]string{prefix, pairs[i].(string), "total"}, "_")
		metrics.WriteCounterUint64(w, name+labels, pairs[i+1].(uint64))
	}
}

func flag(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}
