package plan

// Kinds of windows.
const (
	WindowTumbling = "tumbling"
	WindowHopping  = "hopping"
	WindowSession  = "session"
	WindowCount    = "count"
	WindowState    = "state"
)

// WindowSpec is a window of one of the kinds.
type WindowSpec struct {
	Pos                          Pos
	Kind                         string // "": tumbling
	SizeMs, OffsetMs, LatenessMs int64  // SizeMs: of a session, its gap
	SlideMs                      int64  // of hopping windows
	SlidePos                     Pos    // of slide
	Split                        bool   // touching: split
	Rows, SlideRows              int64  // of count windows
	State                        *RunSpec
	EarlyMs                      int64
	Processing                   bool // time: processing
}

// RunSpec says when a state window begins and ends. End "": when Begin does not hold.
type RunSpec struct{ Begin, End Text }

// TopSpec keeps the first rows of a window instead of aggregates.
type TopSpec struct {
	Pos   Pos
	N     int
	Order Text // an expression, and asc or desc
	Ties  bool
}
