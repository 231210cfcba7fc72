package agent

import (
	"os"

	"github.com/weirstream/weir/agent/identity"
)

// checkIdentity reads which incarnation state_dir is of, and settles nothing: a check or a repair may be done on a copy, on another board, while the device works.
func (a *Agent) checkIdentity(dir string, board identity.Board, used bool) error {
	if a.identity == nil {
		a.identity = identity.First(board, used)
	}
	fence, err := identity.LoadFenced(a.fs, dir, a.identity)
	if err == nil && fence != nil {
		a.fence.raise(fence)
	}
	return err
}

// identity tells what a start on this board would do about the incarnation.
func (c *checker) identity() {
	board := identity.ReadBoard(c.cfg.BoardSerial, os.ReadFile)
	action, err := identity.Decide(identity.Facts{Record: c.agent.identity, Used: true, Board: board, Central: c.cfg.Central.URL.Value != ""})
	switch {
	case err != nil:
		c.report.stops("the agent does not start on this board: %v", err)
	case action == identity.NewMajor:
		c.report.line("state_dir belongs to another board: it is of %s, this is %s; a start here takes a new incarnation at the central store, and stops the device that has the one before",
			c.agent.identity.Token, identity.Token(board))
	}
	if err := c.agent.fence.err(); err != nil {
		c.report.stops("no pipeline runs here: %v", err)
	}
}
