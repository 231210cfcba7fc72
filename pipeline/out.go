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
	Row    Row  // the refused row, when there is one
	Own    bool // the slots of Row are its own, and nobody uses them again
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
	// Reuse tells that nobody keeps the slots of a batch beyond it: Reset takes them back. The engine sets it for tasks whose rows go
	// to no other task.
	Reuse bool
	// Slabs is where Release puts the memory of slots, for the steps of other pipelines; nil: it stays here.
	Slabs *Slabs
	slabs [][]Value // with Reuse: all that are here, and how many of them are in use; the others hold zeros
	used  int
	track *track // inside a keyed region: the ties of what is emitted; else nil
	spill spill
}

// NewOut makes an Out with the given number of ports.
func NewOut(step string, ports int) *Out { return &Out{Step: step, Ports: make([][]Row, ports)} }

// slabValues is the number of values allocated at once; a batch of a few hundred narrow rows takes one or two.
const slabValues = 2048

// Slots gives n zero values for a new row. They stay valid to the end of the batch.
func (o *Out) Slots(n int) []Value {
	if len(o.slab) < n {
		o.nextSlab(n)
	}
	s := o.slab[:n:n]
	o.slab = o.slab[n:]
	return s
}

func (o *Out) nextSlab(n int) {
	for o.used < len(o.slabs) { // a slab too small for n is passed over: rows of one step are of one width
		o.slab = o.slabs[o.used]
		if o.used++; len(o.slab) >= n {
			o.spill.bytes += len(o.slab) * valueBytes
			return
		}
	}
	o.spill.bytes += max(n, slabValues) * valueBytes
	if n <= slabValues {
		o.slab = o.Slabs.take()
	} else {
		o.slab = make([]Value, n)
	}
	if o.Reuse {
		o.slabs, o.used = append(o.slabs, o.slab), o.used+1
	}
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
	o.spill.bytes += len(b)
	o.text = append(o.text, b...)
	return unsafeString(o.text[n : n+len(b)])
}

// Emit appends a new row with the given event time and slots to a port, at the current place.
func (o *Out) Emit(port int, time int64, slots []Value) {
	o.Counters.Emitted++
	o.spill.rows++
	o.Ports[port] = append(o.Ports[port], Row{At: o.At, Time: time, Slots: slots})
	if o.track != nil {
		o.track.emitted(o.Step, port)
	}
}

// Forward passes an input row on unchanged, sharing its slots, at the current place.
func (o *Out) Forward(port int, r *Row) {
	o.Counters.Emitted++
	o.spill.rows++
	o.Ports[port] = append(o.Ports[port], Row{At: o.At, Time: r.Time, Slots: r.Slots})
	if o.track != nil {
		o.track.emitted(o.Step, port)
	}
}

// Elapsed is the elapsed ns at which the row being processed came about: the deadline of the timer that made it, or the
// stamp of its record.
func (o *Out) Elapsed() int64 {
	if o.At.Phase == Before {
		return o.At.Deadline
	}
	return o.Now.Elapsed
}

// SetDeadline moves the current place to a timer's deadline; the operator calls it before what the timer emits. It is for steps that
// are not keyed; a keyed one calls SetTimer.
func (o *Out) SetDeadline(deadline int64) {
	o.Yield()
	o.At.Deadline = deadline
	if o.track != nil {
		o.track.cause = noTie
	}
}

// SetTimer is SetDeadline for the timer of a key: start is that of its window, 0 where there is none, key the key's bytes (AppendKey). Within
// one call of Watermark or Elapsed timers fire in the order (deadline, start, key bytes). key is copied where it is kept. Both are a Yield: slots
// that were taken before are void behind them.
func (o *Out) SetTimer(deadline, start int64, key []byte) {
	o.Yield()
	o.At.Deadline = deadline
	if o.track != nil {
		o.track.timer(o.Step, deadline, start, key)
	}
}

// Refuse turns a row into a dead letter.
func (o *Out) Refuse(reason, detail string, r *Row) {
	o.Counters.Dead++
	o.Dead = append(o.Dead, DeadRow{At: o.At, Step: o.Step, Reason: reason, Detail: detail, Row: *r})
	if o.track != nil {
		o.track.refused(o.Step)
	}
}

// RefuseRaw turns a payload that could not become a row into a dead letter.
func (o *Out) RefuseRaw(reason, detail, topic string, raw []byte) {
	o.Counters.Dead++
	o.Dead = append(o.Dead, DeadRow{At: o.At, Step: o.Step, Reason: reason, Detail: detail, Topic: topic, Raw: raw})
}

// takeBack makes the slots of the batch free for the next, and lets go of what they refer to. Only what was used is cleared: most batches are
// small.
func (o *Out) takeBack() {
	o.spill.kept = 0
	o.reclaim()
}

// reclaim takes back all slots but those that are kept.
func (o *Out) reclaim() {
	if !o.Reuse {
		return
	}
	for i := o.spill.kept; i < o.used; i++ {
		s := o.slabs[i]
		if i == o.used-1 {
			s = s[:len(s)-len(o.slab)]
		}
		clear(s)
	}
	o.slab, o.used = nil, o.spill.kept
}

// Release gives the memory of slots to others until the next batch. Only with Reuse, when nobody reads the rows of the batch any more.
func (o *Out) Release() {
	if !o.Reuse || o.Slabs == nil {
		return
	}
	o.takeBack()
	for i, s := range o.slabs {
		o.Slabs.give(s)
		o.slabs[i] = nil
	}
	o.slabs = o.slabs[:0]
}

// Shrink lets go of memory for rows that a burst has left. Only between batches, when nobody reads the rows of the last one any more.
func (o *Out) Shrink() {
	for i := range o.Ports {
		if cap(o.Ports[i]) > shrunkRows {
			o.Ports[i] = nil
		}
	}
	if cap(o.Dead) > shrunkRows {
		o.Dead = nil
	}
	o.text = nil
}

// shrunkRows are worth keeping: less than a page.
const shrunkRows = 32

// Reset empties the Out for the next batch. Text handed out before stays valid, and slots without Reuse.
func (o *Out) Reset() {
	o.takeBack()
	for i := range o.Ports {
		clear(o.Ports[i])
		o.Ports[i] = o.Ports[i][:0]
	}
	clear(o.Dead)
	o.Dead = o.Dead[:0]
	o.spill.start()
	if o.track != nil {
		o.track.reset()
	}
}
