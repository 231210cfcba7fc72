//go:build !nocentral

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/weirstream/weir/agent/offsite"
	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/uplink/central"
)

// journalsOf are the shipped records by journal.
func journalsOf(list []*central.Shipped) map[string]*central.Shipped {
	all := map[string]*central.Shipped{}
	for _, s := range list {
		all[s.Journal] = s
	}
	return all
}

// tellStray tells of records of journals that no upload is of that can be read.
func tellStray(w io.Writer, shipped []*central.Shipped, list []central.Listed) {
	for _, s := range shipped {
		if !slices.ContainsFunc(list, func(l central.Listed) bool { return l.Manifest != nil && l.Manifest.Journal == s.Journal }) {
			n, bytes := s.Above(0)
			fmt.Fprintf(w, "shipped records of journal %s, up to %d: no upload that can be read is of it; %d pieces, %d bytes\n", s.Journal, s.Last, n, bytes)
		}
	}
}

// verifyRecords reads the shipped records behind what was verified, as a replacement would: those of a journal once, from its lowest upload on.
func verifyRecords(ctx context.Context, w io.Writer, f *central.Fetcher, verified []*offsite.Report) (err error) {
	lowest := map[string]uint64{}
	var journals []string
	for _, r := range verified {
		at, ok := lowest[r.Upload.Journal]
		if !ok {
			journals = append(journals, r.Upload.Journal)
		}
		if !ok || r.Upload.Position < at {
			lowest[r.Upload.Journal] = r.Upload.Position
		}
	}
	slices.Sort(journals)
	for _, j := range journals {
		if e := verifyJournal(ctx, w, f, j, lowest[j]); e != nil {
			err = errors.Join(err, fmt.Errorf("journal %s: %w", j, e))
		}
	}
	return err
}

func verifyJournal(ctx context.Context, w io.Writer, f *central.Fetcher, journal string, above uint64) error {
	r, err := f.Records(ctx, journal, above)
	if err != nil {
		return err
	}
	for _, p := range r.PassedOver {
		err = errors.Join(err, fmt.Errorf("passed over: %s", p))
	}
	if r.Last == 0 {
		return err
	}
	records := 0
	if e := r.Each(ctx, f.Unseal, func(b *pipeline.Block, _ pipeline.Stamp) error {
		for i := range b.Entries {
			if uint64(b.Entries[i].Pos) > above {
				records++
			}
		}
		return nil
	}); e != nil {
		return errors.Join(err, e)
	}
	_, e := fmt.Fprintf(w, "journal %s: shipped records %d to %d of %s are whole, %d records, %d pieces, %d bytes\n", journal, above+1, r.Last,
		time.UnixMilli(r.WallMs).UTC().Format(time.RFC3339), records, r.Pieces, r.Bytes)
	return errors.Join(err, e)
}

// keepers are the pipelines whose uploads keep the shipped records of a journal when another one is let go, for people.
func keepers(list []central.Listed, gone *central.Listed) string {
	var names []string
	for _, l := range list {
		switch {
		case l.UUID == gone.UUID:
		case l.Manifest == nil:
			names = append(names, l.UUID.String())
		case l.Manifest.Journal == gone.Manifest.Journal:
			names = append(names, l.Manifest.Name)
		}
	}
	return strings.Join(names, ", ")
}

// tellRecords says what becomes of the shipped records of a pipeline that was let go.
func tellRecords(w io.Writer, gone *central.Listed, list []central.Listed, shipped []*central.Shipped) error {
	if gone.Manifest == nil { // of which journal it was is not known
		return nil
	}
	s := journalsOf(shipped)[gone.Manifest.Journal]
	if s == nil {
		return nil
	}
	fate := "no upload needs them any more, and they are removed, too"
	if by := keepers(list, gone); by != "" {
		fate = "those behind the uploads of " + by + " stay"
	}
	_, err := fmt.Fprintf(w, "shipped records of journal %s up to %d: %s\n", s.Journal, s.Last, fate)
	return err
}
