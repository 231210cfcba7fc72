package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/weirstream/weir/agent"
	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/agent/statedir"
	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/store/journal"
	"github.com/weirstream/weir/store/log"
)

func journalCommand(o *options) *cobra.Command {
	c := &cobra.Command{Use: "journal", Short: "Look into the journal of a stopped agent"}
	var from uint64
	var limit int
	inspect := &cobra.Command{
		Use: "inspect", Short: "Print journal records as JSON lines", Args: usageArgs(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			return ofStopped(o, func(j *journal.Journal) error {
				return printEntries(c.OutOrStdout(), j, pipeline.Position(from), limit)
			})
		},
	}
	inspect.Flags().Uint64Var(&from, "from", 0, "begin at this position")
	inspect.Flags().IntVar(&limit, "limit", 100, "at most so many records, 0: all")
	c.AddCommand(inspect, exportJournalCommand(o))
	return c
}

// ofStopped opens the journal of an agent that does not run: opening recovers.
func ofStopped(o *options, do func(*journal.Journal) error) error {
	cfg, err := config.Load(o.config)
	if err != nil {
		return usageError{err}
	}
	lock, err := statedir.Acquire(cfg.StateDir.Value)
	if err != nil {
		return err
	}
	defer lock.Close()
	j, _, err := openJournal(cfg)
	if err != nil {
		return err
	}
	defer j.Close()
	return do(j)
}

func exportJournalCommand(o *options) *cobra.Command {
	var from uint64
	c := &cobra.Command{
		Use: "export", Short: "Print the messages in the journal as weir replay --input reads them", Args: usageArgs(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			return ofStopped(o, func(j *journal.Journal) error {
				return agent.ExportRecords(j, pipeline.Position(from), c.OutOrStdout())
			})
		},
	}
	c.Flags().Uint64Var(&from, "from", 0, "begin at this position")
	return c
}

func openJournal(cfg *config.Config) (*journal.Journal, *journal.Recovery, error) {
	lc := log.Default()
	lc.MaxBytes, lc.SegmentBytes = cfg.Journal.MaxBytes, cfg.Journal.SegmentBytes
	j, r, err := journal.Open(journal.Options{
		FS: disk.OS, Dir: filepath.Join(cfg.StateDir.Value, "journal"), Config: lc, Stamp: func() pipeline.Stamp { return pipeline.Stamp{} },
	})
	if err != nil {
		return nil, nil, fmt.Errorf("open journal: %w", err)
	}
	return j, r, nil
}

// entryLine is the JSON form of a journal record.
type entryLine struct {
	Position uint64  `json:"position"`
	Kind     string  `json:"kind"`
	WallMs   int64   `json:"wall_ms"`
	Elapsed  float64 `json:"elapsed_seconds"`
	Broker   string  `json:"broker,omitempty"`
	Source   string  `json:"source,omitempty"`
	PacketID uint16  `json:"packet_id,omitempty"`
	QoS      uint8   `json:"qos"`
	Retain   bool    `json:"retain,omitempty"`
	Dup      bool    `json:"dup,omitempty"`
	Topic    string  `json:"topic,omitempty"`
	Payload  string  `json:"payload,omitempty"`
	Raw      []byte  `json:"payload_b64,omitempty"`
}

var entryKinds = map[pipeline.EntryKind]string{
	pipeline.EntryMessage: "message", pipeline.EntryStub: "stub", pipeline.EntryRelease: "release", pipeline.EntrySession: "session",
	pipeline.EntrySubscribed: "subscribed", pipeline.EntryTick: "tick", pipeline.EntryGap: "gap", pipeline.EntryCarry: "carry",
	pipeline.EntryClock: "clock", pipeline.EntryForget: "forget", pipeline.EntryAnchor: "anchor",
}

// errEnough ends a scan.
var errEnough = errors.New("enough")

func printEntries(w io.Writer, j *journal.Journal, from pipeline.Position, limit int) error {
	enc, n := json.NewEncoder(w), 0
	err := j.Scan(max(from, j.First()), func(e *pipeline.Entry) error {
		if limit > 0 && n >= limit {
			return errEnough
		}
		n++
		l := entryLine{
			Position: uint64(e.Pos), Kind: entryKinds[e.Kind], WallMs: e.Stamp.Wall, Elapsed: float64(e.Stamp.Elapsed) / 1e9, Broker: e.Session,
			Source: e.Source, PacketID: e.PacketID, QoS: e.QoS, Retain: e.Retain, Dup: e.Dup, Topic: string(e.Topic),
		}
		if utf8.Valid(e.Payload) {
			l.Payload = string(e.Payload)
		} else {
			l.Raw = e.Payload
		}
		return enc.Encode(&l)
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}
