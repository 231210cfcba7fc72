package crash

import (
	"time"
)

// slowSync is what a tired SD card takes.
const slowSync = 25 * time.Millisecond

// cutPower is a power cut at whatever the agent does. Now and then another process ran between and was killed: what the first one
// left unsynced in the page cache it has read, and the cut takes it all the same. Or the cut is followed by another one at the start.
func (st *stage) cutPower() {
	st.agent.Kill()
	switch st.random.IntN(4) {
	case 0:
		st.restartBriefly()
	case 1:
		st.strikePower()
		st.restartBriefly()
	}
	st.strikePower()
	st.startAgent()
}

func (st *stage) strikePower() {
	_, err := st.power.Strike(st.random)
	st.must(err)
}

// restartBriefly runs the agent for up to 300 ms and kills it.
func (st *stage) restartBriefly() {
	st.startAgent()
	time.Sleep(time.Duration(st.random.IntN(300)) * time.Millisecond)
	st.agent.Kill()
	st.starts++
}

// cutTail kills the agent between the write of journal records and their sync. The next process finds them in the page cache; what it
// tells others of them must be durable, for it is killed as soon as it has gone on behind them, and the power is cut: only what was
// synced comes through.
func (st *stage) cutTail(*scenario) {
	st.agent.Kill()
	st.kills++
	left, err := st.power.Unsynced(st.dir, "state", "journal")
	st.must(err)
	st.startAgent()
	for deadline := time.Now().Add(tailPatience); time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
		if n, err := st.power.Unsynced(st.dir, "state", "journal"); err == nil && n > left {
			break
		}
	}
	st.agent.Kill()
	st.starts++
	_, err = st.power.Strike(nil)
	st.must(err)
	st.startAgent()
}

// tailPatience is time enough to recover, connect, acknowledge what the broker sends again, and journal what is new.
const tailPatience = 1500 * time.Millisecond

// tailUnsynced: the pipeline runs, and the journal has written what it has not synced.
func (st *stage) tailUnsynced() bool {
	if n, err := st.power.Unsynced(st.dir, "state", "journal"); err != nil || n < tailBytesMin {
		return false
	}
	status, ok := st.status()
	return ok && len(status.Pipelines) > 0 && status.Pipelines[0].State == "running"
}

// tailBytesMin is more than what the agent journals for itself.
const tailBytesMin = 200

// killBoth kills the receiver, in a batch more often than not, and the agent before it could send that batch again. The agent's next
// process knows of the batch what the receiver says.
func (st *stage) killBoth(s *scenario) {
	st.receiver.Kill()
	st.agent.Kill()
	st.kills++
	st.startReceiver(s)
	st.startAgent()
}
