package node

import (
	"slices"
	"testing"
)

// TestOriginsAsBrowsersNameThem: origins and hosts beyond ASCII are compared in the form that
// requests have them in.
func TestOriginsAsBrowsersNameThem(t *testing.T) {
	c := &Config{
		AllowOrigins: []string{"https://app.example.org", "HTTPS://BÜCHER.example:443", "http://例え.テスト:8080"},
		AllowHosts:   []string{"fireonce.internal", "Bücher.example", "[2001:db8::1]"},
	}
	if err := c.checkOrigins(); err != nil {
		t.Fatal(err)
	}
	if want := []string{"https://app.example.org", "https://xn--bcher-kva.example", "http://xn--r8jz45g.xn--zckzah:8080"}; !slices.Equal(c.AllowOrigins, want) {
		t.Errorf("%q, want %q", c.AllowOrigins, want)
	}
	if want := []string{"fireonce.internal", "xn--bcher-kva.example", "[2001:db8::1]"}; !slices.Equal(c.AllowHosts, want) {
		t.Errorf("%q, want %q", c.AllowHosts, want)
	}
	for _, bad := range []string{"*", "https://*.example.org", "https://a.example/", "https://a.example/x", "https://a.example?", "https://u@a.example", "a.example", "ftp://a.example", "https://a.example#", ""} {
		if err := (&Config{AllowOrigins: []string{bad}}).checkOrigins(); err == nil {
			t.Errorf("%q is let through", bad)
		}
	}
}
