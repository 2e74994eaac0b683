package node

import (
	"net"
	"testing"
)

// TestPortAfter: gRPC alone is served at the next port, unless an address was named.
func TestPortAfter(t *testing.T) {
	t.Parallel()
	for listen, want := range map[string]string{
		"127.0.0.1:8080": "127.0.0.1:8081", "127.0.0.1:0": "127.0.0.1:0", "[::1]:65534": "[::1]:65535", "127.0.0.1:65535": "",
	} {
		addr, err := net.ResolveTCPAddr("tcp", listen)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if after := portAfter(addr); after != nil {
			got = after.String()
		}
		if got != want {
			t.Errorf("beside %s: %q, want %q", listen, got, want)
		}
	}
}
