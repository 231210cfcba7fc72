package mqtt

import "errors"

var (
	// ErrConfig: a setting of a session is missing or out of range.
	ErrConfig = errors.New("invalid mqtt setting")
	// ErrProtocol: the broker sent bytes that are no MQTT 3.1.1 packet. The connection is closed, the session kept.
	ErrProtocol = errors.New("protocol error of the broker")
	// ErrRecord: a journal record of this package cannot be decoded.
	ErrRecord = errors.New("undecodable mqtt record")
	// ErrRefused: the broker refused a subscription or granted a lower QoS than asked.
	ErrRefused = errors.New("subscription refused")
	// ErrNotRebuilt: Carry was called before Rebuild had read the journal. Recycle nothing, try later.
	ErrNotRebuilt = errors.New("dedup table is not rebuilt yet")
	// ErrNotReady: the session is not connected, or has not subscribed yet. Try later.
	ErrNotReady = errors.New("session is not ready")
	// ErrDead: the broker sent nothing for the whole ping timeout.
	ErrDead = errors.New("no answer from the broker")
)
