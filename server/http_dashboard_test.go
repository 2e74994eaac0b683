package server_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/fireonce/fireonce/server"
)

// page is what browsers ask for when they open one.
var page = map[string]string{"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}

// dashboardFiles are a small dashboard.
func dashboardFiles() fstest.MapFS {
	return fstest.MapFS{
		"index.html":        {Data: []byte(`<!doctype html><base href="/" /><script src="./assets/a-1234.js"></script>`)},
		"theme.js":          {Data: []byte("1")},
		"assets/a-1234.js":  {Data: bytes.Repeat([]byte("let a;"), 1000)},
		"assets/a-1234.css": {Data: []byte("a{}")},
	}
}

func withDashboard(c *server.Config) { c.Dashboard = dashboardFiles() }

// TestDashboardSharesThePort: browsers that open a page get the page, and programs what they had before.
func TestDashboardSharesThePort(t *testing.T) {
	f := start(t, withDashboard)
	for _, tc := range []struct {
		method, path string
		header       map[string]string
		status       int
		kind, holds  string
	}{
		{"GET", "/", page, 200, "text/html", "<!doctype html>"},
		{"GET", "/jobs/01a2", page, 200, "text/html", "<!doctype html>"},
		{"GET", "/", nil, 200, "text/plain", "This port speaks"},
		{"GET", "/", map[string]string{"Accept": "*/*"}, 200, "text/plain", "This port speaks"},
		{"GET", "/jobs/01a2", map[string]string{"Accept": "*/*"}, 404, "application/json", "nothing at this path"},
		{"POST", "/jobs", page, 404, "application/json", "nothing at this path"},
		{"GET", "/fireonce.v1.JobService/GetJobb", page, 404, "application/json", "did you mean"},
		{"GET", "/grpc.other.v1.Other/Check", page, 404, "application/json", "nothing at this path"},
		{"GET", "/assets/a-1234.js", nil, 200, "text/javascript", "let a;"},
		{"GET", "/assets/a-5678.js", page, 404, "application/json", "nothing at this path"},
		{"GET", "/index.html", nil, 404, "application/json", "nothing at this path"},
		{"GET", "/theme.js", nil, 200, "text/javascript", "1"},
		{"HEAD", "/theme.js", nil, 200, "text/javascript", ""},
	} {
		res, text := f.do(tc.method, tc.path, "", tc.header)
		if res.StatusCode != tc.status || !strings.HasPrefix(res.Header.Get("Content-Type"), tc.kind) || !strings.Contains(text, tc.holds) {
			t.Errorf("%s %s %v: %d %s %.80s", tc.method, tc.path, tc.header, res.StatusCode, res.Header.Get("Content-Type"), text)
		}
	}
	without := start(t)
	if res, text := without.do(http.MethodGet, "/", "", page); !strings.Contains(text, "This port speaks") {
		t.Errorf("without a dashboard: %d %.80s", res.StatusCode, text)
	}
	if res, _ := without.do(http.MethodGet, server.SessionPath, "", nil); res.StatusCode != http.StatusNotFound {
		t.Errorf("without a dashboard, a session: %d", res.StatusCode)
	}
}

// TestDashboardHeaders bind the page to itself, and keep what has its digest in its name.
func TestDashboardHeaders(t *testing.T) {
	f := start(t, withDashboard)
	res, _ := f.do(http.MethodGet, "/", "", page)
	for name, want := range map[string]string{
		"Content-Security-Policy": "default-src 'self'; base-uri 'self'; form-action 'self'; frame-ancestors 'none'; object-src 'none'",
		"X-Frame-Options":         "DENY", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-cache", "Vary": "Accept",
	} {
		if got := res.Header.Get(name); got != want {
			t.Errorf("%s: %q", name, got)
		}
	}
	again, text := f.do(http.MethodGet, "/", "", map[string]string{"Accept": page["Accept"], "If-None-Match": res.Header.Get("ETag")})
	if again.StatusCode != http.StatusNotModified || text != "" {
		t.Errorf("the same page again: %d %q", again.StatusCode, text)
	}
	res, text = f.do(http.MethodGet, "/assets/a-1234.js", "", map[string]string{"Accept-Encoding": "br, gzip"})
	if res.Header.Get("Cache-Control") != "public, max-age=31536000, immutable" || res.Header.Get("Content-Encoding") != "gzip" {
		t.Errorf("an asset: %v", res.Header)
	}
	r, err := gzip.NewReader(strings.NewReader(text))
	f.must(err)
	if content, err := io.ReadAll(r); err != nil || !strings.HasPrefix(string(content), "let a;") {
		t.Errorf("compressed: %.20s, %v", content, err)
	}
	if res, _ = f.do(http.MethodGet, "/assets/a-1234.js", "", map[string]string{"Accept-Encoding": "gzip;q=0"}); res.Header.Get("Content-Encoding") != "" {
		t.Error("compressed for a client that takes no gzip")
	}
}

// TestDashboardBelowAPath: a proxy may pass its path on, or take it off.
func TestDashboardBelowAPath(t *testing.T) {
	at, err := url.Parse("https://ops.example.org/fire/once/")
	if err != nil {
		t.Fatal(err)
	}
	f := start(t, withDashboard, func(c *server.Config) { c.DashboardURL = at })
	for _, path := range []string{"/", "/jobs", "/fire/once/", "/fire/once/jobs"} {
		if res, text := f.do(http.MethodGet, path, "", page); res.StatusCode != http.StatusOK || !strings.Contains(text, `<base href="/fire/once/" />`) {
			t.Errorf("%s: %d %.80s", path, res.StatusCode, text)
		}
	}
	for _, path := range []string{"/fire/once/theme.js", "/fire/once/session", "/fire/once/status"} {
		if res, _ := f.do(http.MethodGet, path, "", nil); res.StatusCode != http.StatusOK {
			t.Errorf("%s: %d", path, res.StatusCode)
		}
	}
}

// TestDashboardMustBeWhole: a server does not start with a part of it.
func TestDashboardMustBeWhole(t *testing.T) {
	for name, files := range map[string]fstest.MapFS{
		"no page": {"theme.js": {Data: []byte("1")}},
		"no base": {"index.html": {Data: []byte("<!doctype html>")}},
	} {
		var c server.Config
		start(t, func(from *server.Config) { c = *from })
		c.Dashboard = files
		if _, err := server.New(c); err == nil {
			t.Errorf("%s: it starts", name)
		}
	}
}
