package pipeline

// Counters are the counts of one step. They are part of its checkpointed state, so that replay counts once.
type Counters struct {
	In      uint64 `json:"in"`
	Emitted uint64 `json:"emitted"`
	Late    uint64 `json:"late"`
	Dropped uint64 `json:"dropped"`
	Dead    uint64 `json:"dead"`
}

// DeadRow is a row (or a raw record) that a step refused. It becomes a sequenced dead letter of the pipeline.
type DeadRow struct {
	At
	Step   string // uid
	Reason string // short, constant: "decode", "expression", "max_keys", "overflow"
	Detail string // what was found, for a person
	Raw    []byte // the payload, when the row came straight from a record; nil otherwise
	Topic  string
	Row    Row // the refused row, when there is one
}

// Out collects what a step emits during one batch. The engine owns it and sets At before each call into the operator;
// rows are appended in the order of emission, which is the total order of the step's output.
type Out struct {
	At At
	// Now is the journal's clock at At.Pos: durations and TTL count from it. The engine sets it whenever the clock goes on. A
	// row of phase Before was made by a timer: for it the deadline (At.Deadline) is the time, see Elapsed.
	Now      Stamp
	Counters Counters
	// Ports are the outputs: 0 is the main one, others as the plan numbers them ("late" is 1 where there is one).
	Ports [][]Row
	Dead  []DeadRow
	Step  string
	slab  []Value
	text  []byte
}

// NewOut makes an Out with the given number of ports.
func NewOut(step string, ports int) *Out { return &Out{Step: step, Ports: make([][]Row, ports)} }

// slabValues is the number of values allocated at once; a batch of a few hundred narrow rows takes one or two.
const slabValues = 2048

// Slots gives n zero values for a new row. They stay valid as long as the row is referenced.
func (o *Out) Slots(n int) []Value {
	if len(o.slab) < n {
		o.slab = make([]Value, max(n, slabValues))
	}
	s := o.slab[:n:n]
	o.slab = o.slab[n:]
	return s
}

// Text copies b into memory that lives as long as it is referenced: for text from state tables.
func (o *Out) Text(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	if cap(o.text)-len(o.text) < len(b) {
		o.text = make([]byte, 0, max(len(b), 4096))
	}
	n := len(o.text)
	o.text = append(o.text, b...)
	return unsafeString(o.text[n : n+len(b)])
}

// Emit appends a new row with the given event time and slots to a port, at the current place.
func (o *Out) Emit(port int, time int64, slots []Value) {
	o.Counters.Emitted++
	o.Ports[port] = append(o.Ports[port], Row{At: o.At, Time: time, Slots: slots})
}

// Forward passes an input row on unchanged, sharing its slots, at the current place.
func (o *Out) Forward(port int, r *Row) {
	o.Counters.Emitted++
	o.Ports[port] = append(o.Ports[port], Row{At: o.At, Time: r.Time, Slots: r.Slots})
}

// Elapsed is the elapsed ns at which the row being processed came about: the deadline of the timer that made it, or the
// stamp of its record.
func (o *Out) Elapsed() int64 {
	if o.At.Phase == Before {
		return o.At.Deadline
	}
	return o.Now.Elapsed
}

// SetDeadline moves the current place to a timer's deadline; the operator calls it before what the timer emits.
func (o *Out) SetDeadline(deadline int64) { o.At.Deadline = deadline }

// Refuse turns a row into a dead letter.
func (o *Out) Refuse(reason, detail string, r *Row) {
	o.Counters.Dead++
	o.Dead = append(o.Dead, DeadRow{At: o.At, Step: o.Step, Reason: reason, Detail: detail, Row: *r})
}

// RefuseRaw turns a payload that could not become a row into a dead letter.
func (o *Out) RefuseRaw(reason, detail, topic string, raw []byte) {
	o.Counters.Dead++
	o.Dead = append(o.Dead, DeadRow{At: o.At, Step: o.Step, Reason: reason, Detail: detail, Topic: topic, Raw: raw})
}

// Reset empties the Out for the next batch. Slots and text handed out before stay valid.
func (o *Out) Reset() {
	for i := range o.Ports {
		clear(o.Ports[i])
		o.Ports[i] = o.Ports[i][:0]
	}
	clear(o.Dead)
	o.Dead = o.Dead[:0]
}
