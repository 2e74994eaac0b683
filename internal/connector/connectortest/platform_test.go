package connectortest_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/fireonce/fireonce/internal/connector/connectortest"
)

// TestPlatformSeesWhatTheTransportHides is the negative control: net/http's
// client sends a POST with an Idempotency-Key a second time by itself, and says
// that all is well. A platform that did not see it could not test anything.
func TestPlatformSeesWhatTheTransportHides(t *testing.T) {
	p := connectortest.NewPlatform(t, false, connectortest.OK, connectortest.DropAnswer, connectortest.OK)
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	for range 2 {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.URL()+"/", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Idempotency-Key", "k")
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
	if p.Started() != 3 {
		t.Errorf("%d requests on the wire for 2 calls; the control wants 3", p.Started())
	}
}

// TestPlatformSeesRedirects: a client that follows 307 posts twice.
func TestPlatformSeesRedirects(t *testing.T) {
	p := connectortest.NewPlatform(t, false, connectortest.Status(307, "Location: /again"), connectortest.OK)
	resp, err := http.Post(p.URL()+"/", "text/plain", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if p.Started() != 2 {
		t.Errorf("%d requests on the wire, want 2", p.Started())
	}
	http.DefaultClient.CloseIdleConnections()
}
