// Package topic has the rules of MQTT for topic names and topic filters (MQTT 3.1.1 section 4.7; MQTT 5 section 4.8.2 for $share): what is
// valid, what matches, what overlaps. The session (pipeline/mqtt) and the plan (pipeline/plan) ask the same functions, so that a message
// that was subscribed to also finds its source and its decoder. All functions are pure.
package topic

// BytesMax is the longest filter or topic name that MQTT can carry.
const BytesMax = 65535
