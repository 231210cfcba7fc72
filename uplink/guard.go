package uplink

import (
	"errors"
	"fmt"
	"net/netip"
	"syscall"
)

// ErrPrivate says that a sink's host is on this device or in a private network, and that the settings do not allow that.
var ErrPrivate = errors.New("host is on a local or private address")

// DenyPrivate is a net.Dialer's Control. It looks at the address that is really dialled: a name may resolve to anything.
func DenyPrivate(_, address string, _ syscall.RawConn) error {
	a, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("dial %s: %w", address, err)
	}
	ip := a.Addr().Unmap()
	if ip.IsLoopback() || ip.IsPrivate() || ip.IsLinkLocalUnicast() || ip.IsUnspecified() || ip.IsMulticast() {
		return fmt.Errorf("dial %s: %w; set security.allow_private: true to accept it", address, ErrPrivate)
	}
	return nil
}
