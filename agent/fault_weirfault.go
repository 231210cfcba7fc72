//go:build weirfault

package agent

import (
	"os"
	"syscall"
)

// plantedDeath: with WEIR_DIE_AT=STEP the agent is killed, as by kill -9, when it comes to this step of a requeue.
func plantedDeath(at string) {
	if at == os.Getenv("WEIR_DIE_AT") {
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
}
