package device

import (
	"io"
	"net"
	"os"
	"sync"
)

// relayCommand makes this test's binary what qemu starts for each connection of the machine: it joins its input and output with a server on the host.
const relayCommand = "relay-to"

// relay ends when the server hangs up, or the machine does and the server has answered.
func relay(addr string) error {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer c.Close()
	var wg sync.WaitGroup
	wg.Go(func() {
		_, _ = io.Copy(c, os.Stdin) // either way there is no more
		_ = c.(*net.TCPConn).CloseWrite()
	})
	_, err = io.Copy(os.Stdout, c)
	os.Stdin.Close() // else the other direction waits for a machine that waits for us
	os.Stdout.Close()
	return err
}
