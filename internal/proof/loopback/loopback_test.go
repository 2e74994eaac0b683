package loopback

import (
	"net/http"
	"testing"
)

// TestCloseIsNoError: whether the goroutine that serves has seen the end when the
// server is closed is a race, whose outcome does not matter.
func TestCloseIsNoError(t *testing.T) {
	for range 2000 {
		s, err := Listen()
		if err != nil {
			t.Fatal(err)
		}
		s.Serve(http.NotFoundHandler())
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		resp, err := client.Get(s.URL()) // it serves
		if err != nil {
			t.Fatal(err)
		}
		if err := resp.Body.Close(); err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
