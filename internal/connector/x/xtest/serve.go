package xtest

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/text/unicode/norm"

	"github.com/fireonce/fireonce/internal/proof/loopback"
)

// maxRequest bounds a request's body, in bytes.
const maxRequest = 1 << 20

// receive counts a request and asks what becomes of it. A wrong token is refused
// whatever the plan.
func (p *Platform) receive(r *http.Request, text string) Answer {
	req := Request{Method: r.Method, Path: r.URL.Path, Text: text, Number: p.Count(r.Method + " " + r.URL.Path)}
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

// write serves a post or a direct message.
func (p *Platform) write(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Text  string `json:"text"`
		Reply struct {
			To string `json:"in_reply_to_tweet_id"`
		} `json:"reply"`
		Quote         string `json:"quote_tweet_id"`
		ReplySettings string `json:"reply_settings"`
		Media         struct {
			IDs []string `json:"media_ids"`
		} `json:"media"`
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxRequest))
	if err != nil {
		return // not the whole request: no effect
	}
	if err := json.Unmarshal(body, &in); err != nil || in.Text == "" && len(in.Media.IDs) == 0 {
		fail(w, http.StatusBadRequest, "Invalid Request", "One or more parameters to your request was invalid.", "")
		return
	}
	answer := p.receive(r, in.Text)
	if !answer.Commits() {
		p.refuse(w, answer)
		return
	}
	p.mu.Lock()
	o := Object{
		Text: in.Text, ReplyTo: in.Reply.To, Quote: in.Quote, ReplySettings: in.ReplySettings,
		Recipient: r.PathValue("user"), sender: p.opts.Account,
	}
	for _, id := range in.Media.IDs {
		for _, pic := range p.pictures {
			if pic.ID == id {
				o.Pictures = append(o.Pictures, pic)
			}
		}
	}
	if len(o.Pictures) != len(in.Media.IDs) {
		p.mu.Unlock()
		fail(w, http.StatusBadRequest, "Invalid Request", "Your media IDs are invalid.", "")
		return
	}
	if p.repeats(o) {
		p.mu.Unlock()
		fail(w, http.StatusForbidden, "Forbidden", "You are not allowed to create a Tweet with duplicate content.", "about:blank")
		return
	}
	o = p.commit(o)
	account := p.opts.Account
	p.mu.Unlock()
	switch {
	case answer == Reset:
		loopback.Reset(w)
	case answer == CommitFail:
		fail(w, http.StatusInternalServerError, "Internal Server Error", "Something is broken.", "about:blank")
	case answer == Nameless:
		loopback.JSON(w, http.StatusCreated, map[string]any{"data": map[string]any{}})
	case o.Recipient != "":
		loopback.JSON(w, http.StatusCreated, map[string]any{"data": map[string]any{"dm_conversation_id": account + "-" + o.Recipient, "dm_event_id": o.ID}})
	default:
		loopback.JSON(w, http.StatusCreated, map[string]any{"data": map[string]any{"id": o.ID, "text": o.Text, "edit_history_tweet_ids": []string{o.ID}}})
	}
}

// refuse answers a request that is not carried out.
func (p *Platform) refuse(w http.ResponseWriter, answer Answer) {
	switch answer {
	case Fail:
		fail(w, http.StatusServiceUnavailable, "Service Unavailable", "Service Unavailable", "about:blank")
	case RateLimit:
		p.mu.Lock()
		reset := p.now().Add(p.opts.ResetAfter).Unix()
		p.mu.Unlock()
		w.Header().Set("x-rate-limit-limit", "100")
		w.Header().Set("x-rate-limit-remaining", "0")
		w.Header().Set("x-rate-limit-reset", strconv.FormatInt(reset, 10))
		fail(w, http.StatusTooManyRequests, "Too Many Requests", "Too Many Requests", "about:blank")
	case Depleted:
		fail(w, http.StatusPaymentRequired, "CreditsDepleted",
			"Your enrolled account [1] does not have any credits to fulfill this request.", "https://api.twitter.com/2/problems/credits")
	case Unauthorized:
		fail(w, http.StatusUnauthorized, "Unauthorized", "Unauthorized", "about:blank")
	case Suspended:
		fail(w, http.StatusForbidden, "Forbidden", "Your account is suspended and is not permitted to access this feature.", "about:blank")
	case Forbid:
		fail(w, http.StatusForbidden, "Forbidden", "You are not permitted to perform this action.", "about:blank")
	default:
		loopback.Reset(w)
	}
}

// me serves GET /2/users/me.
func (p *Platform) me(w http.ResponseWriter, r *http.Request) {
	if answer := p.receive(r, ""); answer != Reply {
		p.refuse(w, answer)
		return
	}
	p.mu.Lock()
	data := map[string]any{"id": p.opts.Account, "name": "Ada", "username": p.opts.Username}
	p.mu.Unlock()
	loopback.JSON(w, http.StatusOK, map[string]any{"data": data})
}

// list serves a user's posts, and the events of a conversation, the newest first.
func (p *Platform) list(w http.ResponseWriter, r *http.Request) {
	if answer := p.receive(r, ""); answer != Reply {
		p.refuse(w, answer)
		return
	}
	q := r.URL.Query()
	size, err := strconv.Atoi(q.Get("max_results"))
	if err != nil || size < 1 || size > 100 {
		fail(w, http.StatusBadRequest, "Invalid Request", "One or more parameters to your request was invalid.", "")
		return
	}
	messages := strings.HasSuffix(r.URL.Path, "/dm_events")
	since, _ := strconv.ParseUint("0"+q.Get("since_id"), 10, 64)
	before, _ := strconv.ParseUint("0"+strings.TrimPrefix(q.Get("pagination_token"), "older-"), 10, 64)
	p.mu.Lock()
	defer p.mu.Unlock()
	size = min(size, p.opts.PageLimit)
	data, next := []map[string]any{}, ""
	for _, o := range slices.Backward(p.objects) {
		id, _ := strconv.ParseUint(o.ID, 10, 64)
		if o.deleted || p.opts.Now().Before(o.shown) || id <= since || before > 0 && id >= before ||
			messages != (o.Recipient != "") || messages && o.Recipient != r.PathValue("user") ||
			!messages && (o.sender != r.PathValue("user")) {
			continue
		}
		if len(data) == size {
			next = "older-" + data[size-1]["id"].(string)
			break
		}
		data = append(data, p.wire(o, q.Get("tweet.fields")+q.Get("dm_event.fields")))
	}
	meta := map[string]any{"result_count": len(data)}
	if next != "" {
		meta["next_token"] = next
	}
	answer := map[string]any{"meta": meta}
	if len(data) > 0 {
		answer["data"] = data
	}
	loopback.JSON(w, http.StatusOK, answer)
}

var linked = regexp.MustCompile(`(?i)\b(?:https?://)?(?:[a-z0-9-]+\.)+(?:com|co|org|net|example|io)(?:/[^\s\p{Z}]*)?`)

// wrap returns a text with its links wrapped, as X does, and the entities.
func (p *Platform) wrap(text string) (string, []map[string]any) {
	var urls []map[string]any
	text = linked.ReplaceAllStringFunc(norm.NFC.String(strings.TrimSpace(text)), func(link string) string {
		if strings.HasPrefix(link, "https://t.co/") {
			behind := p.opts.Behind[link]
			if behind == "" {
				behind = "https://elsewhere.example/behind"
			}
			urls = append(urls, map[string]any{"url": link, "expanded_url": behind})
			return link
		}
		h := fnv.New64a()
		_, _ = h.Write([]byte(link))
		short := fmt.Sprintf("https://t.co/%010d", h.Sum64()%1e10)
		if !strings.Contains(link, "://") {
			link = "http://" + link
		}
		urls = append(urls, map[string]any{"url": short, "expanded_url": link, "display_url": "…"})
		return short
	})
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(text), urls
}

// wire returns an object with the requested fields; the caller holds mu.
func (p *Platform) wire(o Object, fields string) map[string]any {
	raw := o.Text
	if p.opts.Rewrite != nil {
		raw = p.opts.Rewrite(raw)
	}
	if o.ReplyTo != "" {
		raw = "@somebody " + raw
	}
	if o.Quote != "" {
		raw += " https://twitter.com/somebody/status/" + o.Quote
	}
	if len(o.Pictures) > 0 {
		raw += " https://x.com/ada/status/" + o.ID + "/photo/1"
	}
	text, urls := p.wrap(raw)
	const shown = 280
	whole := text
	if long := []rune(text); len(long) > shown && o.Recipient == "" {
		text = string(long[:shown]) + "… https://t.co/0000000000"
	}
	out := map[string]any{"id": o.ID, "text": text}
	if strings.Contains(fields, "note_tweet") && text != whole {
		out["note_tweet"] = map[string]any{"text": whole, "entities": map[string]any{"urls": urls}}
	}
	if strings.Contains(fields, "entities") && len(urls) > 0 {
		out["entities"] = map[string]any{"urls": urls}
	}
	if o.Recipient != "" {
		out["event_type"], out["sender_id"] = "MessageCreate", o.sender
		return out
	}
	out["edit_history_tweet_ids"] = []string{o.ID}
	if len(o.history) > 0 {
		out["edit_history_tweet_ids"] = o.history
	}
	if strings.Contains(fields, "created_at") {
		out["created_at"] = o.Created.Format(time.RFC3339)
	}
	for _, u := range urls { // what a text leads to is quoted, or shown
		if m := leads.FindStringSubmatch(u["expanded_url"].(string)); m != nil && o.Quote == "" && len(o.Pictures) == 0 {
			if m[2] == "" {
				o.Quote = m[1]
			} else {
				o.Pictures = []Picture{{ID: m[1]}}
			}
		}
	}
	o.tell(out, fields)
	return out
}

var leads = regexp.MustCompile(`/status/([0-9]+)(/(?:photo|video)/[0-9])?`)

// tell adds what a post refers to.
func (o Object) tell(out map[string]any, fields string) {
	if len(o.Pictures) > 0 && strings.Contains(fields, "attachments") {
		var keys []string
		for _, pic := range o.Pictures {
			keys = append(keys, "3_"+pic.ID)
		}
		out["attachments"] = map[string]any{"media_keys": keys}
	}
	var refs []map[string]any
	if o.ReplyTo != "" {
		refs = append(refs, map[string]any{"type": "replied_to", "id": o.ReplyTo})
	}
	if o.Quote != "" {
		refs = append(refs, map[string]any{"type": "quoted", "id": o.Quote})
	}
	if len(refs) > 0 && strings.Contains(fields, "referenced_tweets") {
		out["referenced_tweets"] = refs
	}
}

// fail answers a problem (RFC 9457), as X does.
func fail(w http.ResponseWriter, status int, title, detail, kind string) {
	loopback.JSON(w, status, map[string]any{"title": title, "detail": detail, "type": kind, "status": status})
}
