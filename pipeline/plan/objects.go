package plan

// ObjectsTarget puts batches as objects into a directory or into S3. Directory or Endpoint is given.
type ObjectsTarget struct {
	Pos             Pos
	Directory       Text
	Path            string // absolute; set by agent/config from its root
	Endpoint        Text
	Region          string
	Bucket          Text
	Prefix          Text
	CredentialsFile string
	CAFile          string
	Format          Text   // json, csv
	Compression     string // none, gzip, zstd
	BatchRecords    int
	BatchBytes      int64
	TimeoutNs       int64
}

// FormatCSV writes objects as CSV: its columns are those of the rows, which the plan has to know.
const FormatCSV = "csv"

// seqColumn is the first column of CSV.
const seqColumn = "_seq"

// checkCSV refuses rows whose columns only the run tells.
func (c *compiler) checkCSV(s *SinkSpec, cols []Column, whole int) {
	at := s.Objects.Format.Pos
	if whole >= 0 {
		c.problems.Add(at, "", "put a select step before the sink, or use format: json", "sink %s: the columns of its rows are not all known, and csv has a header", s.UID)
		return
	}
	for _, col := range cols {
		if col.Name == seqColumn {
			c.problems.Add(at, "", "give it another name in a select step", "sink %s: csv has a column %s of its own, the sequence", s.UID, seqColumn)
		}
	}
}

func (o *ObjectsTarget) text() string {
	if o.Format.Value == FormatCSV {
		return "csv " + o.place()
	}
	return o.place()
}

func (o *ObjectsTarget) place() string {
	if o.Directory.Value != "" {
		return "objects in directory " + Printable(o.Directory.Value)
	}
	return "objects in bucket " + Printable(o.Bucket.Value) + " at " + Printable(o.Endpoint.Value)
}
