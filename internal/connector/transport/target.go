package transport

import (
	"net"
	"net/url"
	"strings"
)

// Target is where a connection leads to. Two equal targets may share idle connections.
type Target struct {
	Scheme string // "http" or "https"; for a RawConn, its protocol's
	Host   string // ASCII name or address, without brackets
	Port   string // decimal, never empty
}

// TargetOf returns the target that a checked URL addresses.
func TargetOf(u *url.URL) Target {
	t := Target{Scheme: u.Scheme, Host: strings.ToLower(u.Hostname()), Port: u.Port()}
	if t.Port == "" {
		t.Port = "443"
		if t.Scheme == "http" {
			t.Port = "80"
		}
	}
	return t
}

// String returns scheme://host:port, which is also the hold key of plain HTTP
// targets.
func (t Target) String() string { return t.Scheme + "://" + net.JoinHostPort(t.Host, t.Port) }
