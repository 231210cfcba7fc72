package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/store/boltkv"
)

// catalog is a list of checkpoints beside a LogStore, for tools and as a second witness. It is written now and then, lags
// behind, and can be lost: the log is the truth. A damaged one is set aside and made anew.
type catalog struct {
	db       *boltkv.DB
	readOnly bool
	failed   bool // nothing is known of the file any more: it is left alone until it is opened again
}

// openCatalog opens the catalog of a store, if it can be had, and compares.
func (s *LogStore) openCatalog(o *LogOptions) (err error) {
	if o.ReadOnlyCatalog {
		s.catalog, err = lookIntoCatalog(o.Catalog)
		if errors.Is(err, boltkv.ErrCorrupt) {
			s.damage, err = append(s.damage, fmt.Sprintf("the checkpoint catalog is damaged; it is made anew from the log: %v", err)), nil
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
	} else {
		s.catalog, err = openCatalog(o.Catalog, o.Logger)
	}
	if err == nil && s.catalog != nil {
		s.compareCatalog()
	}
	return err
}

// lookIntoCatalog opens a catalog that stays as it is.
func lookIntoCatalog(path string) (*catalog, error) {
	db, err := boltkv.Open(path, boltkv.Options{ReadOnly: true})
	if err != nil {
		return nil, fmt.Errorf("open checkpoint catalog: %w", err)
	}
	return ofThisBuild(path, &catalog{db: db, readOnly: true})
}

func openCatalog(path string, logger *slog.Logger) (*catalog, error) {
	db, err := boltkv.Open(path, boltkv.Options{})
	if errors.Is(err, boltkv.ErrCorrupt) {
		to, aerr := boltkv.SetAside(path)
		if aerr != nil {
			return nil, errors.Join(err, aerr)
		}
		logger.Warn("checkpoint catalog set aside and made anew", "to", to, "error", err)
		db, err = boltkv.Open(path, boltkv.Options{})
	}
	if err != nil {
		return nil, fmt.Errorf("open checkpoint catalog: %w", err)
	}
	return ofThisBuild(path, &catalog{db: db})
}

// ofThisBuild refuses a catalog of a newer build.
func ofThisBuild(path string, c *catalog) (*catalog, error) {
	if f := c.format(); f > catalogFormat {
		return nil, errors.Join(fmt.Errorf("open checkpoint catalog %s: %w", path, pipeline.Newer(ErrVersion, "checkpoint catalog", f, catalogFormat)), c.close())
	}
	return c, nil
}

// catalogFormat is what this build writes. Catalogs without one are of format 1.
const catalogFormat = 1

func (c *catalog) format() (f uint64) {
	_ = c.db.View(func(tx *boltkv.Tx) error { // fails only when closed
		if m := tx.Bucket(bucketMeta); m != nil {
			f = beUint(m.Get(keyFormat))
		}
		return nil
	})
	return f
}

// last reads the highest checkpoint number that was noted as used, and the newest checkpoint that was live then.
func (c *catalog) last() (used, newest uint64) {
	_ = c.db.View(func(tx *boltkv.Tx) error { // fails only when closed
		if m := tx.Bucket(bucketMeta); m != nil {
			used = beUint(m.Get(keyLast))
		}
		if b := tx.Bucket(bucketCheckpoint); b != nil {
			k, _ := b.Cursor().Last()
			newest = beUint(k)
		}
		return nil
	})
	return used, newest
}

// write replaces the list.
func (c *catalog) write(last uint64, live []*Manifest, aside []Bad) error {
	return c.db.Update(func(tx *boltkv.Tx) error {
		for _, name := range [][]byte{bucketCheckpoint, bucketAside} {
			if tx.Bucket(name) != nil {
				if err := tx.DeleteBucket(name); err != nil {
					return err
				}
			}
			if _, err := tx.CreateBucket(name); err != nil {
				return err
			}
		}
		for _, m := range live {
			if err := tx.Bucket(bucketCheckpoint).Put(be(m.ID), AppendManifest(nil, m)); err != nil {
				return err
			}
		}
		for _, a := range aside {
			if err := tx.Bucket(bucketAside).Put(be(a.ID), appendString(nil, a.Reason)); err != nil {
				return err
			}
		}
		m, err := tx.CreateBucketIfNotExists(bucketMeta)
		if err != nil {
			return err
		}
		if err := m.Put(keyFormat, be(catalogFormat)); err != nil {
			return err
		}
		return m.Put(keyLast, be(last))
	})
}

func (c *catalog) close() error { return c.db.Close() }

// note writes the catalog. It may fail harmlessly: nothing is restored from it.
func (s *LogStore) note() {
	if s.catalog == nil || s.catalog.readOnly || s.catalog.failed {
		return
	}
	l, err := s.List(context.Background()) // reads memory only
	if err == nil {
		err = s.catalog.write(s.LastID(), l.Manifests, l.SetAside)
	}
	if err != nil {
		s.catalog.failed = boltkv.Unsure(err)
		s.logger.Warn("write checkpoint catalog failed", "error", err)
	}
}
