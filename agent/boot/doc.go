// Package boot is the helper outside of the slots (weir-boot): it decides which program a start runs, and links it. It counts the starts of a program on trial before that one runs, copies what the agent has fetched into a
// directory that belongs to root, verifies it there, and keeps what the agent's user must not be able to change: the newest root document, the floor of secure versions.
//
// Link runs as root on what the user of the agent can write: the record, documents and the slot file are a stranger's. Nothing of them is followed, waited for or believed. It has no state but its files, and each run ends
// with a program linked: a start that failed before the program would be repeated for ever. DESIGN.md has the rules, and what a crash at each step leads to.
package boot
