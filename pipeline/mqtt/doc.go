// Package mqtt takes messages from MQTT 3.1.1 brokers into the agent's journal and acknowledges each one only when it is
// durable there.
//
// A Session is one client id at one broker. It keeps a clean-session-false session, so that the broker holds what the agent
// has not acknowledged. paho speaks CONNECT, SUBSCRIBE, PING, TLS and websockets; PUBLISH and PUBREL never reach it: the
// tap, our own net.Conn below paho, takes them out of the byte stream, looks them up in the dedup table, appends them to
// the journal and answers the acknowledgements of a commit in one write.
//
// After a crash at any instant: with QoS 2 and a conforming broker each message is in the journal exactly once; with QoS 1
// exactly once when the broker re-sends under the original packet id with DUP=1 (mosquitto does). QoS 0 is at most once.
// What no rule closes is written in DESIGN.md. FORMAT.md describes the records that this package adds to the journal.
//
// One goroutine per session calls Run; Stats and Carry may be called from any other.
package mqtt
