package known

// answer is a file of a set's folder expected/ and where the product gives it.
type answer struct {
	set, pipeline, sink string
	file                string
	kind                kind
	// some: the file lists only some of the windows.
	some bool
}

// kind says how rows are compared.
type kind int

const (
	windows  kind = iota // each window once
	late                 // the last revision of each window, and how many there were
	dropped              // the rows that came too late, in the order of arrival
	values               // the rows that a deadband passes, in the order of arrival
	sorted               // the same in event order, where rows of different keys share an instant
	alarms               // transitions, in order
	outliers             // the rows that a zscore passes, in order
	sessions             // each session once: they come out by end, the answer lists them by key and start
	columns              // rows whose columns have the answer's names, in any order
	joined               // the same with numbers compared as such: the answer writes 84.0 where a sink writes 84
)

var answers = []answer{
	{set: "nab-traffic", pipeline: "complete", sink: "s-5m", file: "tumbling_5m", kind: windows},
	{set: "nab-traffic", pipeline: "complete", sink: "s-15m", file: "tumbling_15m", kind: windows},
	{set: "nab-traffic", pipeline: "complete", sink: "s-deadband-arrival", file: "deadband_0.5_arrival_order", kind: values},
	{set: "nab-traffic", pipeline: "complete", sink: "s-deadband-event", file: "deadband_0.5_event_order", kind: sorted},
	{set: "nab-traffic", pipeline: "complete", sink: "s-slow", file: "alert_speed_low_lt40_gt50_event_order", kind: alarms},
	{set: "nab-traffic", pipeline: "late", sink: "s-5m", file: "late_5m_D10m_L0_windows", kind: late},
	{set: "nab-traffic", pipeline: "late", sink: "d-5m", file: "late_5m_D10m_L0_dropped", kind: dropped},
	{set: "nab-traffic", pipeline: "late", sink: "s-15m", file: "late_15m_D10m_L0_windows", kind: late},
	{set: "nab-traffic", pipeline: "late", sink: "d-15m", file: "late_15m_D10m_L0_dropped", kind: dropped},
	{set: "nab-traffic", pipeline: "late", sink: "s-15m-30m", file: "late_15m_D10m_L30m_windows", kind: late},
	{set: "nab-traffic", pipeline: "late", sink: "d-15m-30m", file: "late_15m_D10m_L30m_dropped", kind: dropped},
	{set: "nab-traffic", pipeline: "complete", sink: "s-join-0s", file: "join_6005_speed_occupancy_within_0s", kind: joined},
	{set: "nab-traffic", pipeline: "complete", sink: "s-join-5m", file: "join_6005_speed_occupancy_within_5m", kind: joined},
	{set: "nab-traffic", pipeline: "windows", sink: "hopping", file: "hopping_1h_by_10m", kind: windows},
	{set: "nab-traffic", pipeline: "windows", sink: "split", file: "sessions_30m_newat_gap", kind: sessions},
	{set: "nab-traffic", pipeline: "windows", sink: "merge", file: "sessions_30m_touchmerges", kind: sessions},

	{set: "nexmark-mini", pipeline: "joins", sink: "q3", file: "q3", kind: joined},
	{set: "nexmark-mini", pipeline: "joins", sink: "q4", file: "q4_all_auctions_final", kind: joined},
	{set: "nexmark-mini", pipeline: "joins", sink: "q8", file: "q8_tumble10s", kind: joined},
	{set: "nexmark-mini", pipeline: "joins", sink: "q9", file: "q9_winning", kind: joined},
	{set: "nexmark-mini", pipeline: "joins", sink: "q20", file: "q20_count", kind: joined},

	{set: "nab-machine-temp", pipeline: "complete", sink: "s-5m", file: "tumbling_5m", kind: windows},
	{set: "nab-machine-temp", pipeline: "complete", sink: "s-1h", file: "tumbling_1h", kind: windows},
	{set: "nab-machine-temp", pipeline: "complete", sink: "s-1d", file: "tumbling_1d", kind: windows},
	{set: "nab-machine-temp", pipeline: "complete", sink: "s-hopping", file: "hopping_1h_by_10m", kind: windows},
	{set: "nab-machine-temp", pipeline: "complete", sink: "s-moved", file: "deadband_0.5", kind: values},
	{set: "nab-machine-temp", pipeline: "complete", sink: "s-hot", file: "alert_high_gt100_lt95", kind: alarms},
	{set: "nab-machine-temp", pipeline: "complete", sink: "s-cold", file: "alert_low_lt60_gt65", kind: alarms},
	{set: "nab-machine-temp", pipeline: "complete", sink: "s-odd", file: "zscore_n288_gt4.0", kind: outliers},
	{set: "nab-machine-temp", pipeline: "d0", sink: "s-5m", file: "late_5m_D0_L0_windows", kind: late, some: true},
	{set: "nab-machine-temp", pipeline: "d0", sink: "d-5m", file: "late_5m_D0_L0_dropped", kind: dropped},
	{set: "nab-machine-temp", pipeline: "d0", sink: "s-5m-30m", file: "late_5m_D0_L30m_windows", kind: late, some: true},
	{set: "nab-machine-temp", pipeline: "d0", sink: "d-5m-30m", file: "late_5m_D0_L30m_dropped", kind: dropped},
	{set: "nab-machine-temp", pipeline: "d0", sink: "s-1h", file: "late_1h_D0_L0_windows", kind: late, some: true},
	{set: "nab-machine-temp", pipeline: "d0", sink: "d-1h", file: "late_1h_D0_L0_dropped", kind: dropped},
	{set: "nab-machine-temp", pipeline: "d30m", sink: "s-5m", file: "late_5m_D30m_L0_windows", kind: late, some: true},
	{set: "nab-machine-temp", pipeline: "d30m", sink: "d-5m", file: "late_5m_D30m_L0_dropped", kind: dropped},
	{set: "nab-machine-temp", pipeline: "d60m", sink: "s-5m", file: "late_5m_D60m_L0_windows", kind: late, some: true},
	{set: "nab-machine-temp", pipeline: "d60m", sink: "d-5m", file: "late_5m_D60m_L0_dropped", kind: dropped},

	{set: "nab-keystroke-gaps", pipeline: "keys", sink: "s-1h", file: "tumbling_1h", kind: windows},
	{set: "nab-keystroke-gaps", pipeline: "keys", sink: "s-moved", file: "deadband_0.5", kind: values},
	{set: "nab-keystroke-gaps", pipeline: "keys", sink: "s-long", file: "alert_high_gt5_lt4", kind: alarms},
	{set: "nab-keystroke-gaps", pipeline: "windows", sink: "hopping", file: "hopping_1h_by_10m", kind: windows},
	{set: "nab-keystroke-gaps", pipeline: "windows", sink: "split", file: "sessions_10m_newat_gap", kind: sessions},
	{set: "nab-keystroke-gaps", pipeline: "windows", sink: "merge", file: "sessions_10m_touchmerges", kind: sessions},

	{set: "nexmark-mini", pipeline: "bids", sink: "q0", file: "q0_count", kind: columns},
	{set: "nexmark-mini", pipeline: "bids", sink: "q1", file: "q1_sum_908_thousandths", kind: columns},
	{set: "nexmark-mini", pipeline: "bids", sink: "q2", file: "q2", kind: columns},
	{set: "nexmark-mini", pipeline: "bids", sink: "q14", file: "q14_like", kind: columns},
	{set: "nexmark-mini", pipeline: "bids", sink: "q18", file: "q18_last_bid", kind: columns},
	{set: "nexmark-mini", pipeline: "channels", sink: "q16", file: "q16_like_per_channel", kind: columns},
	{set: "nexmark-mini", pipeline: "windows", sink: "q5", file: "q5_hop10s_by2s", kind: columns},
	{set: "nexmark-mini", pipeline: "windows", sink: "q7", file: "q7_tumble10s", kind: columns},
	{set: "nexmark-mini", pipeline: "windows", sink: "q11", file: "q11_session10s_newat_gap", kind: columns},

	{set: "odd-readings", pipeline: "complete", sink: "s-1s", file: "tumbling_1s", kind: windows},
	{set: "odd-readings", pipeline: "complete", sink: "s-1d", file: "tumbling_1d", kind: windows},
	{set: "odd-readings", pipeline: "complete", sink: "s-hopping", file: "hopping_1s_by_300ms", kind: windows},
	{set: "odd-readings", pipeline: "complete", sink: "split", file: "sessions_500ms_newat_gap", kind: sessions},
	{set: "odd-readings", pipeline: "complete", sink: "merge", file: "sessions_500ms_touchmerges", kind: sessions},
	{set: "odd-readings", pipeline: "complete", sink: "s-moved", file: "deadband_0.5_arrival_order", kind: values},
	{set: "odd-readings", pipeline: "complete", sink: "s-moved-in-order", file: "deadband_0.5_event_order", kind: values},
	{set: "odd-readings", pipeline: "complete", sink: "s-high", file: "alert_high_gt5_lt5", kind: alarms},
	{set: "odd-readings", pipeline: "complete", sink: "s-low", file: "alert_low_lt0_gt0", kind: alarms},
	{set: "odd-readings", pipeline: "complete", sink: "s-pairs", file: "join_left_right_within_500ms", kind: joined},
	{set: "odd-readings", pipeline: "late", sink: "s-1s", file: "late_1s_D1s_L0s_windows", kind: late},
	{set: "odd-readings", pipeline: "late", sink: "d-1s", file: "late_1s_D1s_L0s_dropped", kind: dropped},
	{set: "odd-readings", pipeline: "late", sink: "s-1s-2s", file: "late_1s_D1s_L2s_windows", kind: late},
	{set: "odd-readings", pipeline: "late", sink: "d-1s-2s", file: "late_1s_D1s_L2s_dropped", kind: dropped},
}
