// Package compat restores state that earlier commits wrote. Each image is an agent's state_dir, taken by a build of the commit that its manifest
// names, with the config, the messages and the results of a run that nothing interrupted. The test starts the present build over it, sends
// the messages that had not come yet, and demands the same results, each once.
//
// An image is never written again and never removed: it is the state of somebody's gateway. README.md tells how one is made.
package compat
