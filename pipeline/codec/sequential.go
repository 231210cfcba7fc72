package codec

import "github.com/weirstream/weir/pipeline"

// Sequential is a Decoder whose records depend on the topic and on the messages before. Its source feeds it the messages in the order of
// the journal, and keeps its state with its own, so that a replay behind a checkpoint gives the same records.
type Sequential interface {
	Decoder
	// Open takes the next message: it checks all of the payload, moves the state, and gives the number of records. A payload that is refused
	// (an *Error) leaves the state alone. The payload is read until the next Open.
	Open(pos pipeline.Position, topic, payload []byte) (records int, err error)
	// Record sets the slots for the i-th record of the opened message. That it is refused does not move the state.
	Record(i int, slots []pipeline.Value) error
	// Wish is what should be asked of the sender of the opened message; the zero value: nothing.
	Wish() Wish
	// Save gives each entry of the state that changed since the last Save; val nil: it is gone. Load puts one back.
	Save(put func(key, val []byte) error) error
	Load(key, val []byte) error
}

// Wish is about an edge node of Sparkplug. It changes nothing in the results.
type Wish struct {
	Kind  WishKind
	Group string
	Edge  string
	// Since is the position of the message that made it needed: wishes with one Since are one wish.
	Since pipeline.Position
}

// WishKind says what is wished for.
type WishKind uint8

const (
	// WishNothing is no wish.
	WishNothing WishKind = iota
	// WishRebirth: the node is to send its birth certificates again.
	WishRebirth
	// WishGranted: a birth has come, or the node has died; what was wished for before is void.
	WishGranted
)
