package whole

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/weirstream/weir/uplink/receiver"
)

// brokerMain is an ideal broker: it costs next to nothing and keeps a window. broker ADDR MESSAGES WINDOW: it serves one
// subscriber, prints the seconds from the first PUBLISH to the last PUBACK, and ends.
func brokerMain(args []string) error {
	messages, _ := strconv.Atoi(args[1])
	window, _ := strconv.Atoi(args[2])
	l, err := net.Listen("tcp", args[0])
	if err != nil {
		return err
	}
	conn, err := subscribed(l)
	if err != nil {
		return err
	}
	defer conn.Close()
	ring, offsets := prepared()
	started := time.Now()
	sent, acked := 0, 0
	in := make([]byte, 64<<10)
	have := 0
	for acked < messages {
		for sent < messages && sent-acked < window {
			from := sent % (len(offsets) - 1)
			n := min(window-(sent-acked), messages-sent, len(offsets)-1-from)
			if _, err := conn.Write(ring[offsets[from]:offsets[from+n]]); err != nil {
				return err
			}
			sent += n
		}
		n, err := conn.Read(in[have:])
		if err != nil {
			return err
		}
		rest := in[:have+n]
		for p := next(rest); p.size > 0; p = next(rest) {
			switch p.kind >> 4 {
			case 4:
				acked++
			case 12:
				if _, err := conn.Write([]byte{0xd0, 0}); err != nil {
					return err
				}
			}
			rest = rest[p.size:]
		}
		have = copy(in, rest)
	}
	fmt.Println(time.Since(started).Seconds())
	_, _ = io.Copy(io.Discard, conn) // until the subscriber has ended
	return nil
}

// subscribed takes connections until one has subscribed.
func subscribed(l net.Listener) (net.Conn, error) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return nil, err
		}
		in := make([]byte, 4096)
		for have := 0; ; {
			n, err := conn.Read(in[have:])
			if err != nil {
				break // somebody looked whether we listen
			}
			have += n
			rest := in[:have]
			ready := false
			for p := next(rest); p.size > 0; p = next(rest) {
				answer := []byte{0x20, 2, 0, 0}
				switch p.kind >> 4 {
				case 8:
					answer, ready = []byte{0x90, 3, p.body[0], p.body[1], 1}, true
				case 12:
					answer = []byte{0xd0, 0}
				}
				if _, err := conn.Write(answer); err != nil {
					return nil, err
				}
				rest = rest[p.size:]
			}
			have = copy(in, rest)
			if ready {
				return conn, nil
			}
		}
	}
}

// prepared is one round of all packet ids.
func prepared() (ring []byte, offsets []int) {
	random := rand.New(rand.NewPCG(1, 2))
	var payload []byte
	for id := 1; id <= 65535; id++ {
		offsets = append(offsets, len(ring))
		payload = appendPayload(payload[:0], random, 1767225600000+int64(id), id)
		ring = appendPublish(ring, topicOf(id%100), uint16(id), payload)
	}
	return ring, append(offsets, len(ring))
}

// publisherMain: publisher ADDR MESSAGES WINDOW. It stamps readings with the time now and prints the seconds to the last PUBACK.
func publisherMain(args []string) error {
	messages, _ := strconv.Atoi(args[1])
	window, _ := strconv.Atoi(args[2])
	conn, err := dial(args[0], "bench-publisher")
	if err != nil {
		return err
	}
	defer conn.Close()
	var (
		mu    sync.Mutex
		moved = sync.NewCond(&mu)
		acked int
		fail  error
	)
	done := make(chan struct{})
	go func() { // ends with the last PUBACK or the connection
		defer close(done)
		err := packets(conn, func(p packet) bool {
			if p.kind>>4 == 4 {
				mu.Lock()
				acked++
				moved.Signal()
				mu.Unlock()
			}
			return acked < messages
		})
		mu.Lock()
		fail = err
		moved.Signal()
		mu.Unlock()
	}()
	random := rand.New(rand.NewPCG(3, 4))
	var out, payload []byte
	started := time.Now()
	for sent := 0; sent < messages; {
		mu.Lock()
		for sent-acked >= window && fail == nil {
			moved.Wait()
		}
		n := min(window-(sent-acked), messages-sent, 64)
		err := fail
		mu.Unlock()
		if err != nil {
			return err
		}
		out = out[:0]
		now := time.Now().UnixMilli()
		for range n {
			payload = appendPayload(payload[:0], random, now, sent)
			out = appendPublish(out, topicOf(sent%100), uint16(sent%65535+1), payload)
			sent++
		}
		if _, err := conn.Write(out); err != nil {
			return err
		}
	}
	<-done
	fmt.Println(time.Since(started).Seconds())
	return fail
}

// bareMain: bare ADDR MESSAGES. It reads, acknowledges what came in one write, and keeps nothing.
func bareMain(args []string) error {
	messages, _ := strconv.Atoi(args[1])
	conn, err := dial(args[0], "bench-bare")
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.Write(appendSubscribe(nil, "site/#")); err != nil {
		return err
	}
	fmt.Println("ready")
	in := make([]byte, 64<<10)
	var acks []byte
	for have, got := 0, 0; got < messages; {
		n, err := conn.Read(in[have:])
		if err != nil {
			return err
		}
		rest := in[:have+n]
		acks = acks[:0]
		for p := next(rest); p.size > 0; p = next(rest) {
			if p.kind>>4 == 3 {
				acks = binary.BigEndian.AppendUint16(append(acks, 0x40, 2), idOf(p.body))
				got++
			}
			rest = rest[p.size:]
		}
		have = copy(in, rest)
		if _, err := conn.Write(acks); err != nil {
			return err
		}
	}
	fmt.Println(time.Now().UnixNano())
	return nil
}

// receiverMain: receiver ADDR FILE.
func receiverMain(args []string) error {
	r, err := receiver.Open(receiver.Options{Path: args[1], Config: receiver.Default(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", args[0])
	if err != nil {
		return err
	}
	return http.Serve(l, r)
}

var errRefused = errors.New("broker refused the connection")

func dial(addr, clientID string) (net.Conn, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	if _, err := conn.Write(appendConnect(nil, clientID)); err != nil {
		return nil, err
	}
	var answer [4]byte
	if _, err := io.ReadFull(conn, answer[:]); err != nil {
		return nil, err
	}
	if answer[3] != 0 {
		return nil, errRefused
	}
	return conn, nil
}

// packets calls f for every packet until it returns false.
func packets(conn net.Conn, f func(packet) bool) error {
	in := make([]byte, 64<<10)
	for have := 0; ; {
		n, err := conn.Read(in[have:])
		if err != nil {
			return err
		}
		rest := in[:have+n]
		for p := next(rest); p.size > 0; p = next(rest) {
			if !f(p) {
				return nil
			}
			rest = rest[p.size:]
		}
		have = copy(in, rest)
	}
}
