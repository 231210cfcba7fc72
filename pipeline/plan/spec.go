package plan

import "github.com/weirstream/weir/pipeline"

// Spec is one pipeline as written: names are not resolved, expressions not compiled. The zero value of each optional
// part means "not given".
type Spec struct {
	Name    Text
	Sources []*SourceSpec // every source of the config; the graph holds those that a step or sink reads
	Steps   []*StepSpec
	Sinks   []*SinkSpec
	State   StateSpec
	// AtLeastOnce is checkpoint.mode at-least-once: results leave without waiting for the journal.
	AtLeastOnce bool
	// Parallelism is Graph.Parallelism.
	Parallelism int
	// CommitIntervalMs is checkpoint.interval, for Explain.
	CommitIntervalMs int64
}

// StateSpec are a pipeline's defaults for the state of its steps.
type StateSpec struct {
	TTLNs   int64 // of elapsed time since the last write; 0: never
	MaxKeys int   // per step; 0: no limit
}

// Decoders that a source can name.
const (
	DecodeJSON   = "json"
	DecodeCBOR   = "cbor"
	DecodeText   = "text"
	DecodeNumber = "number"
	DecodeBytes  = "bytes"
	DecodeCSV    = "csv"
	DecodeInflux = "influx"
	// DecodeSparkplug is Sparkplug B.
	DecodeSparkplug = "sparkplug"
)

// SourceSpec is what the plan needs of a source.
type SourceSpec struct {
	Name   Text
	Topic  Text // with {captures}
	Decode []DecodeSpec
	Fields []FieldSpec // declared; none: the payload's fields are not known
	Time   *TimeSpec
	Idle   *IdleSpec
	QoS    int
}

// DecodeSpec says how payloads of a topic are read. The first entry whose filter matches counts.
type DecodeSpec struct {
	Topic Text // "" matches all
	As    Text
	// Columns are the names of a CSV line's values, in order; Separator stands between them.
	Columns   []Text
	Separator string // , ; | or tab
	// Rows of Sparkplug: message or metric. Rebirth asks nodes for their birth certificates, RebirthEveryMs is the least time between two requests.
	Rows           string
	Rebirth        bool
	RebirthEveryMs int64
	Pos            Pos
}

// Rows of a Sparkplug source.
const (
	RowsMessage = "message"
	RowsMetric  = "metric"
)

// FieldSpec declares a field of the payload. Kind is Null for "any".
type FieldSpec struct {
	Name Text
	Kind pipeline.Kind
}

// TimeSpec says where event time comes from.
type TimeSpec struct {
	Pos              Pos
	Field            Text
	Unit             Text
	OutOfOrdernessMs int64
	MaxAheadMs       int64 // 0: off
	MinMs, MaxMs     int64 // sane range
	// WatermarkBy are the fields whose values have a watermark each; WatermarkKeys is how many at once.
	WatermarkBy   []Text
	WatermarkKeys int
	// Layout, Zone, Fold and Gap are those of local times: a Go layout, a name of the time zone database, what codec.ParseFold and ParseGap read.
	Layout, Zone Text
	Fold, Gap    string
}

// IdleSpec says when a source is idle and what its watermark does then.
type IdleSpec struct {
	AfterNs int64
	Advance bool
}

// Kinds of steps.
const (
	KindFilter   = "filter"
	KindSelect   = "select"
	KindWindow   = "window"
	KindDeadband = "deadband"
	KindAlarm    = "alarm"
	KindDedup    = "dedup"
	KindSort     = "sort"
	KindUnion    = "union"
)

// StepSpec is one step. Exactly one of the kind parts is given; a step with several inputs and none of them is a union.
type StepSpec struct {
	Pos      Pos
	UID      Text
	Was      Text // uid under which its state was saved earlier
	From     []Text
	By       []Text
	Filter   *Text
	Select   *SelectSpec
	Window   *WindowSpec
	Top      *TopSpec
	Deadband *DeadbandSpec
	Alarm    *AlarmSpec
	Dedup    *DedupSpec
	Sort     *Text
	Operators
	Joins
	// Aggregate belongs to Window; it stands beside it in the file.
	Aggregate    []ColumnSpec
	AggregatePos Pos
	TTLNs        *int64 // nil: the pipeline's
	MaxKeys      *int
	// Flawed: something in it could not be read, and was said; what is missing now is no problem of its own.
	Flawed bool
}

// ColumnSpec is an output column: a name and the expression that makes it.
type ColumnSpec struct {
	Name Text
	Expr Text
}

// SelectSpec lists the columns that go on.
type SelectSpec struct {
	Pos     Pos
	Columns []ColumnSpec
}

// DeadbandSpec passes a row when its value moved by more than Threshold since the last that passed.
type DeadbandSpec struct {
	Pos       Pos
	Value     Text
	Threshold float64
}

// AlarmSpec is a hysteresis alarm. Raise and Clear are conditions, or the short form "> 8" that is put behind Value.
type AlarmSpec struct {
	Pos          Pos
	Value        Text
	Raise, Clear Text
	HoldNs       int64
	Latch        bool
}

// DedupSpec drops rows whose key was seen before.
type DedupSpec struct {
	Pos Pos
	Key []Text
}

// Commit modes of a sink.
const (
	CommitCheckpoint  = "checkpoint"
	CommitImmediate   = "immediate"
	CommitAtLeastOnce = "at-least-once" // of the whole pipeline: checkpoint.mode
)

// SinkSpec is one stream upstream. Exactly one of the targets is given.
type SinkSpec struct {
	Pos      Pos
	UID      Text
	From     Text
	Commit   Text   // "": checkpoint
	Priority string // high, normal, low
	Link     Text   // "": none
	MaxBytes int64  // of unsent results
	TTLNs    int64  // of unsent results; 0: never
	OnLimit  string // block, drop_oldest
	// Probation is what becomes of its results while a new program is on trial: hold, live.
	Probation string
	HTTP      *HTTPTarget
	Postgres  *PostgresTarget
	File      *FileTarget
	Objects   *ObjectsTarget
	NATS      *NATSTarget
	MQTT      *MQTTTarget
	Influx    *InfluxTarget
	Flawed    bool // as in StepSpec
}

// HTTPTarget sends batches to a URL.
type HTTPTarget struct {
	Pos          Pos
	URL          Text
	Protocol     string // weir: the receiver deduplicates; plain: at least once
	BatchRecords int
	BatchBytes   int64
	TimeoutNs    int64
	Gzip         bool         // the same as Compression gzip
	Compression  string       // none, gzip, zstd
	Headers      []ColumnSpec // name and value
	TokenFile    string
	Certificates
}

// Certificates of a client, files in PEM. CertFile and KeyFile are given together or not at all.
type Certificates struct {
	CAFile, CertFile, KeyFile string
}

// FileTarget appends JSON lines to a file.
type FileTarget struct {
	Pos  Pos
	Path Text
	File string // absolute; set by agent/config from its root
	// RotateBytes closes a file that has grown so far; 0: never. Keep so many closed ones; 0: all.
	RotateBytes int64
	Keep        int
}
