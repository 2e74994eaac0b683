package feedtest

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fireonce/fireonce/internal/proof/loopback"
)

// maxRequest bounds a request's body, in bytes.
const maxRequest = 1 << 20

// line is one line of the journal. At is by Options.Now.
type line struct {
	Event   string    `json:"event"` // "request" or "effect"
	Method  string    `json:"method,omitempty"`
	Text    string    `json:"text,omitempty"`
	ReplyTo string    `json:"in_reply_to,omitempty"`
	ID      string    `json:"id,omitempty"`
	Number  int       `json:"number"`
	At      time.Time `json:"at"`
}

// journal writes one line with one write; the caller holds mu.
func (p *Platform) journal(l line) {
	if p.opts.Journal == nil {
		return
	}
	text, err := json.Marshal(l)
	if err == nil {
		_, err = p.opts.Journal.Write(append(text, '\n'))
	}
	if err != nil {
		panic(errors.Join(errors.New("feedtest: the journal cannot be written"), err))
	}
}

// create serves POST /posts.
func (p *Platform) create(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxRequest))
	if err != nil {
		return // not the whole request: no effect
	}
	var in Post
	if err := json.Unmarshal(body, &in); err != nil || in.Text == "" {
		fail(w, http.StatusBadRequest, "not a post")
		return
	}
	req, stop := p.receive(r, in)
	defer stop()
	answer := p.plan(r, req)
	if !answer.Commits() {
		p.refuse(w, req, answer)
		return
	}
	post := p.commit(Post{Text: in.Text, ReplyTo: in.ReplyTo, Language: in.Language})
	if p.opts.Committed != nil {
		p.opts.Committed(req, post)
	}
	switch answer {
	case Reset:
		loopback.Reset(w)
	case Silence:
		<-req.Gone
		loopback.Reset(w)
	case CommitFail:
		fail(w, http.StatusInternalServerError, "something went wrong")
	case Truncate:
		truncate(w, http.StatusCreated, post)
	case Nameless:
		say(w, http.StatusCreated, struct{}{})
	default:
		say(w, http.StatusCreated, post)
	}
}

// receive counts a request. stop ends what watches for its client.
func (p *Platform) receive(r *http.Request, in Post) (Request, func()) {
	req := Request{Method: r.Method, Text: in.Text, ReplyTo: in.ReplyTo}
	var stop func()
	req.Gone, stop = p.Gone(r)
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.Method == http.MethodPost {
		req.Number = p.Count(in.Text)
	} else {
		p.listings++
		req.Number = p.listings
	}
	p.journal(line{Event: "request", Method: r.Method, Text: in.Text, ReplyTo: in.ReplyTo, Number: req.Number, At: p.opts.Now()})
	return req, stop
}

// plan asks what happens to a request. A wrong token is refused whatever the plan.
func (p *Platform) plan(r *http.Request, req Request) Answer {
	answer := Reply
	if p.opts.Plan != nil {
		answer = p.opts.Plan(req)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.token != "" && r.Header.Get("Authorization") != "Bearer "+p.token {
		return Unauthorized
	}
	return answer
}

// refuse answers a request that is not carried out.
func (p *Platform) refuse(w http.ResponseWriter, req Request, answer Answer) {
	switch answer {
	case DropSilently:
		<-req.Gone
		loopback.Reset(w)
	case Fail:
		fail(w, http.StatusServiceUnavailable, "try again later")
	case RateLimit:
		w.Header().Set("Retry-After", strconv.Itoa(max(1, int(p.opts.RetryAfter/time.Second))))
		fail(w, http.StatusTooManyRequests, "too many requests")
	case Unauthorized:
		fail(w, http.StatusUnauthorized, "this token is not valid")
	case Forbid:
		fail(w, http.StatusForbidden, "this token may not do that")
	case Refuse:
		fail(w, http.StatusUnprocessableEntity, "this post is not wanted")
	default:
		loopback.Reset(w)
	}
}

// page is the answer to GET /posts.
type page struct {
	Account string    `json:"account"`
	Now     time.Time `json:"now"`
	Posts   []Post    `json:"posts"`
}

// cursorPage has in next the start of the next page; null: there is none.
type cursorPage struct {
	page
	Next *string `json:"next"`
}

// offsetPage has the number of posts.
type offsetPage struct {
	page
	Offset int `json:"offset"`
	Total  int `json:"total"`
}

// list serves GET /posts.
func (p *Platform) list(w http.ResponseWriter, r *http.Request) {
	req, stop := p.receive(r, Post{})
	defer stop()
	answer := p.plan(r, req)
	if !answer.Commits() {
		p.refuse(w, req, answer)
		return
	}
	found, ok := p.find(r)
	switch {
	case answer == Reset:
		loopback.Reset(w)
	case answer == Silence:
		<-req.Gone
		loopback.Reset(w)
	case answer == CommitFail:
		fail(w, http.StatusInternalServerError, "something went wrong")
	case answer == Nameless:
		say(w, http.StatusOK, struct{}{})
	case !ok:
		fail(w, http.StatusBadRequest, "not a page")
	case answer == Truncate:
		truncate(w, http.StatusOK, found)
	default:
		say(w, http.StatusOK, found)
	}
}

// find returns one page, newest first.
func (p *Platform) find(r *http.Request) (any, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.opts.Now()
	limit := p.opts.PageLimit
	if text := r.URL.Query().Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return nil, false
		}
		limit = min(limit, n)
	}
	out := page{Account: p.account, Now: now.Add(p.offset).UTC(), Posts: []Post{}}
	if p.paging == ByOffset {
		offset, err := strconv.Atoi("0" + r.URL.Query().Get("offset"))
		if err != nil {
			return nil, false
		}
		listed := p.listed(now, len(p.posts), len(p.posts))
		from := min(offset, len(listed))
		out.Posts = append(out.Posts, listed[from:min(from+limit, len(listed))]...)
		return offsetPage{page: out, Offset: offset, Total: len(listed)}, true
	}
	older, ok := p.before(r.URL.Query().Get("before"))
	if !ok {
		return nil, false
	}
	listed := p.listed(now, older, limit+1)
	to := min(limit, len(listed))
	out.Posts = append(out.Posts, listed[:to]...)
	answer := cursorPage{page: out}
	if to < len(listed) {
		answer.Next = &listed[to-1].ID
	}
	return answer, true
}

// before returns how many posts are older than a cursor, which is the id of a post,
// also of one that is no longer listed; false: it is no cursor. The caller holds mu.
func (p *Platform) before(cursor string) (int, bool) {
	if cursor == "" {
		return len(p.posts), true
	}
	n, err := strconv.Atoi(strings.TrimPrefix(cursor, idPrefix))
	if err != nil || n < 1 || n > len(p.posts) || p.posts[n-1].ID != cursor {
		return 0, false
	}
	return n - 1, true
}

// listed returns the newest of the oldest n posts that are listed, limit of them
// at most; the caller holds mu.
func (p *Platform) listed(now time.Time, n, limit int) []Post {
	var out []Post
	for _, e := range slices.Backward(p.posts[:n]) {
		if len(out) == limit {
			break
		}
		if !e.deleted && !now.Before(e.shown) {
			out = append(out, e.Post)
		}
	}
	return out
}

func say(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // a client that is gone is no news
}

func fail(w http.ResponseWriter, status int, why string) {
	say(w, status, map[string]string{"error": why})
}

// truncate promises the whole body and sends half of it.
func truncate(w http.ResponseWriter, status int, body any) {
	text, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(status)
	_, _ = w.Write(text[:len(text)/2])
	_ = http.NewResponseController(w).Flush()
	loopback.Reset(w)
}
