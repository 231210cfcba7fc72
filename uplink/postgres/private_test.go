package postgres

import (
	"errors"
	"strings"
	"testing"

	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/uplinktest"
)

// TestPrivateHostsOnlyBySetting: what a DSN names is judged as it is dialled, a socket too.
func TestPrivateHostsOnlyBySetting(t *testing.T) {
	for _, dsn := range []string{"postgres://weir@127.0.0.1:9/x", "postgres://weir@localhost:9/x", "host=/var/run/nowhere user=weir dbname=x", "postgres://weir@[::1]:9,10.0.0.1:9/x"} {
		c := Default()
		c.DSNFile, c.Table, c.Columns, c.DenyPrivate, c.AllowPlaintext = writeDSN(t, dsn), "t", []Column{{Name: "a", From: "a"}}, true, true
		s, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = s.Open(t.Context(), uplinktest.Stream(), one, 1); !errors.Is(err, uplink.ErrPrivate) || !strings.Contains(err.Error(), "security.allow_private: true") {
			t.Errorf("%s: %v", dsn, err)
		}
	}
}
