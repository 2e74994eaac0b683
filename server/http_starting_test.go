package server

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestStartingReadsNoBody: a server that starts refuses calls unread, in the protocol of its
// client.
func TestStartingReadsNoBody(t *testing.T) {
	h := Starting()
	for _, c := range []struct {
		method, path, kind string
		want               int
		words              string
	}{
		{http.MethodGet, "/", "", http.StatusServiceUnavailable, "Starting"},
		{http.MethodGet, "/status", "", http.StatusServiceUnavailable, "Starting"},
		{http.MethodPost, "/fireonce.v1.JobService/ScheduleJob", "application/json", http.StatusServiceUnavailable, `"unavailable"`},
		{http.MethodPost, "/nonsense", "application/json", http.StatusServiceUnavailable, `"unavailable"`},
		{http.MethodPost, "/fireonce.v1.JobService/ScheduleJob", "application/grpc", http.StatusOK, ""},
		{http.MethodPost, "/fireonce.v1.JobService/StreamJobEvents", "application/connect+json", http.StatusOK, `"unavailable"`},
	} {
		body := &unread{t: t}
		req := httptest.NewRequest(c.method, c.path, body)
		if c.kind != "" {
			req.Header.Set("Content-Type", c.kind)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, req)
		if w.Code != c.want || !strings.Contains(w.Body.String(), c.words) {
			t.Errorf("%s %s as %q: %d %q", c.method, c.path, c.kind, w.Code, w.Body)
		}
		if c.method == http.MethodGet && w.Body.String() != "Fireonce\n\nStarting: the database is not open yet.\n" {
			t.Errorf("%s says more than that it starts: %q", c.path, w.Body)
		}
		if c.kind == "application/grpc" && w.Header().Get("Grpc-Status") == "" && w.Result().Trailer.Get("Grpc-Status") != "14" {
			t.Errorf("gRPC: headers %v, trailers %v", w.Header(), w.Result().Trailer)
		}
	}
}

// unread fails the test that reads it.
type unread struct{ t *testing.T }

func (u *unread) Read([]byte) (int, error) {
	u.t.Error("a body was read")
	return 0, http.ErrBodyReadAfterClose
}
