// Package known compares the product with answers that others computed: windows, sessions, joins, late rows, deadbands, alarms and outliers
// of three series of the Numenta Anomaly Benchmark, and the queries of an auction house in the manner of Nexmark (tests/testdata), made by
// plain references in other languages.
//
// The configs in tests/data, one for each set, are run as a user would run them: through `weir replay`, at several batch sizes, on one
// instance and on two, and for one set through mosquitto and an agent that is killed.
package known
