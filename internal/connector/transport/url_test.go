package transport_test

import (
	"strings"
	"testing"

	"github.com/fireonce/fireonce/internal/connector/transport"
)

func TestParseURL(t *testing.T) {
	for in, want := range map[string]string{
		"https://example.com":                 "https://example.com/",
		"HTTPS://Example.COM:443/a?b=c":       "https://example.com/a?b=c",
		"http://example.com:80/":              "http://example.com/",
		"http://example.com:0443/":            "http://example.com:443/",
		"http://example.com:/":                "http://example.com/",
		"https://bücher.example/ä?ö=ü":        "https://xn--bcher-kva.example/%C3%A4?%C3%B6=%C3%BC",
		"https://[2606:4700:0::1111]:8443/":   "https://[2606:4700::1111]:8443/",
		"http://127.0.0.1:8080/x":             "http://127.0.0.1:8080/x",
		"http://my_service.internal/x":        "http://my_service.internal/x",
		"https://example.com/a%2Fb%20c?q=%zz": "https://example.com/a%2Fb%20c?q=%zz",
		"https://example.com/../a/./b//c":     "https://example.com/../a/./b//c",
	} {
		u, err := transport.ParseURL(in)
		if err != nil || u.String() != want {
			t.Errorf("%s: %v, %v; want %s", in, u, err, want)
		}
	}
	for _, bad := range []string{
		"", "example.com", "//example.com/", "ftp://example.com/", "https://", "https:///x", "https:example.com", "file:///etc/passwd",
		"https://user@example.com/", "https://user:secret-pass@example.com/", "https://example.com/#", "https://example.com/#secret",
		"https://example.com:0/", "https://example.com:65536/", "https://example.com:-1/", "https://example.com:http/",
		"https://exa mple.com/", "https://example.com/a b", "https://example.com/\r\nX: y", "https://example.com/\x00", "https://example.com\\@evil/",
		"https://[::1%25eth0]/", "https://[::1/", "https://[127.0.0.1]/", "https://.example.com/", "https://a..b/", "https://exa$mple.com/",
		"https://xn--\u00e4/", "https://" + strings.Repeat("a.", 130) + "com/", "https://example.com/" + strings.Repeat("a", 2048),
		"https://example.com/" + strings.Repeat("ä", 600),
	} {
		u, err := transport.ParseURL(bad)
		if err == nil {
			t.Errorf("%q gives %s", bad, u)
		} else if strings.Contains(err.Error(), "secret") && !strings.Contains(err.Error(), "put a secret") {
			t.Errorf("%q: the error quotes it: %v", bad, err)
		}
	}
}

func TestTarget(t *testing.T) {
	for in, want := range map[string]string{
		"https://example.com/a":     "https://example.com:443",
		"http://example.com/a":      "http://example.com:80",
		"https://[2606:4700::1]/":   "https://[2606:4700::1]:443",
		"http://example.com:8080/a": "http://example.com:8080",
	} {
		if got := target(t, in).String(); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

// FuzzParseURL holds that a normal form is its own normal form, and fit for a
// request line.
func FuzzParseURL(f *testing.F) {
	f.Add("https://Example.com:443/ä?b=c")
	f.Add("http://[::1]:80/")
	f.Add("http://a/%2f%zz")
	f.Fuzz(func(t *testing.T, raw string) {
		u, err := transport.ParseURL(raw)
		if err != nil {
			return
		}
		again, err := transport.ParseURL(u.String())
		if err != nil || again.String() != u.String() {
			t.Fatalf("%q gives %q, which gives %v, %v", raw, u, again, err)
		}
		if strings.IndexFunc(u.RequestURI()+u.Host, func(r rune) bool { return r <= ' ' || r >= 0x7f }) >= 0 {
			t.Fatalf("%q gives %q", raw, u.RequestURI())
		}
		if transport.TargetOf(u) != transport.TargetOf(again) {
			t.Fatalf("%q: two targets", raw)
		}
	})
}

func TestCheckHeader(t *testing.T) {
	for _, name := range []string{"X-Custom", "Accept", "x-api-key", "Content-Encoding", "X-Webhook-Id", "X_Custom"} {
		if err := transport.CheckHeader(name, "value", false); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{
		"Host", "content-length", "Content-Type", "Transfer-Encoding", "CONNECTION", "Keep-Alive", "TE", "Trailer", "Upgrade",
		"Expect", "User-Agent", "Idempotency-Key", "x-idempotency-key", "webhook-id", "Webhook-Signature", "WEBHOOK-anything",
		// Receivers that fold "_" to "-" take these for ours.
		"Webhook_Signature", "webhook_id", "Idempotency_Key", "X_Idempotency-Key", "Content_Length", "transfer_encoding", "Proxy_Authorization",
		"Proxy-Authorization", "proxy-connection", "HTTP2-Settings", "", "a b", "a:b", "a\r\n", "ä", strings.Repeat("a", 65),
	} {
		for _, secret := range []bool{false, true} {
			if transport.CheckHeader(name, "value", secret) == nil {
				t.Errorf("%q is let through", name)
			}
		}
	}
	for _, name := range []string{"Authorization", "cookie"} {
		if transport.CheckHeader(name, "value", false) == nil || transport.CheckHeader(name, "value", true) != nil {
			t.Errorf("%s belongs into the credential", name)
		}
	}
	for _, value := range []string{"a\r\nb", "a\nb", "a\x00", "\x7f", strings.Repeat("a", 4097)} {
		if err := transport.CheckHeader("X-A", value, true); err == nil || strings.Contains(err.Error(), value) {
			t.Errorf("%q: %v", value, err)
		}
	}
}
