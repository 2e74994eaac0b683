package transport_test

import (
	"strings"
	"testing"

	"github.com/fireonce/fireonce/internal/connector/transport"
)

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
