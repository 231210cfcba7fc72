// Package buckettest has a bucket in memory that does what links and stores do when they fail, and the suite that every bucket passes.
package buckettest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/weirstream/weir/uplink/bucket"
)

// Fault is what happens to one request.
type Fault uint8

const (
	None       Fault = iota
	Lost             // it is not carried out, the answer is an error
	AnswerLost       // it is carried out, the answer is an error
	Late             // the answer is an error; a write is carried out when Land is called
	Torn             // a write puts half of the object, and the answer is that all is well
	TornLost         // a write puts half of the object, the answer is an error
)

// ErrCut is the answer to a request whose answer was lost, or that was.
var ErrCut = errors.New("connection was cut")

// ErrKilled is the answer to every request behind the one that Kill named: whoever asks is dead, and must not know.
var ErrKilled = errors.New("the process is dead")

// Request is what Memory.Fault is asked about.
type Request struct {
	N     int    // from 1 on, all of this bucket
	Verb  string // get put create replace list delete
	Name  string
	Bytes int
}

// Write says whether the request changes anything.
func (r Request) Write() bool { return r.Verb != "get" && r.Verb != "list" }

type object struct {
	body    []byte
	version string
	written int64
}

// Memory is a bucket in memory. The zero value is an empty one without faults.
type Memory struct {
	// Fault says what happens to a request; nil: nothing. It is set before the first request.
	Fault func(Request) Fault
	// Log, if not nil, hears each request before it is carried out.
	Log func(Request)

	mu       sync.Mutex
	objects  map[string]object
	versions int
	requests int
	now      int64
	late     []func()
	undo     []func()
	killAt   int
	killed   bool // the request killAt is carried out
	sent     int64
}

// Kill lets the process die at request n: it and those behind it get ErrKilled. carriedOut: the last one is carried out first.
func (m *Memory) Kill(n int, carriedOut bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.killAt, m.killed = n, carriedOut
}

// Revive lets a new process use the bucket.
func (m *Memory) Revive() { m.Kill(0, false) }

// Requests is how many there were.
func (m *Memory) Requests() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.requests
}

// Sent is how many bytes of objects were sent here, whatever became of them.
func (m *Memory) Sent() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.sent
}

// Advance lets the store's clock go on.
func (m *Memory) Advance(ms int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now += ms
}

// Land carries out what was late.
func (m *Memory) Land() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, do := range m.late {
		do()
	}
	m.late = nil
}

// Forget takes the last n writes back, those that are not yet: a store that answered before it was durable, and lost its power.
func (m *Memory) Forget(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for ; n > 0 && len(m.undo) > 0; n-- {
		m.undo[len(m.undo)-1]()
		m.undo = m.undo[:len(m.undo)-1]
	}
}

// Change does something to an object behind everybody's back: nil removes it. It says whether the object was there.
func (m *Memory) Change(name string, f func(body []byte) []byte) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	o, ok := m.objects[name]
	if !ok {
		return false
	}
	if o.body = f(bytes.Clone(o.body)); o.body == nil {
		delete(m.objects, name)
	} else {
		m.objects[name] = o
	}
	return true
}

// Names are those of all objects with a prefix, in order.
func (m *Memory) Names(prefix string) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := slices.Sorted(maps.Keys(m.objects))
	return slices.DeleteFunc(all, func(s string) bool { return !strings.HasPrefix(s, prefix) })
}

// Clone is a copy of what is there, without faults.
func (m *Memory) Clone() *Memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	return &Memory{objects: maps.Clone(m.objects), versions: m.versions, now: m.now}
}

// do carries out a request with its fault. write is given how many bytes of the body land.
func (m *Memory) do(ctx context.Context, verb, name string, body []byte, carry func(body []byte) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.requests++
	m.sent += int64(len(body))
	r := Request{m.requests, verb, name, len(body)}
	if m.killAt > 0 && r.N >= m.killAt {
		if r.N == m.killAt && m.killed {
			_ = carry(body)
		}
		return ErrKilled
	}
	if m.Log != nil {
		m.Log(r)
	}
	fault := None
	if m.Fault != nil {
		fault = m.Fault(r)
	}
	switch fault {
	case Lost:
		return ErrCut
	case AnswerLost:
		_ = carry(body)
		return ErrCut
	case Late:
		if r.Write() {
			m.late = append(m.late, func() { _ = carry(body) })
		}
		return ErrCut
	case Torn:
		return carry(body[:len(body)/2])
	case TornLost:
		_ = carry(body[:len(body)/2])
		return ErrCut
	}
	return carry(body)
}

func (m *Memory) set(name string, body []byte) string {
	if m.objects == nil {
		m.objects = map[string]object{}
	}
	m.versions++
	before, was := m.objects[name]
	m.undo = append(m.undo, func() {
		if was {
			m.objects[name] = before
		} else {
			delete(m.objects, name)
		}
	})
	o := object{bytes.Clone(body), fmt.Sprint("v", m.versions), m.now}
	m.objects[name] = o
	return o.version
}

// Prepare does nothing: conditions are honoured.
func (m *Memory) Prepare(context.Context, string) error { return nil }

// Get gives an object.
func (m *Memory) Get(ctx context.Context, name string) (body []byte, version string, err error) {
	return m.GetNewer(ctx, name, "")
}

// GetNewer gives an object that is not the version.
func (m *Memory) GetNewer(ctx context.Context, name, known string) (body []byte, version string, err error) {
	err = m.do(ctx, "get", name, nil, func([]byte) error {
		o, ok := m.objects[name]
		if !ok {
			return fmt.Errorf("get %s: %w", name, bucket.ErrNotFound)
		}
		if o.version == known {
			return fmt.Errorf("get %s: %w", name, bucket.ErrUnchanged)
		}
		if int64(len(o.body)) > bucket.BytesMaxOf(ctx) {
			return fmt.Errorf("get %s: %w", name, bucket.ErrTooLarge)
		}
		body, version = bytes.Clone(o.body), o.version
		return nil
	})
	if err != nil {
		return nil, "", err
	}
	return body, version, nil
}

// Put puts an object.
func (m *Memory) Put(ctx context.Context, name string, body []byte) error {
	return m.do(ctx, "put", name, bytes.Clone(body), func(body []byte) error {
		m.set(name, body)
		return nil
	})
}

// Create puts an object under a free name.
func (m *Memory) Create(ctx context.Context, name string, body []byte) error {
	return m.do(ctx, "create", name, bytes.Clone(body), func(body []byte) error {
		if _, ok := m.objects[name]; ok {
			return bucket.ErrExists
		}
		m.set(name, body)
		return nil
	})
}

// Replace puts an object in the place of a version.
func (m *Memory) Replace(ctx context.Context, name, version string, body []byte) (next string, err error) {
	err = m.do(ctx, "replace", name, bytes.Clone(body), func(body []byte) error {
		if m.objects[name].version != version {
			return bucket.ErrChanged
		}
		next = m.set(name, body)
		return nil
	})
	if err != nil {
		return "", err
	}
	return next, nil
}

// List gives a page.
func (m *Memory) List(ctx context.Context, prefix, after string) (all []bucket.Object, err error) {
	err = m.do(ctx, "list", prefix, nil, func([]byte) error {
		for _, name := range slices.Sorted(maps.Keys(m.objects)) {
			if strings.HasPrefix(name, prefix) && name > after && len(all) < bucket.PageMax {
				o := m.objects[name]
				all = append(all, bucket.Object{Name: name, Bytes: int64(len(o.body)), WrittenMs: o.written})
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// Delete removes objects.
func (m *Memory) Delete(ctx context.Context, names ...string) error {
	return m.do(ctx, "delete", strings.Join(names, " "), nil, func([]byte) error {
		for _, name := range names {
			before, was := m.objects[name]
			if !was {
				continue
			}
			m.undo = append(m.undo, func() { m.objects[name] = before })
			delete(m.objects, name)
		}
		return nil
	})
}

// Close does nothing.
func (m *Memory) Close() error { return nil }
