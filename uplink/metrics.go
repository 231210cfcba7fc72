package uplink

import (
	"sync/atomic"
	"time"
)

// Metrics counts what one sender did since it started. The ledger and /metrics read them.
type Metrics struct {
	Batches       atomic.Uint64 // sent, retries included
	Sent          atomic.Uint64 // data results in them
	Bytes         atomic.Uint64 // payload bytes in them
	Confirmed     atomic.Uint64 // sequences that upstream confirmed
	KnownUpstream atomic.Uint64 // sequences that Open showed to be upstream already
	LostUpstream  atomic.Uint64 // sequences that upstream had confirmed and holds no more
	Rejected      atomic.Uint64 // records that became dead letters
	Retried       atomic.Uint64 // batches sent again
	Splits        atomic.Uint64
	Opened        atomic.Uint64
	Answered      atomic.Bool // an Open has ended, well or not
	Fenced        atomic.Bool
	Prepared      atomic.Bool // Open has succeeded, and the queue stands where upstream ends
	// LastConfirm is Unix nanoseconds of the last confirmation; for display only.
	LastConfirm atomic.Int64

	lastError atomic.Pointer[string]
	held      atomic.Pointer[string]
	announced atomic.Pointer[string]
}

// Announced is what upstream says of its limits, "" when it says nothing.
func (m *Metrics) Announced() string {
	if s := m.announced.Load(); s != nil {
		return *s
	}
	return ""
}

// Held says what the sender waits for before it may use its link, "" when it may.
func (m *Metrics) Held() string {
	if s := m.held.Load(); s != nil {
		return *s
	}
	return ""
}

func (m *Metrics) hold(why string) {
	if why == "" {
		m.held.Store(nil)
		return
	}
	m.held.Store(&why)
}

// LastError is the text of the last refusal or failure, "" when the last batch went through.
func (m *Metrics) LastError() string {
	if s := m.lastError.Load(); s != nil {
		return *s
	}
	return ""
}

func (m *Metrics) fail(err error) {
	s := err.Error()
	m.lastError.Store(&s)
}

func (m *Metrics) confirm(n uint64) {
	m.Confirmed.Add(n)
	m.LastConfirm.Store(time.Now().UnixNano())
	m.lastError.Store(nil)
}
