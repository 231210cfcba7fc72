package objectsink

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"
)

func validCompression(c string) bool { return slices.Contains([]string{"none", "gzip", "zstd"}, c) }

// packer compresses the lines of an object. The result is valid until the next call.
type packer struct {
	suffix string
	zstd   *zstd.Encoder
	gzip   *gzip.Writer
	buf    []byte
}

// newPacker makes a packer; names of its objects end with the extension and what it compresses by.
func newPacker(extension, compression string) (p *packer, err error) {
	p = &packer{suffix: extension}
	switch compression {
	case "zstd":
		p.suffix += ".zst"
		p.zstd, err = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(512<<10), zstd.WithZeroFrames(true))
	case "gzip":
		p.suffix += ".gz"
		p.gzip, err = gzip.NewWriterLevel(nil, gzip.DefaultCompression)
	}
	if err != nil {
		return nil, fmt.Errorf("make %s encoder: %w", compression, err)
	}
	return p, nil
}

func (p *packer) pack(lines []byte) ([]byte, error) {
	switch {
	case p.zstd != nil:
		p.buf = p.zstd.EncodeAll(lines, p.buf[:0])
		return p.buf, nil
	case p.gzip != nil:
		buf := bytes.NewBuffer(p.buf[:0])
		p.gzip.Reset(buf)
		if _, err := p.gzip.Write(lines); err != nil {
			return nil, fmt.Errorf("compress object: %w", err)
		}
		if err := p.gzip.Close(); err != nil {
			return nil, fmt.Errorf("compress object: %w", err)
		}
		p.buf = buf.Bytes()
		return p.buf, nil
	}
	return lines, nil
}

// unpackBytesMax bounds what reading an object back may take: far more than a batch has.
const unpackBytesMax = 256 << 20

// unpack gives the lines of an object; its name says how it is compressed.
func unpack(name string, body []byte) (lines []byte, err error) {
	switch {
	case strings.HasSuffix(name, ".zst"):
		d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(unpackBytesMax))
		if err != nil {
			return nil, fmt.Errorf("make zstd decoder: %w", err)
		}
		defer d.Close()
		if lines, err = d.DecodeAll(body, nil); err != nil {
			return nil, fmt.Errorf("object is damaged: %w", err)
		}
		return lines, nil
	case strings.HasSuffix(name, ".gz"):
		r, err := gzip.NewReader(bytes.NewReader(body))
		if err == nil {
			lines, err = io.ReadAll(io.LimitReader(r, unpackBytesMax))
		}
		if err != nil {
			return nil, fmt.Errorf("object is damaged: %w", err)
		}
		return lines, nil
	}
	return body, nil
}
