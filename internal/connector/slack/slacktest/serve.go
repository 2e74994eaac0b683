package slacktest

import (
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fireonce/fireonce/internal/proof/loopback"
)

// maxRequest bounds a request's body, in bytes.
const maxRequest = 1 << 20

// receive counts a request and asks what becomes of it. A wrong token is refused
// whatever the plan.
func (p *Platform) receive(r *http.Request, text string) Answer {
	method := strings.TrimPrefix(r.URL.Path, "/")
	req := Request{Method: method, Text: text, Number: p.Count(method)}
	p.mu.Lock()
	plan, token := p.opts.Plan, p.opts.Token
	p.mu.Unlock()
	answer := Reply
	if plan != nil {
		answer = plan(req)
	}
	if token != "" && r.Header.Get("Authorization") != "Bearer "+token {
		return Unauthorized
	}
	return answer
}

// refuse answers a request that is not carried out.
func (p *Platform) refuse(w http.ResponseWriter, answer Answer) {
	p.mu.Lock()
	code, wait := p.opts.Code, max(1, int(p.opts.RetryAfter/time.Second))
	p.mu.Unlock()
	switch answer {
	case Fail:
		w.WriteHeader(http.StatusServiceUnavailable)
	case RateLimit:
		limit(w, wait)
	case Unauthorized:
		fail(w, "invalid_auth")
	case Code:
		fail(w, code)
	default:
		loopback.Reset(w)
	}
}

func limit(w http.ResponseWriter, seconds int) {
	w.Header().Set("Retry-After", strconv.Itoa(seconds))
	loopback.JSON(w, http.StatusTooManyRequests, map[string]any{"ok": false, "error": "ratelimited"})
}

// post serves chat.postMessage.
func (p *Platform) post(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Channel   string          `json:"channel"`
		Text      string          `json:"text"`
		Thread    string          `json:"thread_ts"`
		Broadcast bool            `json:"reply_broadcast"`
		Metadata  json.RawMessage `json:"metadata"`
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxRequest))
	if err != nil {
		return // not the whole request: no effect
	}
	if err := json.Unmarshal(body, &in); err != nil || in.Text == "" {
		fail(w, "no_text")
		return
	}
	answer := p.receive(r, in.Text)
	if !answer.Commits() {
		p.refuse(w, answer)
		return
	}
	p.mu.Lock()
	for _, m := range p.messages { // an answer to an answer goes to its thread
		if m.Channel == in.Channel && m.TS == in.Thread && m.Thread != "" {
			in.Thread = m.Thread
		}
	}
	m := p.commit(Message{
		Channel: in.Channel, Thread: in.Thread, Text: in.Text, Broadcast: in.Broadcast, Metadata: in.Metadata, User: p.opts.User, Bot: p.opts.Bot,
	})
	wire := p.wire(m)
	p.mu.Unlock()
	switch answer {
	case Reset:
		loopback.Reset(w)
	case CommitFail:
		w.WriteHeader(http.StatusInternalServerError)
	case Fatal:
		fail(w, "fatal_error")
	case Nameless:
		loopback.JSON(w, http.StatusOK, map[string]any{"ok": true})
	default:
		loopback.JSON(w, http.StatusOK, map[string]any{"ok": true, "channel": m.Channel, "ts": m.TS, "message": wire})
	}
}

// open serves conversations.open: the conversation with a person, the same each time.
func (p *Platform) open(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Users string `json:"users"`
	}
	if json.NewDecoder(io.LimitReader(r.Body, maxRequest)).Decode(&in) != nil || in.Users == "" {
		fail(w, "users_list_not_supplied")
		return
	}
	if answer := p.receive(r, ""); answer != Reply {
		p.refuse(w, answer)
		return
	}
	p.mu.Lock()
	if p.chats[in.Users] == "" {
		p.chats[in.Users] = "D" + strconv.Itoa(len(p.chats)+1)
	}
	id := p.chats[in.Users]
	p.mu.Unlock()
	loopback.JSON(w, http.StatusOK, map[string]any{"ok": true, "channel": map[string]any{"id": id}})
}

// test serves auth.test.
func (p *Platform) test(w http.ResponseWriter, r *http.Request) {
	if answer := p.receive(r, ""); answer != Reply {
		p.refuse(w, answer)
		return
	}
	p.mu.Lock()
	out := map[string]any{"ok": true, "url": "https://words.slack.example/", "team_id": p.opts.Team, "user_id": p.opts.User}
	if p.opts.Bot != "" {
		out["bot_id"] = p.opts.Bot
	}
	p.mu.Unlock()
	loopback.JSON(w, http.StatusOK, out)
}

// list serves conversations.history, the newest first, and conversations.replies, the
// oldest first and with the thread's first message on each page.
func (p *Platform) list(w http.ResponseWriter, r *http.Request) {
	if answer := p.receive(r, ""); answer != Reply {
		p.refuse(w, answer)
		return
	}
	q := r.URL.Query()
	thread := q.Get("ts")
	size, err := strconv.Atoi(q.Get("limit"))
	from, err2 := strconv.Atoi("0" + strings.TrimPrefix(q.Get("cursor"), "from-"))
	if err != nil || err2 != nil || size < 1 || strings.HasSuffix(r.URL.Path, "replies") != (thread != "") {
		fail(w, "invalid_limit")
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.opts.Now()
	where := r.URL.Path + " " + q.Get("channel")
	if last, been := p.readAt[where]; been && now.Sub(last) < p.opts.ReadEvery {
		limit(w, int((p.opts.ReadEvery-now.Sub(last))/time.Second)+1)
		return
	}
	p.readAt[where] = now
	first, found := p.listed(q.Get("channel"), thread, q.Get("oldest"), now)
	from = min(from, len(found))
	to := min(from+min(size, p.opts.PageLimit), len(found))
	messages := []map[string]any{}
	for _, m := range slices.Concat(first, found[from:to]) {
		wire := p.wire(m)
		if p.opts.NoMetadata || q.Get("include_all_metadata") != "true" {
			delete(wire, "metadata")
		}
		messages = append(messages, wire)
	}
	out := map[string]any{"ok": true, "messages": messages, "has_more": to < len(found)}
	if to < len(found) {
		out["response_metadata"] = map[string]any{"next_cursor": "from-" + strconv.Itoa(to)}
	}
	loopback.JSON(w, http.StatusOK, out)
}

// listed returns a thread's first message, and what is listed beside it; the caller
// holds mu.
func (p *Platform) listed(channel, thread, oldest string, now time.Time) (first, found []Message) {
	for _, m := range p.messages {
		switch {
		case m.Channel != channel || m.deleted || now.Before(m.shown):
		case m.TS == thread:
			first = append(first, m)
		case thread != m.Thread && (thread != "" || !m.Broadcast):
		case m.TS > oldest:
			found = append(found, m)
		}
	}
	if thread == "" {
		slices.Reverse(found)
	}
	return first, found
}

var (
	escape = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")
	links  = regexp.MustCompile(`https?://[^\s\pZ<>|]+`)
	hosts  = regexp.MustCompile(`(^|[\s\pZ])([a-z]+@)?([a-z]+\.com)\b`)
	emoji  = strings.NewReplacer("\U0001f600", ":grinning:", "1\ufe0f\u20e3", ":one:", "\u2139\ufe0f", ":information_source:", "\u2122", ":tm:")
)

// wire returns a message as the API shows it; the caller holds mu. Slack escapes, marks
// links up, makes links of host names and addresses, and names emoji.
func (p *Platform) wire(m Message) map[string]any {
	text := links.ReplaceAllString(escape.Replace(m.Text), "<$0>")
	text = hosts.ReplaceAllStringFunc(text, func(found string) string {
		m, scheme := hosts.FindStringSubmatch(found), "http://"
		if m[2] != "" {
			scheme = "mailto:"
		}
		return m[1] + "<" + scheme + m[2] + m[3] + "|" + m[2] + m[3] + ">"
	})
	out := map[string]any{"type": "message", "ts": m.TS, "user": m.User, "text": emoji.Replace(text)}
	if m.Bot != "" {
		out["bot_id"] = m.Bot
	}
	if m.Thread != "" {
		out["thread_ts"] = m.Thread
	}
	if len(m.Metadata) > 0 {
		out["metadata"] = m.Metadata
	}
	return out
}

// fail answers as Slack refuses: 200, and a code.
func fail(w http.ResponseWriter, code string) {
	loopback.JSON(w, http.StatusOK, map[string]any{"ok": false, "error": code})
}
