package server

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"html"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
)

// Rules of this file: the dashboard is files, and shares its paths with the API.
//   - Only what a browser opens as a page gets the page: curl's `/` stays text, and a wrong path of
//     the API stays an error in its protocol.
//   - The page's own paths are all one file. The application reads the path.
//   - A file whose name has a digest of its content is kept forever. The others are asked for again.
//   - The page runs our scripts and styles alone, and nothing may frame it.

const (
	dashboardIndex = "index.html"
	// dashboardAssets are the files with digests in their names.
	dashboardAssets = "assets/"
	// baseMark is where the page names the path that it is served under.
	baseMark = `<base href="/" />`
	// maxDashboard bounds the files, which are kept in memory, compressed and not.
	maxDashboard = 16 << 20
	// compressAssetFrom is the size of a file that is worth compressing.
	compressAssetFrom = 1 << 10
)

// dashboardPolicy is the page's Content-Security-Policy.
const dashboardPolicy = "default-src 'self'; base-uri 'self'; form-action 'self'; frame-ancestors 'none'; object-src 'none'"

// dashboard answers with the built files.
type dashboard struct{ files map[string]*dashboardFile }

// dashboardFile is one file, as it is sent.
type dashboardFile struct {
	content          []byte
	kind, etag, keep string
	// zipped compresses the file once, for the first request that takes it: a server
	// without a viewer starts without. Nil: it is not worth it.
	zipped func() []byte
}

// dashboardBase is the path below which browsers see the dashboard, with a slash at its end.
func (c *Config) dashboardBase() string {
	if c.DashboardURL == nil {
		return "/"
	}
	return strings.TrimSuffix(c.DashboardURL.Path, "/") + "/"
}

// newDashboard reads the files; nil: there are none.
func newDashboard(cfg Config) (*dashboard, error) {
	if cfg.Dashboard == nil {
		return nil, nil //nolint:nilnil // no dashboard is no error, and orElse passes everything on
	}
	d, size := &dashboard{files: make(map[string]*dashboardFile)}, 0
	err := fs.WalkDir(cfg.Dashboard, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(cfg.Dashboard, name)
		if err != nil {
			return err
		}
		if size += len(content); size > maxDashboard {
			return fmt.Errorf("more than %d bytes", maxDashboard)
		}
		if name == dashboardIndex {
			based := bytes.Replace(content, []byte(baseMark), fmt.Appendf(nil, `<base href="%s" />`, html.EscapeString(cfg.dashboardBase())), 1)
			if !bytes.Contains(content, []byte(baseMark)) {
				return errors.New("the page does not name its base")
			}
			content = based
		}
		d.files[name] = newDashboardFile(name, content)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("server: dashboard: %w", err)
	}
	if d.files[dashboardIndex] == nil {
		return nil, errors.New("server: dashboard: there is no " + dashboardIndex)
	}
	return d, nil
}

func newDashboardFile(name string, content []byte) *dashboardFile {
	sum := sha256.Sum256(content)
	f := &dashboardFile{
		content: content, kind: mime.TypeByExtension(path.Ext(name)),
		etag: `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`, keep: "no-cache",
	}
	if f.kind == "" {
		f.kind = "text/plain; charset=utf-8"
	}
	if strings.HasPrefix(name, dashboardAssets) {
		f.keep = "public, max-age=31536000, immutable"
	}
	if len(content) >= compressAssetFrom {
		f.zipped = sync.OnceValue(func() []byte { return zip(content) })
	}
	return f
}

func zip(content []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = w.Write(content) // into memory, which takes everything
	_ = w.Close()
	return out.Bytes()
}

// orElse answers with a file, or with the page where a browser opens one, and leaves the rest to next.
func (d *dashboard) orElse(next http.Handler) http.Handler {
	if d == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f := d.find(r)
		if r.URL.Path == "/" {
			w.Header().Add("Vary", "Accept")
		}
		if f == nil {
			next.ServeHTTP(w, r)
			return
		}
		f.serve(w, r)
	})
}

// find returns the file that a request is for; nil: none.
func (d *dashboard) find(r *http.Request) *dashboardFile {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return nil
	}
	name := strings.TrimPrefix(r.URL.Path, "/")
	if f := d.files[name]; f != nil && name != dashboardIndex {
		return f
	}
	isAPI := strings.HasPrefix(name, "fireonce.") || strings.HasPrefix(name, "grpc.")
	if isAPI || strings.HasPrefix(name, dashboardAssets) || !wantsPage(r) {
		return nil
	}
	return d.files[dashboardIndex]
}

// wantsPage reports whether a request is of a browser that opens a page.
func wantsPage(r *http.Request) bool {
	for part := range strings.SplitSeq(r.Header.Get("Accept"), ",") {
		if kind, _, err := mime.ParseMediaType(part); err == nil && kind == "text/html" {
			return true
		}
	}
	return false
}

func (f *dashboardFile) serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", dashboardPolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Content-Type", f.kind)
	h.Set("Cache-Control", f.keep)
	h.Set("ETag", f.etag)
	content := f.content
	if f.zipped != nil {
		h.Add("Vary", "Accept-Encoding")
		if acceptsGzip(r) {
			h.Set("Content-Encoding", "gzip")
			content = f.zipped()
		}
	}
	if known := r.Header.Get("If-None-Match"); known == f.etag || known == "W/"+f.etag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Length", strconv.Itoa(len(content)))
	if r.Method == http.MethodHead {
		w.WriteHeader(http.StatusOK)
		return
	}
	_, _ = w.Write(content) // a client that has gone gets no answer
}

// acceptsGzip reports whether a request names gzip, and does not refuse it.
func acceptsGzip(r *http.Request) bool {
	for part := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		name, weight, _ := strings.Cut(part, ";")
		if strings.TrimSpace(name) == "gzip" {
			return strings.ReplaceAll(weight, " ", "") != "q=0"
		}
	}
	return false
}

// below serves the same below the path of the dashboard's URL: a proxy may pass that path on, or take it off.
func (s *Server) below(next http.Handler) http.Handler {
	base := s.cfg.dashboardBase()
	if base == "/" || s.cfg.Dashboard == nil {
		return next
	}
	stripped := http.StripPrefix(strings.TrimSuffix(base, "/"), next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path+"/" == base:
			http.Redirect(w, r, base, http.StatusTemporaryRedirect)
		case strings.HasPrefix(r.URL.Path, base):
			stripped.ServeHTTP(w, r)
		default:
			next.ServeHTTP(w, r)
		}
	})
}
