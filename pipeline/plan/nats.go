package plan

// NATSTarget appends results to a subject of a JetStream stream.
type NATSTarget struct {
	Pos             Pos
	URL             Text
	Stream          Text
	Subject         Text
	CredentialsFile string
	TokenFile       string
	User            string
	PasswordFile    string
	CAFile          string
	BatchRecords    int
	BatchBytes      int64
	TimeoutNs       int64
}

func (n *NATSTarget) text() string {
	return "nats stream " + Printable(n.Stream.Value) + " at " + Printable(n.URL.Value)
}
