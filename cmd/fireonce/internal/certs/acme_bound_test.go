package certs

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestAnswersAreBounded checks that no answer of an authority is read without end.
func TestAnswersAreBounded(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(make([]byte, maxAnswer+1))
	}))
	t.Cleanup(server.Close)
	a, err := OpenACME(ACME{Domains: []string{"a.example"}, Cache: t.TempDir(), Directory: server.URL}, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := a.manager.Client.HTTPClient.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	n, err := io.Copy(io.Discard, res.Body)
	if _, ok := errors.AsType[*http.MaxBytesError](err); !ok || n > maxAnswer {
		t.Errorf("%d bytes, %v", n, err)
	}
}
