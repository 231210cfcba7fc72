//go:build !nocentral

package offsite

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/pipeline/certtime"
	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/uplink/bucket"
	"github.com/weirstream/weir/uplink/central"
	"github.com/weirstream/weir/uplink/durable"
)

// centralDialTimeout bounds connecting; requests have central.timeout.
const centralDialTimeout = 30 * time.Second

// OpenCentral gives the bucket of the central store. Nothing is connected yet. dates judges certificates, nil: by the machine's clock.
func OpenCentral(cfg *config.Config, dates certtime.Now) (bucket.Bucket, error) {
	c := &cfg.Central
	switch {
	case c.URL.Value == "":
		return nil, errors.New("the config has no central store")
	case c.Directory != "":
		return bucket.OpenDirectory(c.Directory), nil
	}
	return bucket.OpenS3(&bucket.S3{Endpoint: c.Endpoint.Value, Region: c.Region, Bucket: c.Bucket, Prefix: c.Prefix, CredentialsFile: c.CredentialsFile,
		CAFile: c.CAFile, DialTimeout: centralDialTimeout, DenyPrivate: !cfg.Security.AllowPrivate, Dates: dates})
}

// SigningKey reads the key that uploads are signed with. The default one is made when it is not there.
func SigningKey(cfg *config.Config) (ed25519.PrivateKey, error) {
	file, own := cfg.Central.KeyFile, false
	if file == "" {
		file, own = filepath.Join(cfg.StateDir.Value, "identity", "key"), true
	}
	b, err := disk.ReadPlain(file, KeyBytesMost)
	if own && errors.Is(err, fs.ErrNotExist) {
		if b, err = MakeKey(file); err != nil {
			return nil, fmt.Errorf("make the key that uploads are signed with: %w", err)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read the key that uploads are signed with: %w", err)
	}
	key, err := central.ParseKey(b)
	if err != nil {
		return nil, fmt.Errorf("read the key that uploads are signed with: %s: %w", file, err)
	}
	return key, nil
}

// KeyBytesMost is more than any key has.
const KeyBytesMost = 64 << 10

// MakeKey writes a new key, readable by its owner alone, whole or not at all.
func MakeKey(file string) ([]byte, error) {
	_, b, err := central.NewKey()
	if err != nil {
		return nil, err
	}
	dir := filepath.Dir(file)
	if err := durable.MakeDir(dir); err != nil {
		return nil, err
	}
	f, err := os.CreateTemp(dir, ".key-*") // mode 0600
	if err != nil {
		return nil, err
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		return nil, errors.Join(err, os.Remove(f.Name()))
	}
	return b, durable.SyncDir(dir)
}
