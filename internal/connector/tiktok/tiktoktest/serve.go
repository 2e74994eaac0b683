package tiktoktest

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

func (p *Platform) routes() {
	p.mux.HandleFunc("POST /v2/post/publish/creator_info/query/", p.api(p.creator))
	p.mux.HandleFunc("POST /v2/post/publish/video/init/", p.api(p.beginVideo))
	p.mux.HandleFunc("POST /v2/post/publish/content/init/", p.api(p.beginPhotos))
	p.mux.HandleFunc("POST /v2/post/publish/status/fetch/", p.api(p.fetchStatus))
	p.mux.HandleFunc("GET /v2/user/info/", p.api(p.user))
	p.mux.HandleFunc("POST /v2/video/list/", p.api(p.list))
	p.mux.HandleFunc("PUT /video/", p.put)
}

// refusal is an answer with an error.
type refusal struct {
	status    int
	code, msg string
}

func (r *refusal) Error() string { return r.code }

func refuse(status int, code, msg string) error { return &refusal{status, code, msg} }

var errParam = refuse(http.StatusBadRequest, "invalid_param", "The request post info is empty or incorrect")

// api serves one request in the form that all have.
func (p *Platform) api(serve func(*http.Request, []byte) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		p.mu.Lock()
		planned := Reply
		if p.opts.Plan != nil {
			planned = p.opts.Plan(r.URL.Path)
		}
		var data any
		if planned == RateLimit {
			err = refuse(http.StatusTooManyRequests, "rate_limit_exceeded", "The API rate limit was exceeded. Please try again later.")
		} else if want := p.opts.Token; planned == Unauthorized || want != "" && r.Header.Get("Authorization") != "Bearer "+want {
			err = refuse(http.StatusUnauthorized, "access_token_invalid", "The access token is invalid or not found in the request.")
		} else {
			data, err = serve(r, body)
		}
		p.mu.Unlock()
		answer(w, data, err)
	}
}

func answer(w http.ResponseWriter, data any, err error) {
	status, failed := http.StatusOK, &refusal{code: "ok"}
	if err != nil {
		r, ok := err.(*refusal) //nolint:errorlint // these handlers wrap nothing
		if !ok {
			panic(err)
		}
		status, failed, data = r.status, r, map[string]any{}
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{
		"data": data, "error": map[string]string{"code": failed.code, "message": failed.msg, "log_id": "2026112108"},
	})
}

func (p *Platform) creator(*http.Request, []byte) (any, error) {
	return map[string]any{
		"creator_username": "ada", "creator_nickname": "Ada L.", "privacy_level_options": p.opts.Privacies,
		"comment_disabled": false, "duet_disabled": false, "stitch_disabled": false, "max_video_post_duration_sec": 600,
	}, nil
}

func (p *Platform) user(r *http.Request, _ []byte) (any, error) {
	if p.opts.NoScopes {
		return nil, refuse(http.StatusUnauthorized, "scope_not_authorized", "The user did not authorize the scope required.")
	}
	if !strings.Contains(r.URL.Query().Get("fields"), "open_id") {
		return nil, errParam
	}
	return map[string]any{"user": map[string]string{"open_id": "_000abc", "display_name": "Ada L."}}, nil
}

// request is what begins a post.
type request struct {
	MediaType string `json:"media_type"`
	Mode      string `json:"post_mode"`
	Post      struct {
		Title       string `json:"title"`
		Description string `json:"description"`
		Privacy     string `json:"privacy_level"`
	} `json:"post_info"`
	Source struct {
		Source string   `json:"source"`
		Size   int64    `json:"video_size"`
		Chunk  int64    `json:"chunk_size"`
		Chunks int64    `json:"total_chunk_count"`
		Video  string   `json:"video_url"`
		Cover  *int     `json:"photo_cover_index"`
		Photos []string `json:"photo_images"`
	} `json:"source_info"`
}

func (p *Platform) begin(body []byte) (request, error) {
	var in request
	if err := json.Unmarshal(body, &in); err != nil {
		return in, errParam
	}
	if !slices.Contains(p.opts.Privacies, in.Post.Privacy) {
		return in, refuse(http.StatusForbidden, "privacy_level_option_mismatch", "The privacy level is not one of the account's.")
	}
	for _, u := range append(in.Source.Photos, in.Source.Video) {
		at, err := url.Parse(u)
		if err != nil {
			return in, errParam
		}
		if u != "" && p.opts.Domain != "" && at.Hostname() != p.opts.Domain {
			return in, refuse(http.StatusForbidden, "url_ownership_unverified", "Please verify the ownership of the domain.")
		}
	}
	return in, nil
}

// Sizes of the Media Transfer Guide, in the sense that allows less.
const (
	minChunk, maxChunk, maxLast = 5 << 20, 64_000_000, 128_000_000
	maxCount                    = 1000
)

// fits holds a cut against the rules.
func fits(size, chunk, count int64) bool {
	if size <= 0 || chunk <= 0 || count < 1 || count > maxCount || count != size/chunk {
		return false
	}
	if count == 1 {
		return chunk == size && size <= maxChunk
	}
	return chunk >= minChunk && chunk <= maxChunk && size-chunk*(count-1) <= maxLast
}

func (p *Platform) beginVideo(_ *http.Request, body []byte) (any, error) {
	in, err := p.begin(body)
	if err != nil {
		return nil, err
	}
	q := &post{Post: Post{Text: in.Post.Title, Privacy: in.Post.Privacy}}
	switch in.Source.Source {
	case "FILE_UPLOAD":
		if !fits(in.Source.Size, in.Source.Chunk, in.Source.Chunks) {
			return nil, errParam
		}
		q.size, q.chunk, q.chunks = in.Source.Size, in.Source.Chunk, in.Source.Chunks
		p.add(q, "v_pub_file~v2-1.")
		q.token = "secret-upload-token-" + strconv.Itoa(q.number)
		return map[string]string{
			"publish_id": q.PublishID,
			"upload_url": fmt.Sprintf("%s/video/?upload_id=%d&upload_token=%s", p.uploads, q.number, q.token),
		}, nil
	case "PULL_FROM_URL":
		if in.Source.Video == "" {
			return nil, errParam
		}
		q.URLs = []string{in.Source.Video}
		p.add(q, "v_pub_url~v2-1.")
		return map[string]string{"publish_id": q.PublishID}, nil
	default:
		return nil, errParam
	}
}

func (p *Platform) beginPhotos(_ *http.Request, body []byte) (any, error) {
	in, err := p.begin(body)
	if err != nil {
		return nil, err
	}
	if in.MediaType != "PHOTO" || in.Mode != "DIRECT_POST" || in.Source.Source != "PULL_FROM_URL" || in.Source.Cover == nil ||
		len(in.Source.Photos) == 0 || len(in.Source.Photos) > 35 {
		return nil, errParam
	}
	q := &post{Post: Post{Text: in.Post.Description, Privacy: in.Post.Privacy, URLs: in.Source.Photos}, photo: true}
	p.add(q, "p_pub_url~v2-1.")
	return map[string]string{"publish_id": q.PublishID}, nil
}

// add begins a post. One that is fetched is whole once it was: nothing keeps it from
// being posted any more.
func (p *Platform) add(q *post, prefix string) {
	q.number, q.begun = len(p.posts)+1, p.opts.Now()
	q.PublishID = prefix + strconv.Itoa(7_000_000+q.number)
	if len(q.URLs) > 0 {
		q.whole = q.begun.Add(p.opts.Fetch)
	}
	p.posts = append(p.posts, q)
}

func (p *Platform) fetchStatus(_ *http.Request, body []byte) (any, error) {
	p.polls++
	var in struct {
		ID string `json:"publish_id"`
	}
	if json.Unmarshal(body, &in) != nil {
		return nil, errParam
	}
	for _, q := range p.posts {
		if q.PublishID != in.ID {
			continue
		}
		status, reason, id := p.status(q)
		out := map[string]any{"status": status}
		if reason != "" {
			out["fail_reason"] = reason
		}
		if id != "" {
			out["publicaly_available_post_id"] = []string{id} //nolint:misspell // TikTok's spelling
		}
		if len(q.URLs) == 0 {
			out["uploaded_bytes"] = q.got
		}
		return out, nil
	}
	return nil, refuse(http.StatusBadRequest, "invalid_publish_id", "publish_id does not exist")
}

// list returns the public videos, newest first, in one page, each with at most 150
// characters of its text.
func (p *Platform) list(*http.Request, []byte) (any, error) {
	if p.opts.NoScopes {
		return nil, refuse(http.StatusUnauthorized, "scope_not_authorized", "The user did not authorize the scope required.")
	}
	type item struct {
		ID      string `json:"id"`
		Created int64  `json:"create_time"`
		Text    string `json:"video_description"`
	}
	videos := []item{}
	cut := func(text string) string {
		all := []rune(text)
		return string(all[:min(len(all), 150)])
	}
	for _, q := range p.posts {
		if _, _, id := p.status(q); id != "" {
			videos = append(videos, item{id, q.whole.Add(p.opts.Process).Unix(), cut(q.Text)})
		}
	}
	for _, f := range p.foreign {
		videos = append(videos, item{f.id, f.at.Unix(), cut(f.text)})
	}
	slices.SortStableFunc(videos, func(a, b item) int { return int(b.Created - a.Created) })
	return map[string]any{"videos": videos, "cursor": 0, "has_more": false}, nil
}

// put takes a chunk: in their order, as the post's beginning announced, while the upload
// lives (Media Transfer Guide: 206 for a part, 201 for the last one).
func (p *Platform) put(w http.ResponseWriter, r *http.Request) {
	data, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	w.WriteHeader(p.take(r, data))
}

func (p *Platform) take(r *http.Request, data []byte) int {
	number, err := strconv.Atoi(r.URL.Query().Get("upload_id"))
	if err != nil || number < 1 || number > len(p.posts) {
		return http.StatusNotFound
	}
	q := p.posts[number-1]
	switch {
	case q.token == "" || r.URL.Query().Get("upload_token") != q.token:
		return http.StatusForbidden
	case p.opts.Now().After(q.begun.Add(p.opts.UploadLife)):
		return http.StatusForbidden
	case !q.whole.IsZero():
		return http.StatusNotFound // it has ended
	}
	n := int64(len(data))
	last := q.got+n == q.size
	want := fmt.Sprintf("bytes %d-%d/%d", q.got, q.got+n-1, q.size)
	if n == 0 || r.Header.Get("Content-Range") != want || !last && n != q.chunk || r.Header.Get("Content-Type") == "" {
		return http.StatusRequestedRangeNotSatisfiable
	}
	q.got += n
	q.video = append(q.video, data...)
	if !last {
		return http.StatusPartialContent
	}
	q.SHA256, q.video, q.whole = sha256.Sum256(q.video), nil, p.opts.Now()
	return http.StatusCreated
}
