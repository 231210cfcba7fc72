// Command standin is what a broken weir may be: it ends at once, never gets ready, or gets ready and stops feeding the watchdog. The linker sets which.
package main

import (
	"net"
	"os"
	"time"
)

// does is crash, silent, hang or good.
var does = "crash"

func main() {
	if does == "crash" {
		os.Exit(1)
	}
	if does == "silent" {
		time.Sleep(time.Hour)
	}
	notify("READY=1")
	for does == "good" {
		notify("WATCHDOG=1")
		time.Sleep(300 * time.Millisecond)
	}
	time.Sleep(time.Hour)
}

func notify(state string) {
	conn, err := net.Dial("unixgram", os.Getenv("NOTIFY_SOCKET"))
	if err != nil {
		os.Exit(1)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte(state)); err != nil {
		os.Exit(1)
	}
}
