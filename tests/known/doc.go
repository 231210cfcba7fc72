// Package known compares the product with answers that others computed: the windows, late rows, deadbands and alarms of three
// series of the Numenta Anomaly Benchmark (tests/testdata), made by a plain reference in another language.
//
// The configs in tests/data are run as a user would run them: through `weir replay`, at several batch sizes, and for one set through
// mosquitto and an agent that is killed.
package known
