package compat

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// manifest is images/NAME.json: what an image is of. The state lies beside it in images/NAME.tar.zst.
type manifest struct {
	Commit  string `json:"commit"`  // whose build wrote it
	Version string `json:"version"` // that the build says of itself
	About   string `json:"about"`
	// Before messages had been sent when the image was taken; Savepoint is a savepoint in it, relative to the image, that was taken when SavedBefore had been.
	Before      int    `json:"before"`
	Savepoint   string `json:"savepoint,omitempty"`
	SavedBefore int    `json:"saved_before,omitempty"`
	// Clocked are sinks whose results depend on the wall clock: not compared.
	Clocked []string `json:"clocked,omitempty"`
}

// Files of an image beside state/ and files/.
const (
	configFile   = "weir.yaml"      // sources and pipelines; URL stands for the upstream
	messagesFile = "messages.jsonl" // all of them
	wantFile     = "want.json"      // sink → results of a run that nothing interrupted
	receiverFile = "receiver.db"    // what the upstream held
)

const imagesDir = "images"

// unzipMax bounds what an image may unpack to.
const unzipMax = 1 << 30

// pack writes directories and files below dir as a compressed tar. Runs of zeros, such as segments that wait to be filled, cost nothing.
func pack(dir, file string, names ...string) error {
	var out bytes.Buffer
	z, err := zstd.NewWriter(&out, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithWindowSize(8<<20))
	if err != nil {
		return err
	}
	w := tar.NewWriter(z)
	for _, name := range names {
		err := filepath.WalkDir(filepath.Join(dir, name), func(path string, e fs.DirEntry, err error) error {
			if err != nil || !e.IsDir() && !e.Type().IsRegular() { // the lock and the socket are made anew
				return err
			}
			rel, err := filepath.Rel(dir, path)
			if err != nil {
				return err
			}
			return packOne(w, path, rel, e.IsDir())
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		return err
	}
	return os.WriteFile(file, out.Bytes(), 0o644)
}

func packOne(w *tar.Writer, path, name string, dir bool) error {
	if dir {
		return w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: 0o755})
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(b))}); err != nil {
		return err
	}
	_, err = w.Write(b)
	return err
}

// unpack is the inverse of pack. Files keep their size; pages of zeros become holes.
func unpack(file, dir string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := zstd.NewReader(f, zstd.WithDecoderMaxMemory(unzipMax))
	if err != nil {
		return err
	}
	defer z.Close()
	r := tar.NewReader(io.LimitReader(z, unzipMax))
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("unpack %s: %w", file, err)
		}
		if !filepath.IsLocal(h.Name) {
			return fmt.Errorf("unpack %s: name %q", file, h.Name)
		}
		if err := unpackOne(r, h, filepath.Join(dir, h.Name)); err != nil {
			return fmt.Errorf("unpack %s: %w", file, err)
		}
	}
}

func unpackOne(r io.Reader, h *tar.Header, to string) error {
	if h.Typeflag == tar.TypeDir {
		return os.MkdirAll(to, 0o755)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	page, zeros := make([]byte, 64<<10), make([]byte, 64<<10)
	for at := int64(0); at < h.Size && err == nil; {
		n, rerr := io.ReadFull(r, page[:min(int64(len(page)), h.Size-at)])
		if !bytes.Equal(page[:n], zeros[:n]) {
			_, err = out.WriteAt(page[:n], at)
		}
		at += int64(n)
		err = errors.Join(err, rerr)
	}
	return errors.Join(err, out.Truncate(h.Size), out.Close())
}

// imageNames are the images that there are, in order.
func imageNames() (names []string, err error) {
	all, err := filepath.Glob(filepath.Join(imagesDir, "*.json"))
	for _, n := range all {
		names = append(names, strings.TrimSuffix(filepath.Base(n), ".json"))
	}
	sort.Strings(names)
	return names, err
}

func readJSON(file string, v any) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

func writeJSON(file string, v any) error {
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(b, '\n'), 0o644)
}

func readMessages(file string) (all []message, err error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	for l := range bytes.Lines(b) {
		var m message
		if err := json.Unmarshal(l, &m); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, m)
	}
	return all, nil
}

func writeMessages(file string, all []message) error {
	var b []byte
	for _, m := range all {
		l, err := json.Marshal(m)
		if err != nil {
			return err
		}
		b = append(append(b, l...), '\n')
	}
	return os.WriteFile(file, b, 0o644)
}
