// Package savepoint writes and reads savepoints: the whole state of a pipeline at a barrier in one file that describes itself, so that it can
// be restored by another build, on another machine, with another backend, parallelism or plan. What a savepoint of Flink is, with the
// results in it that upstream does not hold yet.
//
// A file is whole or absent: Create writes it under another name, syncs it and renames it. Open checks every byte before it gives anything.
// Nothing here decides where a pipeline may go on; agent does. The format is in snapshot/FORMAT.md.
package savepoint
