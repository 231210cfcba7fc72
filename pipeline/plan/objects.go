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
	Compression     string // none, gzip, zstd
	BatchRecords    int
	BatchBytes      int64
	TimeoutNs       int64
}

func (o *ObjectsTarget) text() string {
	if o.Directory.Value != "" {
		return "objects in directory " + Printable(o.Directory.Value)
	}
	return "objects in bucket " + Printable(o.Bucket.Value) + " at " + Printable(o.Endpoint.Value)
}
