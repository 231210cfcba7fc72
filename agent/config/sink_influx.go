package config

import (
	"time"

	"github.com/weirstream/weir/pipeline/plan"
)

// pointNameKind is a measurement, tag key or field key.
var pointNameKind = textKind{what: "a name", check: checkPointName, allowed: "a name without control characters that does not begin with _ or # and is not time"}

func checkPointName(name string) string {
	switch {
	case name == "" || name == "time" || name[0] == '_' || name[0] == '#':
		return "the name is the server's own"
	case name[len(name)-1] == '\\':
		return "line protocol has no names that end with a backslash"
	}
	for _, r := range name {
		if r < ' ' || r == 0x7F {
			return "the name holds a control character"
		}
	}
	return ""
}

const influxTexts = "columns of the rows, or $seq, $generation, $stream, $gateway, $row"

var influxObject = &object[plan.InfluxTarget]{place: func(t *plan.InfluxTarget, at plan.Pos) { t.Pos = at }, section: section{what: "influx", list: append([]*setting{
	set("url", at(func(t *plan.InfluxTarget) *plan.Text { return &t.URL }).is(textKind{what: "a URL such as https://influx.example.com", pattern: "^https?://"}), "Server; /api/v2/write is put behind it.", required()),
	set("org", at(func(t *plan.InfluxTarget) *plan.Text { return &t.Org }).is(textKind{what: "the name of an organization"}), "Organization. Left out: none is named (InfluxDB 1.8)."),
	set("bucket", at(func(t *plan.InfluxTarget) *plan.Text { return &t.Bucket }).is(textKind{what: "the name of a bucket"}), "Bucket (InfluxDB 1.8: database, or database/retention policy). It is not made.", required()),
	set("token_file", at(func(t *plan.InfluxTarget) *string { return &t.TokenFile }).is(fileKind), "File with the token. Read again after a refusal.", secretFile()),
	set("measurement", at(func(t *plan.InfluxTarget) *plan.Text { return &t.Measurement }).is(pointNameKind), "Measurement of all points.", required()),
	set("tags", at(func(t *plan.InfluxTarget) *[]plan.ColumnSpec { return &t.Tags }).is(columnsKind{what: "tag", texts: influxTexts, free: true}),
		"Tags: with the measurement they name the series. Left out: none."),
	set("fields", at(func(t *plan.InfluxTarget) *[]plan.ColumnSpec { return &t.Fields }).is(columnsKind{what: "field", texts: influxTexts, free: true}),
		"Fields. Left out: every column that is neither tag nor time, under its own name."),
	set("time", at(func(t *plan.InfluxTarget) *plan.Text { return &t.Time }).is(stringTextKind), "Column with the time, a whole number; $time is the event time.", byDefault("$time")),
	set("time_unit", at(func(t *plan.InfluxTarget) *string { return &t.TimeUnit }).is(choiceKind{words: []string{"ms", "s", "us", "ns"}}), "Unit of the time column.", byDefault("ms")),
	set("distinct", at(func(t *plan.InfluxTarget) *bool { return &t.Distinct }).is(boolKind{}),
		"Add the sequence to the time, as nanoseconds, so that results of one series and time are points of their own. For times in ms or s.", byDefault("false")),
	set("unsigned", at(func(t *plan.InfluxTarget) *bool { return &t.Unsigned }).is(boolKind{}), "The server has unsigned fields (InfluxDB 2 and 3). Else unsigned integers are written as signed ones, up to 2^63 - 1.", byDefault("true")),
	set("gzip", at(func(t *plan.InfluxTarget) *bool { return &t.Gzip }).is(boolKind{}), "Compress the requests.", byDefault("true")),
	set("batch", at(func(t *plan.InfluxTarget) *plan.InfluxTarget { return t }).is(influxBatch), "Size of a request."),
	set("timeout", at(func(t *plan.InfluxTarget) *int64 { return &t.TimeoutNs }).is(nanoseconds{durationKind{least: 100 * time.Millisecond, most: time.Hour}}), "How long a request may take.", byDefault("30s")),
}, certificates(func(t *plan.InfluxTarget) *plan.Certificates { return &t.Certificates })...)}, check: func(r *reader, n *node, t *plan.InfluxTarget) {
	checkCertificates(r, n, &t.Certificates)
	for _, list := range [][]plan.ColumnSpec{t.Tags, t.Fields} {
		for _, c := range list {
			if reason := checkPointName(c.Name.Value); reason != "" {
				r.problems.Add(c.Name.Pos, "", pointNameKind.allowed, "%s: %s", quote(c.Name.Value), reason)
			}
		}
	}
	if t.Distinct && (t.TimeUnit == "us" || t.TimeUnit == "ns") {
		r.problems.Add(n.pos, "", "time_unit ms or s", "distinct with time_unit %s: the sequence would change the time", t.TimeUnit)
	}
}}

var stringTextKind = textKind{what: "a column, or $time"}

var influxBatch = &object[plan.InfluxTarget]{section: section{what: "batch", list: []*setting{
	set("records", at(func(t *plan.InfluxTarget) *int { return &t.BatchRecords }).is(intKind{1, 100000}), "Most results of a request.", byDefault("5000")),
	set("bytes", at(func(t *plan.InfluxTarget) *int64 { return &t.BatchBytes }).is(sizeKind{least: 1 << 10, most: 64 << 20}), "Most bytes of a request's rows.", byDefault("1MiB")),
}}}
