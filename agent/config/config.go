// Package config reads weir's YAML file into a Config. It is strict: an unknown key, a wrong type, a missing or doubled
// setting, a value out of range is refused, every one of them at once, each with file, line and column. The reader, the
// JSON Schema (`weir schema`) and docs/config.md come from one table of definitions (setting.go and the section files).
//
// It reads the one file and touches nothing else. Secrets stand in files of their own (settings that end in _file); their
// content is never read here and so never printed.
package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/weirstream/weir/pipeline/plan"
)

// Config is a checked config file. Every optional setting that the file leaves out has its documented default.
type Config struct {
	File     string
	Text     []byte    // of the file
	Gateway  plan.Text // "": derived from the machine id (GatewayFromMachineID)
	StateDir plan.Text // absolute
	// Board is the profile that defaults are from: an id, auto (what the machine is found to be) or none.
	Board       string
	BoardSerial string // "": what the hardware says
	LED         LED
	Brokers     []*Broker
	Sources     []*Source
	Pipelines   []*Pipeline
	Links       []*Link
	Central     Central
	Journal     Journal
	API         API
	Log         Log
	Metrics     Metrics
	Security    Security
	Apply       Apply
	Fleet       Fleet
	Upgrade     Upgrade
	Flash       Flash
	// Warnings are what works, but not as the operator may think.
	Warnings plan.Problems
	// On is filled by Settle: the board and what came of it.
	On Board

	boardFirst bool // planted by tests: the board overrides the file

	given map[any]plan.Pos // board, and settings with a board's default, that the file has, by where their value is
}

// Broker is one MQTT broker session.
type Broker struct {
	Name           plan.Text
	Pos            plan.Pos
	URL            plan.Text // tcp, ssl, ws or wss
	ClientID       plan.Text // "": weir-GATEWAY
	Username       string
	PasswordFile   string
	TLS            *TLS
	Keepalive      time.Duration
	ConnectTimeout time.Duration
	DroppedTopic   string
}

// TLS are the files of a TLS connection; empty ones mean the system's roots and no client certificate.
type TLS struct {
	CA, Cert, Key, ServerName string
}

// Source is one MQTT source: what the plan needs of it, and what the session needs.
type Source struct {
	plan.SourceSpec
	Broker          plan.Text
	Filter          string // the topic with its captures replaced by +
	Retained        string // ignore, fresh, include
	MaxMessageBytes int64
	RateMax         float64 // messages per second; 0: no limit
	BytesPerDayMax  int64   // 0: no limit
}

// Pipeline is one pipeline with its settings.
type Pipeline struct {
	plan.Spec
	Pos        plan.Pos
	Start      string // latest, earliest, savepoint
	StartFile  string // of the savepoint
	Checkpoint Checkpoint
	State      State
	Restart    Restart
	Tolerate   int // tries of a record at which a step's operator fails before it becomes a dead letter; 0: no limit
	Dead       DeadLetters
	OnFull     string // hold, detach
	LagBytes   int64  // lag_limit; 0: none
	// Graph is the checked pipeline.
	Graph *plan.Graph
	// Whole is set in a region (Regions): the pipeline that it is a part of.
	Whole *Pipeline

	regions []*Pipeline // see Regions
	start   start
}

// Values of Pipeline.Start.
const (
	StartLatest   = "latest"
	StartEarliest = "earliest"
	// StartSavepoint: from StartFile, at the first start alone.
	StartSavepoint = "savepoint"
)

// Load reads and checks a config file. The error is a plan.Problems with everything that is wrong in the file, or what
// kept the file from being read.
func Load(file string) (*Config, error) {
	info, err := os.Stat(file)
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is not a regular file")
	}
	if err != nil {
		return nil, fmt.Errorf("read config %s: %w", file, err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read config %s: %w", file, err)
	}
	return ParseWith(file, data, readFile)
}

// LoadText is Load for a file whose text is known.
func LoadText(file string, text []byte) (*Config, error) { return ParseWith(file, text, readFile) }

// Parse reads and checks the text of a config file that names no files; file is its name in messages. The error is a plan.Problems.
func Parse(file string, data []byte) (*Config, error) { return ParseWith(file, data, noFiles) }

// ParseWith is Parse for a config whose lookups name files: files reads them, relative ones from the directory of file.
func ParseWith(file string, data []byte, files Files) (*Config, error) {
	var problems plan.Problems
	root := tree(file, data, &problems)
	if root == nil || root.shape == shapeRefused {
		if len(problems) > 0 {
			return nil, problems.Err()
		}
		root = &node{pos: plan.Pos{File: file, Line: 1, Column: 1}, shape: shapeMapping}
	}
	c := &Config{}
	r := &reader{problems: &problems, given: map[any]plan.Pos{}}
	top.fill(r, root, c)
	c.File, c.Text, c.given = file, data, r.given
	c.complete()
	c.readLookups(files, &problems)
	problems = append(problems, c.Validate()...)
	c.warnOfCredentials(r.credentials)
	if err := problems.Err(); err != nil {
		return nil, err
	}
	c.Warnings = c.Warnings.Sorted()
	return c, nil
}

// Default is what holds when a file says nothing: no broker, no source, no pipeline.
func Default() *Config {
	c := &Config{}
	top.section.absent(c)
	c.complete()
	return c
}

// complete derives settings from others.
func (c *Config) complete() {
	if c.API.Socket == "" {
		c.API.Socket = filepath.Join(c.StateDir.Value, "weir.sock")
	}
	if c.Security.FileRoot.Value == "" {
		c.Security.FileRoot.Value = filepath.Clean(c.StateDir.Value) + "-files"
	}
	for _, p := range c.Pipelines {
		p.complete(c)
	}
}

// Pipeline finds a pipeline by its name, nil when there is none.
func (c *Config) Pipeline(name string) *Pipeline {
	for _, p := range c.Pipelines {
		if p.Name.Value == name {
			return p
		}
	}
	return nil
}

// Broker finds a broker by its name, nil when there is none.
func (c *Config) Broker(name string) *Broker {
	for _, b := range c.Brokers {
		if b.Name.Value == name {
			return b
		}
	}
	return nil
}

// top is the whole file.
var top = &object[Config]{section: section{what: "the config", unknown: centralUnknown, list: append(append([]*setting{
	set("gateway", at(func(c *Config) *plan.Text { return &c.Gateway }).is(nameKind("the gateway's name", true)),
		"Name of this device: the first part of every stream's name upstream. Left out: gw- and 12 digits made from /etc/machine-id."),
	boardSetting,
	set("board_serial", at(func(c *Config) *string { return &c.BoardSerial }).is(serialKind),
		"Name of the hardware that state_dir is bound to. Left out: the serial number of the device tree, else the DMI product id, else the machine id. For containers, which have none of their own."),
	set("state_dir", at(func(c *Config) *plan.Text { return &c.StateDir }).is(pathKind),
		"Directory that weir owns: journal, outbox, checkpoints. One agent at a time; absolute.", byDefault("/var/lib/weir")),
	set("brokers", at(func(c *Config) *[]*Broker { return &c.Brokers }).is(named[Broker]{of: brokerObject, name: func(b *Broker) *plan.Text { return &b.Name }}),
		"MQTT brokers by name. One session each; sources name the broker they read from."),
	set("sources", at(func(c *Config) *[]*Source { return &c.Sources }).is(named[Source]{of: sourceObject, name: func(s *Source) *plan.Text { return &s.Name }}),
		"What is subscribed to, how it is decoded, where its event time is."),
	set("pipelines", at(func(c *Config) *[]*Pipeline { return &c.Pipelines }).is(named[Pipeline]{of: pipelineObject, dots: true, name: func(p *Pipeline) *plan.Text { return &p.Name }}),
		"Pipelines by name. The failure of one leaves the others alone."),
	set("links", at(func(c *Config) *[]*Link { return &c.Links }).is(named[Link]{of: linkObject, name: func(l *Link) *plan.Text { return &l.Name }}),
		"Ways upstream that sinks share, by name: bandwidth, and hours of a metered line (docs/sinks.md). A sink names its link in `link`."),
}, slices.Concat(centralSettings, upgradeSettings)...), []*setting{
	set("journal", at(func(c *Config) *Journal { return &c.Journal }).is(journalObject),
		"The durable log of everything the brokers handed over. What is not in it is not acknowledged."),
	set("api", at(func(c *Config) *API { return &c.API }).is(apiObject), "HTTP API, for `weir status` and friends."),
	set("log", at(func(c *Config) *Log { return &c.Log }).is(logObject), "The agent's own log, on stderr."),
	set("metrics", at(func(c *Config) *Metrics { return &c.Metrics }).is(metricsObject), "Prometheus metrics."),
	applySetting,
	ledSetting,
	flashSetting,
	set("security", at(func(c *Config) *Security { return &c.Security }).is(securityObject), "What the operator allows beyond the safe choice."),
}...)}}
