package codec

// Column is one member of a sink's record.
type Column struct {
	Name string
	Slot int
}
