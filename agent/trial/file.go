package trial

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/agent/replay"
	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/suggest"
)

// File is a test file as written.
type File struct {
	// Config is the config file with the pipeline, relative to the test file.
	Config string `yaml:"config"`
	// Pipeline is its name; it may be left out when the config has one.
	Pipeline string `yaml:"pipeline"`
	Cases    []Case `yaml:"cases"`

	name  string
	graph *config.Pipeline
	spoil func(pipeline.StateSource) pipeline.StateSource // planted fault: what a restore loses; nil: nothing
}

// Case is one run: what arrives, what happens to the agent meanwhile, what comes out.
type Case struct {
	Name string `yaml:"name"`
	// Start is the wall clock at 0s.
	Start     time.Time  `yaml:"start"`
	Input     []Arrival  `yaml:"input"`
	Recording string     `yaml:"recording"` // a file as for weir replay, instead of input
	CrashAt   []duration `yaml:"crash_at"`
	RestartAt []duration `yaml:"restart_at"`
	// CheckpointAt replaces the interval of the pipeline.
	CheckpointAt []duration `yaml:"checkpoint_at"`
	// Drain sends event time to infinity at the end, so that every window fires; nil: true.
	Drain       *bool             `yaml:"drain"`
	Expect      map[string]Expect `yaml:"expect"`
	DeadLetters int               `yaml:"dead_letters"`
}

// Arrival is a message, or, without a topic, the time going on.
type Arrival struct {
	At      duration `yaml:"at"`
	Topic   string   `yaml:"topic"`
	Payload any      `yaml:"payload"` // text as it is; a mapping or list becomes JSON
	Base64  string   `yaml:"payload_b64"`
	QoS     int      `yaml:"qos"`
	Retain  bool     `yaml:"retain"`
	Dup     bool     `yaml:"dup"`
}

// Expect are the results of a sink, in order: all of them, or their number. It is read from a list of rows, or {count: N}.
type Expect struct {
	Rows  []map[string]any
	Count *int
}

func (e *Expect) decode(d *decoder, n ast.Node) error {
	if _, list := n.(*ast.SequenceNode); list {
		return d.value(n, reflect.ValueOf(&e.Rows).Elem())
	}
	var counted struct {
		Count *int `yaml:"count"`
	}
	if err := d.fields(n, reflect.ValueOf(&counted).Elem()); err != nil {
		return err
	}
	if counted.Count == nil {
		return wrong(n, "expect wants a list of rows, or {count: N}")
	}
	e.Count = counted.Count
	return nil
}

// duration is a time since the start of the case: 90s, 1m30s, 0s.
type duration time.Duration

func (t *duration) decode(d *decoder, n ast.Node) error {
	s, err := d.text(n)
	if err != nil {
		return err
	}
	if s == "0" {
		s = "0s"
	}
	v, err := time.ParseDuration(s)
	if err != nil || v < 0 {
		return wrong(n, "time %q: want the time since the start of the case, such as 90s", s)
	}
	*t = duration(v)
	return nil
}

// startDefault is the wall clock at 0s where a case says nothing.
var startDefault = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// Open reads and checks a test file and its config. It touches nothing.
func Open(name string) (*File, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("open test file: %w", err)
	}
	f := &File{name: name}
	if err := decode(text, f); err != nil {
		return nil, fmt.Errorf("%s:%w", name, err)
	}
	if f.Config == "" {
		return nil, fmt.Errorf("%s: config is missing: the config file with the pipeline, relative to this file", name)
	}
	if len(f.Cases) == 0 {
		return nil, fmt.Errorf("%s: it has no cases", name)
	}
	cfg, err := config.Load(filepath.Join(filepath.Dir(name), f.Config))
	if err != nil {
		return nil, err
	}
	if f.graph, err = cfg.Pick(f.Pipeline, "pipeline"); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	for i := range f.Cases {
		if err := f.check(&f.Cases[i], i); err != nil {
			return nil, fmt.Errorf("%s: case %q: %w", name, f.Cases[i].Name, err)
		}
	}
	return f, nil
}

func near(name string, names []string) string {
	if s := suggest.Nearest(name, names); s != "" {
		return fmt.Sprintf("; did you mean %q?", s)
	}
	return ""
}

// check completes a case and finds what cannot be meant.
func (f *File) check(c *Case, index int) error {
	if c.Name == "" {
		c.Name = fmt.Sprintf("case %d", index+1)
	}
	if c.Start.IsZero() {
		c.Start = startDefault
	}
	if c.Recording != "" && len(c.Input) > 0 {
		return errors.New("input and recording are both given; a case has one of them")
	}
	if c.Recording != "" {
		if err := c.readRecording(filepath.Join(filepath.Dir(f.name), c.Recording)); err != nil {
			return err
		}
	}
	if len(c.Input) == 0 {
		return errors.New("nothing arrives: give input or recording")
	}
	for i, a := range c.Input {
		switch {
		case i > 0 && a.At < c.Input[i-1].At:
			return fmt.Errorf("input %d arrives at %s, before the one above it", i+1, time.Duration(a.At))
		case a.Topic == "" && (a.Payload != nil || a.Base64 != ""):
			return fmt.Errorf("input %d has a payload and no topic", i+1)
		case strings.ContainsAny(a.Topic, "+#"):
			return fmt.Errorf("input %d: topic %q is a filter; a message has a topic without + and #", i+1, a.Topic)
		case a.Payload != nil && a.Base64 != "":
			return fmt.Errorf("input %d has payload and payload_b64", i+1)
		case a.QoS < 0 || a.QoS > 2:
			return fmt.Errorf("input %d: qos %d; allowed are 0, 1, 2", i+1, a.QoS)
		}
	}
	var sinks []string
	for _, s := range f.graph.Graph.Sinks {
		sinks = append(sinks, s.UID)
	}
	for uid := range c.Expect {
		found := false
		for _, s := range sinks {
			found = found || s == uid
		}
		if !found {
			return fmt.Errorf("expect names the sink %q; the pipeline has %v%s", uid, sinks, near(uid, sinks))
		}
	}
	return nil
}

// readRecording takes the deliveries of a file for the input; the case starts at the first.
func (c *Case) readRecording(name string) error {
	in, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("open recording: %w", err)
	}
	defer in.Close()
	deliveries := replay.NewDeliveries(in)
	for {
		d, err := deliveries.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("recording %s: %w", name, err)
		}
		if len(c.Input) == 0 {
			c.Start = time.UnixMilli(d.AtMs).UTC()
		}
		at := max(time.UnixMilli(d.AtMs).Sub(c.Start), 0)
		if n := len(c.Input); n > 0 {
			at = max(at, time.Duration(c.Input[n-1].At)) // elapsed time never goes back
		}
		c.Input = append(c.Input, Arrival{
			At: duration(at), Topic: d.Topic, Base64: base64.StdEncoding.EncodeToString([]byte(d.Payload)), QoS: int(d.QoS), Retain: d.Retain, Dup: d.Dup,
		})
	}
}
