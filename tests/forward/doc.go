// Package forward tests storing and forwarding: a week without an upstream, pressure from a full sink back to the broker, several sinks of
// which one is dead.
package forward
