package ends

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/weirstream/weir/tests/rig"
	"github.com/weirstream/weir/uplink/receiver"
	"github.com/weirstream/weir/uplink/wire"
)

// roleEnv makes a test's binary act as the receiver: address and file.
const roleEnv = "WEIR_ENDS_RECEIVER"

// Main is the TestMain of a package that uses Start: its binary is the receiver's process as well.
func Main(m *testing.M) {
	if args := os.Getenv(roleEnv); args != "" {
		if err := serve(args); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

func serve(args string) error {
	var addr, file string
	if _, err := fmt.Sscan(args, &addr, &file); err != nil {
		return err
	}
	r, err := receiver.Open(receiver.Options{Path: file, Config: receiver.Default()})
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	return http.Serve(l, r)
}

// receiverChild is the reference receiver as a process of its own.
type receiverChild struct {
	addr, dir string
	child     *rig.Child
}

func startReceiver(dir string) (*receiverChild, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	r := &receiverChild{dir: dir}
	if r.addr, err = rig.FreeAddr(); err != nil {
		return nil, err
	}
	if r.child, err = rig.StartChild(filepath.Join(dir, "log"), []string{roleEnv + "=" + r.addr + " " + r.file()}, self); err != nil {
		return nil, err
	}
	return r, rig.WaitListening(r.addr, r.child)
}

func (r *receiverChild) file() string { return filepath.Join(r.dir, "receiver.db") }

func (r *receiverChild) kill() { r.child.Kill() }

// held ends the process: it holds the file.
func (r *receiverChild) held(sink string) (all []Record, err error) {
	r.kill()
	o, err := receiver.Open(receiver.Options{Path: r.file(), Config: receiver.Default()})
	if err != nil {
		return nil, err
	}
	err = o.Records(Stream(sink), func(_ uint64, l wire.Line) error {
		if l.Data == nil {
			return fmt.Errorf("gap at %d: %s", l.Seq, l.Reason)
		}
		all = append(all, Record{l.Seq, append([]byte(nil), l.Data...)})
		return nil
	})
	return all, errors.Join(err, o.Close())
}
