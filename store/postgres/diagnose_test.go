package postgres

import (
	"net"
	"testing"
)

// TestLinks: how safe the way to a server is, by the URL that leads there.
func TestLinks(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string]Link{
		"require": LinkUnproven, "verify-full": LinkProven, "verify-ca": LinkProven,
	} {
		config, err := parse(Options{URL: "postgres://user@db.example.org/name?sslmode=" + mode})
		if err != nil {
			t.Fatal(err)
		}
		if got := linkBy(nil, config.ConnConfig.TLSConfig); got != want {
			t.Errorf("sslmode=%s: %v, want %v", mode, got, want)
		}
	}
	for text, want := range map[string]Link{"127.0.0.1": LinkLocal, "::1": LinkLocal, "10.0.0.5": LinkClear} {
		if got := linkBy(&net.TCPAddr{IP: net.ParseIP(text)}, nil); got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
	if got := linkBy(&net.UnixAddr{Name: "/run/postgresql/.s.PGSQL.5432", Net: "unix"}, nil); got != LinkLocal {
		t.Errorf("a socket: %v", got)
	}
}
