package rig

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

// Linux gives 32768 to 60999 to outgoing connections, others 49152 and above.
const portMin, portMax = 12_000, 32_000

// claims are the ports of this process. A UDP socket of the same number is how other processes see that: no server of a test speaks UDP, and the kernel lets go of it
// however the process ends. They are kept here, since a socket that nothing refers to is closed.
var claims struct {
	sync.Mutex
	sockets []net.PacketConn
}

// FreeAddr finds a loopback port that is free now and no other test's until this process ends, also while nobody listens: before its server starts, while that
// restarts, or because nobody is to listen. It lies below the ports that systems give to outgoing connections, which may take one of theirs at any time.
func FreeAddr() (addr string, err error) {
	for range 100 {
		addr = fmt.Sprintf("127.0.0.1:%d", portMin+rand.IntN(portMax-portMin))
		var claim net.PacketConn
		if claim, err = net.ListenPacket("udp", addr); err != nil {
			continue
		}
		var l net.Listener
		if l, err = net.Listen("tcp", addr); err != nil {
			claim.Close()
			continue
		}
		claims.Lock()
		claims.sockets = append(claims.sockets, claim)
		claims.Unlock()
		return addr, l.Close()
	}
	return "", fmt.Errorf("find a free port: %w", err)
}
