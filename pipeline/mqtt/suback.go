package mqtt

import (
	"fmt"
	"net"
)

// paho writes one result per code of a SUBACK into a list as long as the filters that were asked for, and panics in a goroutine of its own when there are more codes:
// a broker could end the agent, and again after each start. So a SUBACK with too many goes no further than here.

// checkSuback refuses a SUBACK that answers more filters than were asked for.
func checkSuback(h header, asked int) error {
	if h.first>>4 == packetSuback && h.remaining-packetIDBytes > asked {
		return fmt.Errorf("read SUBACK of %d codes for %d filters: %w", h.remaining-packetIDBytes, asked, ErrProtocol)
	}
	return nil
}

// subackGuard is a connection of paho's without a tap. paho's reader goroutine alone calls Read.
type subackGuard struct {
	net.Conn
	asked int
	most  int    // bytes of a packet; 0: whatever comes
	head  []byte // of a packet whose length is not known yet
	skip  int    // bytes of the packet that are still to come
	err   error
}

func (g *subackGuard) Read(b []byte) (int, error) {
	if g.err != nil {
		return 0, g.err
	}
	n, err := g.Conn.Read(b)
	if g.err = g.scan(b[:n]); g.err != nil {
		return 0, g.err
	}
	return n, err
}

// scan follows the packets.
func (g *subackGuard) scan(b []byte) error {
	for len(b) > 0 {
		if g.skip > 0 {
			k := min(g.skip, len(b))
			g.skip, b = g.skip-k, b[k:]
			continue
		}
		g.head, b = append(g.head, b[0]), b[1:]
		h, whole, err := parseHeader(g.head)
		if err != nil {
			return err
		}
		if !whole {
			continue
		}
		if err := checkSuback(h, g.asked); err != nil {
			return err
		}
		if g.most > 0 && h.remaining > g.most {
			return fmt.Errorf("read a packet of %d bytes, at most %d are expected: %w", h.remaining, g.most, ErrProtocol)
		}
		g.head, g.skip = g.head[:0], h.remaining
	}
	return nil
}
