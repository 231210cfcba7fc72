package nbd

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"testing"
)

// client speaks the protocol as qemu does.
type client struct {
	t      testing.TB
	conn   net.Conn
	size   uint64
	flags  uint16
	cookie uint64
}

func (c *client) put(fields ...any) {
	c.t.Helper()
	var b bytes.Buffer
	for _, f := range fields {
		if err := binary.Write(&b, binary.BigEndian, f); err != nil {
			c.t.Fatal(err)
		}
	}
	if _, err := c.conn.Write(b.Bytes()); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) get(v any) {
	c.t.Helper()
	if err := binary.Read(c.conn, binary.BigEndian, v); err != nil {
		c.t.Fatal(err)
	}
}

// dial does the greeting.
func dial(t testing.TB, l net.Listener, flags uint32) *client {
	t.Helper()
	conn, err := net.Dial(l.Addr().Network(), l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	c := &client{t: t, conn: conn}
	var hello struct {
		Server, Option uint64
		Flags          uint16
	}
	c.get(&hello)
	if hello.Server != magicServer || hello.Option != magicOption || hello.Flags != 3 {
		t.Fatalf("hello %+v", hello)
	}
	c.put(flags)
	return c
}

// option sends one, and gives the replies up to the last: kind and data.
func (c *client) option(option uint32, data []byte) (kinds []uint32, all [][]byte) {
	c.t.Helper()
	c.put(optionHeader{magicOption, option, uint32(len(data))}, data)
	for {
		var h struct {
			Magic               uint64
			Option, Kind, Bytes uint32
		}
		c.get(&h)
		if h.Magic != magicOpReply || h.Option != option {
			c.t.Fatalf("reply %+v to option %d", h, option)
		}
		b := make([]byte, h.Bytes)
		if _, err := io.ReadFull(c.conn, b); err != nil {
			c.t.Fatal(err)
		}
		kinds, all = append(kinds, h.Kind), append(all, b)
		if h.Kind == repAck || h.Kind >= 1<<31 {
			return kinds, all
		}
	}
}

// goOption is the data of GO for an export.
func goOption(export string, infos ...uint16) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(export)))
	b = append(b, export...)
	b = binary.BigEndian.AppendUint16(b, uint16(len(infos)))
	for _, i := range infos {
		b = binary.BigEndian.AppendUint16(b, i)
	}
	return b
}

// connect comes to the transmission phase as qemu 7.2 does.
func connect(t testing.TB, l net.Listener) *client {
	t.Helper()
	c := dial(t, l, flagFixedNewstyle|flagNoZeroes)
	if kinds, _ := c.option(8, nil); len(kinds) != 1 || kinds[0] != repErrUnsup {
		t.Fatalf("STRUCTURED_REPLY is answered by %v", kinds)
	}
	kinds, data := c.option(optGo, goOption("", infoBlockSize))
	if fmt.Sprint(kinds) != fmt.Sprint([]uint32{repInfo, repInfo, repAck}) {
		t.Fatalf("GO is answered by %v", kinds)
	}
	c.size, c.flags = binary.BigEndian.Uint64(data[0][2:]), binary.BigEndian.Uint16(data[0][10:])
	return c
}

// ask sends a request and gives the error number and, of a read, the data.
func (c *client) ask(kind, flags uint16, off uint64, n uint32, data []byte) (number uint32, read []byte) {
	c.t.Helper()
	c.send(kind, flags, off, n, data)
	var r reply
	c.get(&r)
	if r.Magic != magicReply || r.Cookie != c.cookie {
		c.t.Fatalf("reply %+v, want cookie %d", r, c.cookie)
	}
	if kind == cmdRead && r.Error == 0 {
		read = make([]byte, n)
		if _, err := io.ReadFull(c.conn, read); err != nil {
			c.t.Fatal(err)
		}
	}
	return r.Error, read
}

func (c *client) send(kind, flags uint16, off uint64, n uint32, data []byte) {
	c.t.Helper()
	c.cookie++
	c.put(request{magicRequest, flags, kind, c.cookie, off, n}, data)
}

// must is ask for what cannot fail.
func (c *client) must(kind, flags uint16, off uint64, n uint32, data []byte) []byte {
	c.t.Helper()
	number, read := c.ask(kind, flags, off, n, data)
	if number != 0 {
		c.t.Fatalf("request %d at %d: error %d", kind, off, number)
	}
	return read
}
