// Package zones brings the time zone database along.
//
// A device has its own, or none, and an update of it must not change what a replay makes of the same records. So local times are read by the rules that
// lie in this program. They are the zoneinfo.zip of the Go release in go.mod (lib/time), compressed by "make zones" from 408 to 56 KB; the data are in
// the public domain. Whoever uses a zone pays 0.4 MB of memory.
package zones

import (
	_ "embed"
	"encoding/binary"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"
)

//go:embed zoneinfo.zip.zst
var compressed []byte

// Load gives a zone by its name, such as Europe/Berlin or UTC.
func Load(name string) (*time.Location, error) {
	if name == "UTC" {
		return time.UTC, nil
	}
	data, ok := index()[name]
	if !ok {
		return nil, fmt.Errorf("unknown zone %q: want a name of the time zone database such as Europe/Berlin", name)
	}
	loc, err := time.LoadLocationFromTZData(name, []byte(data))
	if err != nil {
		return nil, fmt.Errorf("zone %q: %w", name, err)
	}
	return loc, nil
}

// Names are those that Load takes, in no order.
func Names() []string {
	names := []string{}
	for name := range index() {
		names = append(names, name)
	}
	return names
}

func decompress() string {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	if err != nil {
		panic("BUG: zstd decoder: " + err.Error())
	}
	defer d.Close()
	b, err := d.DecodeAll(compressed, nil)
	if err != nil {
		panic("BUG: the time zone database in this program is damaged: " + err.Error())
	}
	return string(b)
}

// index finds the files of the database. Nothing in it is compressed: a file is a part of the archive.
var index = sync.OnceValue(func() map[string]string {
	const (
		end       = "PK\x05\x06"
		entry     = "PK\x01\x02"
		entryHead = 46
		fileHead  = 30
	)
	files, database := map[string]string{}, decompress()
	u16 := func(at int) int { return int(binary.LittleEndian.Uint16([]byte(database[at : at+2]))) }
	u32 := func(at int) int { return int(binary.LittleEndian.Uint32([]byte(database[at : at+4]))) }
	tail := strings.LastIndex(database, end)
	for at := u32(tail + 16); strings.HasPrefix(database[at:], entry); {
		size, nameLen, start := u32(at+24), u16(at+28), u32(at+42)
		if method := u16(at + 10); method != 0 {
			panic(fmt.Sprintf("BUG: the time zone database is compressed (method %d)", method))
		}
		name := database[at+entryHead : at+entryHead+nameLen]
		data := start + fileHead + u16(start+26) + u16(start+28)
		if !strings.HasSuffix(name, "/") {
			files[name] = database[data : data+size]
		}
		at += entryHead + nameLen + u16(at+30) + u16(at+32)
	}
	return files
})
