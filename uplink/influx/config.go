package influx

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/uplink/httpsink"
)

// What a column can come from besides a field of the rows.
const (
	FromSeq        = "$seq"
	FromGeneration = "$generation"
	FromStream     = "$stream"
	FromGateway    = "$gateway"
	FromRow        = "$row"
	FromTime       = "$time"
)

// Column is a tag or a field of a point.
type Column struct {
	Name string
	From string        // field of the rows, or one of the above
	Kind pipeline.Kind // Null: only the run tells
	Tag  bool
}

// Config of one sink into InfluxDB or what speaks its write protocol.
type Config struct {
	// HTTP is how it is reached: token file, certificates, dial timeout, shared transports. URL, protocol and compression are set here.
	HTTP        httpsink.Config
	URL         string // http://host:8086; a path is put before /api/v2/write
	Org, Bucket string
	Measurement string
	Columns     []Column
	// Time is the column of integer times, FromTime for the event time. TimeUnit is that of the column.
	Time     string
	TimeUnit time.Duration // ns, µs, ms or s
	// Distinct adds the sequence to times of a millisecond or longer, as nanoseconds: results of one series and time are points of their own then.
	Distinct bool
	// SignedOnly writes unsigned integers as signed ones, for servers that have no unsigned fields.
	SignedOnly bool
	Gzip       bool
}

// Validate names the first field that is out of range.
func (c *Config) Validate() error {
	u, err := url.Parse(c.URL)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("influx sink url is %q, want http://... or https://...", c.URL)
	case u.User != nil || u.RawQuery != "":
		return errors.New("influx sink url holds a password or a query; use token_file, org and bucket")
	case c.Bucket == "":
		return errors.New("influx sink has no bucket")
	case c.Time == "":
		return errors.New("influx sink has no time")
	case c.TimeUnit != time.Nanosecond && c.TimeUnit != time.Microsecond && c.TimeUnit != time.Millisecond && c.TimeUnit != time.Second:
		return fmt.Errorf("influx sink time unit is %s, allowed is 1ns, 1µs, 1ms, 1s", c.TimeUnit)
	case c.Distinct && c.TimeUnit < time.Millisecond:
		return errors.New("influx sink distinct needs times in ms or s")
	}
	if err := CheckName(c.Measurement); err != nil {
		return fmt.Errorf("influx sink measurement: %w", err)
	}
	fields := 0
	for _, col := range c.Columns {
		if err := CheckName(col.Name); err != nil {
			return fmt.Errorf("influx sink column: %w", err)
		}
		if !col.Tag {
			fields++
		}
	}
	if fields == 0 {
		return errors.New("influx sink has no field")
	}
	return nil
}

// CheckName says whether a measurement, tag key or field key can be written.
func CheckName(name string) error {
	switch {
	case name == "":
		return errors.New("the name is empty")
	case name[0] == '_' || name == "time":
		return fmt.Errorf("%q: time and names that begin with _ are the server's own", name)
	case name[0] == '#':
		return fmt.Errorf("%q begins with #, so the line would be a comment", name)
	case strings.HasSuffix(name, `\`):
		return fmt.Errorf("%q ends with a backslash, which line protocol cannot say", name)
	}
	for _, r := range name {
		if r < ' ' || r == 0x7F {
			return fmt.Errorf("%q holds a control character", name)
		}
	}
	return nil
}
