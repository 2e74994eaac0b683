package mastodontest

import (
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/fireonce/fireonce/internal/proof/loopback"
)

// maxRequest bounds a request's body, in bytes.
const maxRequest = 1 << 20

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v2/instance", s.instance)
	mux.HandleFunc("GET /api/v1/instance", s.oldInstance)
	mux.HandleFunc("GET /.well-known/nodeinfo", s.nodeIndex)
	mux.HandleFunc("GET /nodeinfo/2.0", s.nodeInfo)
	mux.HandleFunc("GET /api/v1/accounts/verify_credentials", s.authorized(s.verify))
	mux.HandleFunc("GET /api/v1/accounts/{id}/statuses", s.authorized(s.list))
	mux.HandleFunc("POST /api/v1/statuses", s.authorized(s.post))
	mux.HandleFunc("POST /api/v2/media", s.authorized(s.upload))
	mux.HandleFunc("GET /api/v1/media/{id}", s.authorized(s.file))
	mux.HandleFunc("GET /api/v1/statuses/{id}/source", s.authorized(s.source))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.Count(r.Method + " " + r.URL.Path)
		w.Header().Set("Date", s.clock().Format(http.TimeFormat))
		mux.ServeHTTP(w, r)
	})
}

func fail(w http.ResponseWriter, code int, words string) {
	loopback.JSON(w, code, map[string]string{"error": words})
}

func (s *Server) authorized(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		planned := Reply
		if s.opts.Plan != nil {
			planned = s.opts.Plan(r.Method + " " + r.URL.Path)
		}
		if planned == RateLimit {
			w.Header().Set("X-RateLimit-Limit", "300")
			w.Header().Set("X-RateLimit-Remaining", "0")
			w.Header().Set("X-RateLimit-Reset", s.clock().Add(s.opts.LimitFor).Format("2006-01-02T15:04:05.000Z"))
			fail(w, http.StatusTooManyRequests, "Too many requests")
			return
		}
		token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if planned == Unauthorized || !s.opts.AnyToken && !slices.Contains(s.opts.Tokens, token) {
			fail(w, http.StatusUnauthorized, "The access token is invalid")
			return
		}
		h(w, r)
	}
}

// names are what kinds of server call themselves.
var names = map[Software]struct{ version, source, software string }{
	Mastodon:    {"4.5.2", "https://github.com/mastodon/mastodon", "mastodon"},
	OldMastodon: {"3.5.19", "", "mastodon"},
	GoToSocial:  {"0.20.2+git-abcdef0", "https://codeberg.org/superseriousbusiness/gotosocial", "gotosocial"},
	Pleroma:     {"2.7.2 (compatible; Pleroma 2.9.1)", "https://git.pleroma.social/pleroma/pleroma", "pleroma"},
}

func (s *Server) instance(w http.ResponseWriter, _ *http.Request) {
	n := names[s.opts.Software]
	if s.opts.Software == OldMastodon {
		fail(w, http.StatusNotFound, "Not Found")
		return
	}
	loopback.JSON(w, http.StatusOK, map[string]any{"domain": "example.test", "version": n.version, "source_url": n.source})
}

func (s *Server) oldInstance(w http.ResponseWriter, _ *http.Request) {
	loopback.JSON(w, http.StatusOK, map[string]any{"uri": "example.test", "version": names[s.opts.Software].version})
}

func (s *Server) nodeIndex(w http.ResponseWriter, r *http.Request) {
	loopback.JSON(w, http.StatusOK, map[string]any{"links": []map[string]string{
		{"rel": "http://nodeinfo.diaspora.software/ns/schema/2.0", "href": "http://" + r.Host + "/nodeinfo/2.0"},
	}})
}

func (s *Server) nodeInfo(w http.ResponseWriter, _ *http.Request) {
	n := names[s.opts.Software]
	loopback.JSON(w, http.StatusOK, map[string]any{"version": "2.0", "software": map[string]string{"name": n.software, "version": n.version}})
}

func (s *Server) verify(w http.ResponseWriter, _ *http.Request) {
	loopback.JSON(w, http.StatusOK, map[string]any{"id": AccountID, "acct": "ada", "url": "https://example.test/@ada"})
}

// post serves POST /api/v1/statuses.
func (s *Server) post(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxRequest))
	if err != nil {
		return // not the whole request: no effect
	}
	var in struct {
		Status     string   `json:"status"`
		ReplyTo    string   `json:"in_reply_to_id"`
		Warning    string   `json:"spoiler_text"`
		Sensitive  bool     `json:"sensitive"`
		Visibility string   `json:"visibility"`
		Language   string   `json:"language"`
		MediaIDs   []string `json:"media_ids"`
	}
	if json.Unmarshal(body, &in) != nil {
		fail(w, http.StatusBadRequest, "not readable")
		return
	}
	files, ready := s.named(in.MediaIDs)
	switch {
	case !ready:
		fail(w, http.StatusUnprocessableEntity, "Cannot attach files that have not finished processing. Try again in a moment!")
		return
	case in.Status == "" && len(files) == 0:
		fail(w, http.StatusUnprocessableEntity, "Validation failed: Text can't be blank")
		return
	case utf8.RuneCountInString(in.Status+in.Warning) > s.opts.MaxCharacters:
		fail(w, http.StatusUnprocessableEntity, fmt.Sprintf("Validation failed: Text character limit of %d exceeded", s.opts.MaxCharacters))
		return
	case in.ReplyTo != "" && !s.has(in.ReplyTo):
		fail(w, http.StatusNotFound, "The post you are trying to reply to does not appear to exist.")
		return
	}
	p, fails := s.create(Post{
		Text: in.Status, ReplyTo: in.ReplyTo, Warning: in.Warning, Sensitive: in.Sensitive, Visibility: in.Visibility,
		Language: in.Language, Files: files, Key: r.Header.Get("Idempotency-Key"),
	})
	if fails {
		fail(w, http.StatusInternalServerError, "We're sorry, but something went wrong on our end.")
		return
	}
	loopback.JSON(w, http.StatusOK, s.told(p))
}

func (s *Server) has(id string) bool {
	return slices.ContainsFunc(s.Posts(), func(p Post) bool { return p.ID == id })
}

func (s *Server) list(w http.ResponseWriter, r *http.Request) {
	if r.PathValue("id") != AccountID {
		fail(w, http.StatusNotFound, "Record not found")
		return
	}
	limit, err := strconv.Atoi(r.URL.Query().Get("limit"))
	if err != nil || limit <= 0 {
		limit = 20
	}
	page, more := s.listed(r.URL.Query().Get("max_id"), limit)
	out := make([]map[string]any, 0, len(page))
	for _, p := range page {
		out = append(out, s.told(p))
	}
	if more {
		w.Header().Set("Link", fmt.Sprintf(`<http://%s%s?limit=%d&max_id=%s>; rel="next"`, r.Host, r.URL.Path, limit, page[len(page)-1].ID))
	}
	loopback.JSON(w, http.StatusOK, out)
}

func (s *Server) source(w http.ResponseWriter, r *http.Request) {
	for _, p := range s.Posts() {
		if p.ID == r.PathValue("id") && s.opts.Software != Pleroma {
			loopback.JSON(w, http.StatusOK, map[string]any{"id": p.ID, "text": p.Text, "spoiler_text": p.Warning})
			return
		}
	}
	fail(w, http.StatusNotFound, "Record not found")
}

func (s *Server) told(p Post) map[string]any {
	files := make([]map[string]string, 0, len(p.Files))
	for _, f := range p.Files {
		files = append(files, map[string]string{"id": f.ID, "description": f.Description})
	}
	out := map[string]any{
		"media_attachments": files, "id": p.ID, "url": "https://example.test/@ada/" + p.ID, "created_at": p.Created, "in_reply_to_id": nil,
		"spoiler_text": p.Warning, "sensitive": p.Sensitive, "visibility": p.Visibility, "content": HTML(p.Text), "reblog": nil, "edited_at": nil,
	}
	if p.ReplyTo != "" {
		out["in_reply_to_id"] = p.ReplyTo
	}
	if !p.Edited.IsZero() {
		out["edited_at"] = p.Edited
	}
	if p.Boost {
		out["reblog"] = map[string]any{"id": "1", "content": HTML(p.Text)}
	}
	return out
}

var (
	paragraphs = regexp.MustCompile(`\n{2,}`)
	special    = regexp.MustCompile(`https?://[^\s\pZ]+|@[a-zA-Z0-9_]+@[a-zA-Z0-9.-]+|#\w+`)
)

// HTML writes a text as Mastodon does: paragraphs, line breaks, links whose scheme
// and end are hidden, mentions without their server.
func HTML(text string) string {
	var b strings.Builder
	for _, para := range paragraphs.Split(strings.TrimSpace(text), -1) {
		b.WriteString("<p>")
		at := 0
		for _, m := range special.FindAllStringIndex(para, -1) {
			b.WriteString(plain(para[at:m[0]]) + link(para[m[0]:m[1]]))
			at = m[1]
		}
		b.WriteString(plain(para[at:]) + "</p>")
	}
	return b.String()
}

func plain(text string) string {
	return strings.ReplaceAll(html.EscapeString(text), "\n", "<br />")
}

func link(word string) string {
	switch word[0] {
	case '@':
		name, _, _ := strings.Cut(word[1:], "@")
		return `<span class="h-card"><a href="https://example.test/@` + name + `" class="u-url mention">@<span>` + name + `</span></a></span>`
	case '#':
		return `<a href="https://example.test/tags/x" class="mention hashtag" rel="tag">#<span>` + html.EscapeString(word[1:]) + `</span></a>`
	}
	scheme, rest, _ := strings.Cut(word, "://")
	show := min(len(rest), 30)
	return `<a href="` + html.EscapeString(word) + `" rel="nofollow"><span class="invisible">` + scheme + `://</span><span class="ellipsis">` +
		html.EscapeString(rest[:show]) + `</span><span class="invisible">` + html.EscapeString(rest[show:]) + `</span></a>`
}
