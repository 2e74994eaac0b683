package kit_test

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/kit"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

func mediaOf(c kit.MediaConfig) *kit.Media {
	c.Egress = transport.NewEgress(netip.MustParsePrefix("127.0.0.0/8"))
	return kit.NewMedia(c)
}

func hostOf(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

func refusalOf(t *testing.T, err error, kind job.FailureKind, words string) *connector.Refusal {
	t.Helper()
	var r *connector.Refusal
	if !errors.As(err, &r) || r.Kind != kind || !strings.Contains(r.Msg, words) {
		t.Fatalf("%v, want a refusal of kind %s with %q", err, kind, words)
	}
	if strings.Contains(r.Msg, "secret") || r.Msg != transport.Clean(r.Msg, transport.MaxMessage) {
		t.Errorf("message not fit for a user: %q", r.Msg)
	}
	return r
}

// pattern is a file of a size whose bytes differ from place to place.
func pattern(n int) []byte {
	out := make([]byte, n)
	for i := range out {
		out[i] = byte(i * 7 / 5)
	}
	return out
}

// TestMediaAtURLsOfEveryDay: what a host gets for URLs as they are typed, also after a redirect.
func TestMediaAtURLsOfEveryDay(t *testing.T) {
	got := make(chan string, 4)
	base := hostOf(t, func(w http.ResponseWriter, r *http.Request) {
		got <- r.Method + " " + r.RequestURI
		if r.URL.Path == "/alt/ü" {
			w.Header().Set("Location", "/neu/Foto-März (1).png?größe=[9]#teil")
			w.WriteHeader(http.StatusFound)
			return
		}
		w.Header().Set("Content-Type", "image/png")
		_, _ = w.Write(pattern(10))
	})
	m := mediaOf(kit.MediaConfig{Dir: t.TempDir()})
	for typed, want := range map[string][]string{
		"/Foto-März.png":     {"GET /Foto-M%C3%A4rz.png"},
		"/写真/[1]{2}.png?a|b": {"GET /%E5%86%99%E7%9C%9F/%5B1%5D%7B2%7D.png?a%7Cb"},
		"/a%2Fb/ü.png":       {"GET /a%2Fb/%C3%BC.png"},
		"/alt/ü":             {"GET /alt/%C3%BC", "GET /neu/Foto-M%C3%A4rz%20%281%29.png?gr%C3%B6%C3%9Fe=%5B9%5D"},
	} {
		a, err := m.Fetch(t.Context(), &fireoncev1.MediaRef{Url: base + typed}, 0)
		if err != nil {
			t.Errorf("%s: %v", typed, err)
			continue
		}
		a.Close()
		for _, one := range want {
			if line := <-got; line != one {
				t.Errorf("%s: the host got %s, want %s", typed, line, one)
			}
		}
	}
}

func TestMediaFetch(t *testing.T) {
	for _, size := range []int{1, 1000, 1 << 20, 1<<20 + 1, 5<<20 + 17} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			t.Parallel()
			dir, want := t.TempDir(), pattern(size)
			sum := sha256.Sum256(want)
			base := hostOf(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Cookie") != "" || !strings.HasPrefix(r.UserAgent(), "Fireonce/") {
					t.Errorf("headers: %v", r.Header)
				}
				w.Header().Set("Content-Type", "video/mp4; codecs=avc1")
				http.SetCookie(w, &http.Cookie{Name: "a", Value: "b"})
				_, _ = w.Write(want)
			})
			m := mediaOf(kit.MediaConfig{Dir: dir})
			a, err := m.Fetch(t.Context(), &fireoncev1.MediaRef{Url: base + "/v.mp4?secret", Sha256: sum[:]}, 0)
			if err != nil {
				t.Fatal(err)
			}
			if a.Size != int64(size) || a.SHA256 != sum || a.Type != "video/mp4" {
				t.Errorf("%d bytes of %s, digest %x", a.Size, a.Type, a.SHA256)
			}
			for range 2 { // two readers, each from the beginning
				got, err := io.ReadAll(a.Reader())
				if err != nil || !bytes.Equal(got, want) {
					t.Fatalf("%d bytes, %v", len(got), err)
				}
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
				t.Errorf("files with a name: %v, %v", left, err)
			}
			a.Close()
			a.Close()
			if size > 1<<20 {
				if _, err := a.Reader().Read(make([]byte, 1)); err == nil {
					t.Error("a closed asset can be read")
				}
			}
		})
	}
}

func TestMediaRefusals(t *testing.T) {
	answer := func(code int, headers ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i < len(headers); i += 2 {
				w.Header().Set(headers[i], headers[i+1])
			}
			w.WriteHeader(code)
			_, _ = io.WriteString(w, "secret words")
		}
	}
	for name, c := range map[string]struct {
		host  http.HandlerFunc
		ref   *fireoncev1.MediaRef
		kind  job.FailureKind
		words string
		// whole: a probe sees nothing of it
		whole bool
	}{
		"404":          {host: answer(404), kind: job.FailPermanent, words: "is not there: its host answered 404 Not Found"},
		"410":          {host: answer(410), kind: job.FailPermanent, words: "410 Gone"},
		"403":          {host: answer(403), kind: job.FailPermanent, words: "403 Forbidden"},
		"304":          {host: answer(304), kind: job.FailPermanent, words: "304 Not Modified"},
		"408":          {host: answer(408), kind: job.FailTransient, words: "408 Request Timeout"},
		"500":          {host: answer(500), kind: job.FailTransient, words: "could not be fetched: its host answered 500"},
		"503":          {host: answer(503), kind: job.FailTransient, words: "503"},
		"429":          {host: answer(429, "Retry-After", "90"), kind: job.FailHeld, words: "429 Too Many Requests"},
		"login page":   {host: answer(200, "Content-Type", "text/html"), ref: &fireoncev1.MediaRef{MediaType: "video/mp4"}, kind: job.FailPermanent, words: "is a web page, not video/mp4"},
		"another file": {host: answer(200), ref: &fireoncev1.MediaRef{Sha256: bytes.Repeat([]byte{7}, 32)}, kind: job.FailPermanent, words: "its SHA-256 differs", whole: true},
		"empty":        {host: func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Length", "0") }, kind: job.FailPermanent, words: "is empty"},
		"too large": {
			host: answer(200, "Content-Type", "video/mp4", "Content-Length", "1000"), kind: job.FailPermanent, words: "is too large: more than 100 bytes",
		},
		"too large, not said": {host: func(w http.ResponseWriter, _ *http.Request) {
			for range 20 {
				_, _ = io.WriteString(w, "0123456789")
				_ = http.NewResponseController(w).Flush()
			}
		}, kind: job.FailPermanent, words: "is too large", whole: true},
		"breaks off": {host: func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "50")
			_, _ = io.WriteString(w, "0123456789")
			if r.Method == http.MethodGet {
				panic(http.ErrAbortHandler)
			}
		}, kind: job.FailTransient, words: "the connection was closed", whole: true},
		"redirects without end": {host: func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/again?secret", http.StatusFound)
		}, kind: job.FailPermanent, words: "redirects more than 5 times"},
		"redirects to a file": {host: answer(302, "Location", "file:///etc/passwd"), kind: job.FailPermanent, words: "a URL that cannot be followed"},
		"redirects inside":    {host: answer(302, "Location", "http://10.0.0.1/secret"), kind: job.FailEgressDenied, words: "not allowed to fetch"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := mediaOf(kit.MediaConfig{MaxBytes: 100})
			ref := c.ref
			if ref == nil {
				ref = &fireoncev1.MediaRef{}
			}
			ref.Url = hostOf(t, c.host) + "/secret-path/file?secret=1"
			_, err := m.Fetch(t.Context(), ref, 0)
			r := refusalOf(t, err, c.kind, c.words)
			if c.kind == job.FailHeld && r.RetryAfter != 90*time.Second {
				t.Errorf("retry after %v", r.RetryAfter)
			}
			err = m.Probe(t.Context(), ref)
			if c.whole {
				if err != nil {
					t.Errorf("a probe sees %v", err)
				}
				return
			}
			refusalOf(t, err, c.kind, c.words)
		})
	}
}

func TestMediaNotReachable(t *testing.T) {
	dead := httptest.NewServer(http.NotFoundHandler())
	url := dead.URL
	dead.Close()
	m := mediaOf(kit.MediaConfig{})
	_, err := m.Fetch(t.Context(), &fireoncev1.MediaRef{Url: url + "/secret"}, 0)
	refusalOf(t, err, job.FailTransient, "could not be fetched")

	closed := kit.NewMedia(kit.MediaConfig{})
	_, err = closed.Fetch(t.Context(), &fireoncev1.MediaRef{Url: url + "/secret"}, 0)
	refusalOf(t, err, job.FailEgressDenied, "not allowed to fetch the media file at 127.0.0.1")

	_, err = mediaOf(kit.MediaConfig{HTTPSOnly: true}).Fetch(t.Context(), &fireoncev1.MediaRef{Url: url}, 0)
	refusalOf(t, err, job.FailPermanent, "must start with https://")
	_, err = m.Fetch(t.Context(), &fireoncev1.MediaRef{Url: "ftp://secret"}, 0)
	refusalOf(t, err, job.FailPermanent, "the URL must start with http:// or https://")
}

// A host that goes silent ends by the time that is given.
func TestMediaSilent(t *testing.T) {
	t.Parallel()
	end := make(chan struct{})
	base := hostOf(t, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-end:
		case <-r.Context().Done():
		}
	})
	t.Cleanup(func() { close(end) })
	m := mediaOf(kit.MediaConfig{Timeout: 50 * time.Millisecond})
	_, err := m.Fetch(t.Context(), &fireoncev1.MediaRef{Url: base}, 0)
	refusalOf(t, err, job.FailTransient, "out of time")
}

// TestMediaRedirects: redirects are followed, and no host learns the URL of the one
// before it.
func TestMediaRedirects(t *testing.T) {
	var hops atomic.Int64
	base := hostOf(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Referer() != "" {
			t.Errorf("referer %q", r.Referer())
		}
		if hops.Add(1)%6 != 0 {
			http.Redirect(w, r, fmt.Sprintf("/%d?secret", hops.Load()), http.StatusFound)
			return
		}
		_, _ = io.WriteString(w, "file")
	})
	m := mediaOf(kit.MediaConfig{})
	a, err := m.Fetch(t.Context(), &fireoncev1.MediaRef{Url: base + "/0?secret"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	a.Close()
	if hops.Load() != 6 || a.Size != 4 {
		t.Errorf("%d requests, %d bytes", hops.Load(), a.Size)
	}
}

// TLS is not given up on the way.
func TestMediaKeepsTLS(t *testing.T) {
	plain := hostOf(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "file") })
	s := httptest.NewTLSServer(http.RedirectHandler(plain+"/secret", http.StatusFound))
	t.Cleanup(s.Close)
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	_, err := mediaOf(kit.MediaConfig{RootCAs: roots}).Fetch(t.Context(), &fireoncev1.MediaRef{Url: s.URL}, 0)
	refusalOf(t, err, job.FailPermanent, "a URL that cannot be followed")
	_, err = mediaOf(kit.MediaConfig{}).Fetch(t.Context(), &fireoncev1.MediaRef{Url: s.URL}, 0)
	refusalOf(t, err, job.FailTransient, "could not be fetched")
}

// Signed URLs answer no HEAD.
func TestMediaProbe(t *testing.T) {
	var methods []string
	base := hostOf(t, func(w http.ResponseWriter, r *http.Request) {
		methods = append(methods, r.Method)
		if r.Method == http.MethodHead {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		_, _ = w.Write(pattern(1 << 20))
	})
	m := mediaOf(kit.MediaConfig{})
	if err := m.Probe(t.Context(), &fireoncev1.MediaRef{Url: base}); err != nil {
		t.Fatal(err)
	}
	if strings.Join(methods, " ") != "HEAD GET" {
		t.Errorf("asked with %v", methods)
	}
}

func TestMediaTypes(t *testing.T) {
	png := "\x89PNG\x0d\x0a\x1a\x0a0123"
	for name, c := range map[string]struct{ said, want, body, got string }{
		"the payload's":  {"application/octet-stream", "Video/MP4; a=b", "x", "video/mp4"},
		"the host's":     {"image/webp", "", "x", "image/webp"},
		"its bytes'":     {"application/octet-stream", "", png, "image/png"},
		"a page, wanted": {"text/html", "text/html", "x", "text/html"},
	} {
		t.Run(name, func(t *testing.T) {
			base := hostOf(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", c.said)
				_, _ = io.WriteString(w, c.body)
			})
			a, err := mediaOf(kit.MediaConfig{}).Fetch(t.Context(), &fireoncev1.MediaRef{Url: base, MediaType: c.want}, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer a.Close()
			if a.Type != c.got {
				t.Errorf("type %q, want %q", a.Type, c.got)
			}
		})
	}
}

// Files are bounded in number and in bytes, what is let go is free again, and
// failed fetches keep nothing.
func TestMediaRoom(t *testing.T) {
	base := hostOf(t, func(w http.ResponseWriter, r *http.Request) {
		n := 3 << 20
		if r.URL.Path == "/small" {
			n = 10
		}
		if r.URL.Path == "/broken" {
			w.Header().Set("Content-Length", fmt.Sprint(n))
			_, _ = w.Write(pattern(n / 2))
			panic(http.ErrAbortHandler)
		}
		_, _ = w.Write(pattern(n))
	})
	ref := func(path string) *fireoncev1.MediaRef { return &fireoncev1.MediaRef{Url: base + path} }
	m := mediaOf(kit.MediaConfig{Dir: t.TempDir(), MaxSpool: 4 << 20, MaxAssets: 2})
	for range 3 {
		if _, err := m.Fetch(t.Context(), ref("/broken"), 0); err == nil {
			t.Fatal("a broken file was fetched")
		}
	}
	a, err := m.Fetch(t.Context(), ref("/large"), 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = m.Fetch(t.Context(), ref("/large"), 0)
	r := refusalOf(t, err, job.FailHeld, "waits until other jobs' media files")
	if r.RetryAfter <= 0 {
		t.Error("no time to come back at")
	}
	small, err := m.Fetch(t.Context(), ref("/small"), 0)
	if err != nil {
		t.Fatal(err) // a file in memory takes no disk space
	}
	_, err = m.Fetch(t.Context(), ref("/small"), 0)
	refusalOf(t, err, job.FailHeld, "waits until other jobs' media files")
	small.Close()
	a.Close()
	a.Close() // releases once
	if a, err = m.Fetch(t.Context(), ref("/large"), 0); err != nil {
		t.Fatal(err)
	}
	a.Close()
}
