package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/pipeline/exec"
)

// exported is a line of an export. Of payload and payload_b64 there is one; the bytes are those of the message.
type exported struct {
	Pipeline string `json:"pipeline"`
	Seq      uint64 `json:"seq"`
	KeptMs   int64  `json:"kept_ms"`
	exec.DeadLetter
}

func deadletterExport(o *options) *cobra.Command {
	var q api.DeadQuery
	var to string
	c := &cobra.Command{
		Use: "export [PIPELINE]...", Short: "Write dead letters as JSON lines",
		Long: `export writes one JSON object per dead letter, oldest first: of the named pipelines, or of all. The payload is exact: payload where it is UTF-8, else
payload_b64. With --to the lines are appended to a file: an export that was broken off, or an earlier one, is gone on with behind the last
whole line of each pipeline; a torn last line is cut off. The letters stay where they are.`,
		Example: `  weir deadletter export > letters.jsonl
  weir deadletter export alarms --reason decode --since 24h
  weir deadletter export --to /mnt/usb/letters.jsonl`,
	}
	finish := chooseFlags(c, &q)
	c.Flags().StringVar(&to, "to", "", "append to this file, going on behind what it holds")
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := finish(); err != nil {
			return err
		}
		d, err := o.deadLetters(c.Context())
		if err != nil {
			return err
		}
		defer d.Close()
		if len(args) == 0 {
			if args, err = d.Pipelines(c.Context()); err != nil {
				return err
			}
		}
		if to == "" {
			w := bufio.NewWriter(c.OutOrStdout())
			_, err := export(c, d, args, q, w, nil)
			return errors.Join(err, w.Flush())
		}
		n, err := exportTo(c, d, args, q, to)
		fmt.Fprintf(c.ErrOrStderr(), "%d dead letters written to %s\n", n, to)
		return err
	}
	return c
}

// export writes the letters behind those that are known of each pipeline.
func export(c *cobra.Command, d deadLetters, pipelines []string, q api.DeadQuery, w io.Writer, known map[string]uint64) (n int, err error) {
	enc := json.NewEncoder(w)
	for _, name := range pipelines {
		page := q
		page.After, page.Limit = max(q.After, known[name]), api.DeadLettersMax
		for got := page.Limit; got == page.Limit; {
			got = 0
			err := d.DeadLetters(c.Context(), name, page, func(l api.DeadLetter) error {
				got++
				page.After = l.Seq
				e := exported{Pipeline: name, Seq: l.Seq, KeptMs: l.KeptMs}
				if err := json.Unmarshal(l.Letter, &e.DeadLetter); err != nil {
					return fmt.Errorf("read dead letter %d of pipeline %s: %w", l.Seq, name, err)
				}
				n++
				return enc.Encode(&e)
			})
			if err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

// exportTo appends to a file; the lines are synced when it returns nil.
func exportTo(c *cobra.Command, d deadLetters, pipelines []string, q api.DeadQuery, path string) (n int, err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o640)
	if err != nil {
		return 0, fmt.Errorf("open export: %w", err)
	}
	defer f.Close()
	known, end, err := resume(f)
	if err == nil {
		err = f.Truncate(end)
	}
	if err == nil {
		_, err = f.Seek(end, io.SeekStart)
	}
	if err != nil {
		return 0, fmt.Errorf("go on with export %s: %w", path, err)
	}
	w := bufio.NewWriter(f)
	n, err = export(c, d, pipelines, q, w, known)
	if err := errors.Join(err, w.Flush(), f.Sync()); err != nil {
		return n, fmt.Errorf("export to %s: %w", path, err)
	}
	return n, nil
}

// resume reads an earlier export: the last letter of each pipeline, and where the last whole line ends. What is no export is not touched.
func resume(f io.Reader) (known map[string]uint64, end int64, err error) {
	known = map[string]uint64{}
	r := bufio.NewReader(f)
	for line := 1; ; line++ {
		b, err := r.ReadBytes('\n')
		if err == io.EOF {
			if line == 1 && len(bytes.TrimSpace(b)) > 0 && b[0] != '{' {
				return nil, 0, errors.New("it is no export of dead letters")
			}
			return known, end, nil
		}
		if err != nil {
			return nil, 0, err
		}
		var e struct {
			Pipeline string
			Seq      uint64
		}
		if err := json.Unmarshal(b, &e); err != nil || e.Pipeline == "" || e.Seq == 0 {
			return nil, 0, fmt.Errorf("line %d is no dead letter", line)
		}
		known[e.Pipeline] = max(known[e.Pipeline], e.Seq)
		end += int64(len(b))
	}
}
