package mastodontest

import (
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/fireonce/fireonce/internal/proof/loopback"
)

// maxFile bounds a file, in bytes; processed is how often a server is asked for a
// video before it is ready.
const (
	maxFile   = 1 << 20
	processed = 2
)

// upload serves POST /api/v2/media. Videos are processed later.
func (s *Server) upload(w http.ResponseWriter, r *http.Request) {
	part, head, err := r.FormFile("file")
	if err != nil {
		fail(w, http.StatusUnprocessableEntity, "Validation failed: File can't be blank")
		return
	}
	defer func() { _ = part.Close() }()
	content, err := io.ReadAll(io.LimitReader(part, maxFile+1))
	f := File{Type: head.Header.Get("Content-Type"), Description: r.FormValue("description"), Size: len(content)}
	if err != nil || len(content) > maxFile || !strings.Contains(f.Type, "/") {
		fail(w, http.StatusUnprocessableEntity, "Validation failed: File is too large")
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f.ID = strconv.Itoa(2200 + len(s.files))
	code := http.StatusOK
	if strings.HasPrefix(f.Type, "video/") {
		f.asked, code = processed, http.StatusAccepted
	}
	s.files = append(s.files, f)
	loopback.JSON(w, code, map[string]any{"id": f.ID, "type": f.Type})
}

// file serves GET /api/v1/media/:id.
func (s *Server) file(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := slices.IndexFunc(s.files, func(f File) bool { return f.ID == r.PathValue("id") })
	switch {
	case at < 0:
		fail(w, http.StatusNotFound, "Record not found")
	case s.files[at].asked > 1:
		s.files[at].asked--
		loopback.JSON(w, http.StatusPartialContent, map[string]any{"id": s.files[at].ID})
	default:
		s.files[at].asked = 0
		loopback.JSON(w, http.StatusOK, map[string]any{"id": s.files[at].ID})
	}
}

// named returns the files of these ids; ready reports whether all exist and are
// processed.
func (s *Server) named(ids []string) (files []File, ready bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		at := slices.IndexFunc(s.files, func(f File) bool { return f.ID == id })
		if at < 0 || s.files[at].asked > 0 {
			return nil, false
		}
		files = append(files, s.files[at])
	}
	return files, true
}
