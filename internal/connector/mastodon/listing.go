package mastodon

import (
	"encoding/json"
	"errors"
	"net/url"
	"strings"
	"time"

	"github.com/fireonce/fireonce/internal/connector/kit"
	"github.com/fireonce/fireonce/internal/connector/transport"
)

// maxStatuses bounds the posts of one page, whatever was asked for.
const maxStatuses = 500

var errNotListing = errors.New("the server's answer is not a list of posts")

// status is a post as the server returns it.
type status struct {
	id, url, replyTo string
	created          time.Time
	boost            bool
	files            int
	warning, html    string
	// edited reports that it had other words before.
	edited bool
}

// listing is one page of the account's posts, the newest first.
type listing struct {
	now      time.Time // by the server's clock
	statuses []status
	more     bool // there may be older ones
}

// wireStatus is a post in JSON. Pointers tell what is missing from what is empty.
type wireStatus struct {
	ID      string          `json:"id"`
	URL     string          `json:"url"`
	Created *time.Time      `json:"created_at"`
	ReplyTo *string         `json:"in_reply_to_id"`
	Warning string          `json:"spoiler_text"`
	Content *string         `json:"content"`
	Boosted json.RawMessage `json:"reblog"`
	Files   []struct{}      `json:"media_attachments"`
	Edited  json.RawMessage `json:"edited_at"`
}

func (w wireStatus) status() status {
	s := status{id: w.ID, url: kit.WebURL(w.URL), warning: w.Warning, boost: given(w.Boosted)}
	s.files, s.edited = len(w.Files), given(w.Edited)
	if w.ReplyTo != nil {
		s.replyTo = *w.ReplyTo
	}
	if w.Created != nil {
		s.created = *w.Created
	}
	if w.Content != nil {
		s.html = *w.Content
	}
	return s
}

// given reports whether a field is there, and not null.
func given(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// parseStatus reads the answer to a post.
func parseStatus(body []byte) (status, error) {
	var in wireStatus
	if err := json.Unmarshal(body, &in); err != nil {
		return status{}, err
	}
	if !validID(in.ID) {
		return status{}, errors.New("no id")
	}
	return in.status(), nil
}

// parseListing reads a page of at most limit posts. It requires everything that a
// verdict rests on: a post whose id, time or content cannot be read could be the one
// that the look wants. local replaces the clock of a server that does not send its own.
func parseListing(a transport.Response, limit int, local time.Time) (listing, error) {
	var in *[]wireStatus
	if err := json.Unmarshal(a.Excerpt, &in); err != nil || in == nil || len(*in) > maxStatuses {
		return listing{}, errNotListing
	}
	out := listing{now: local, statuses: make([]status, 0, len(*in))}
	if said := a.Header.Get("Date"); said != "" {
		at, err := time.Parse("Mon, 02 Jan 2006 15:04:05 GMT", said)
		if err != nil {
			return listing{}, errNotListing
		}
		out.now = at
	}
	for _, w := range *in {
		if !validID(w.ID) || w.Created == nil || w.Content == nil {
			return listing{}, errNotListing
		}
		out.statuses = append(out.statuses, w.status())
	}
	// A full page has a next one, and so has a page with a link to one: a server may leave
	// out posts of a page after it has cut it.
	out.more = len(out.statuses) > 0 && (len(out.statuses) >= limit || hasNext(a.Header.Values("Link")))
	return out, nil
}

// hasNext reports whether a page names one with older posts (RFC 8288).
func hasNext(links []string) bool {
	for _, l := range links {
		for part := range strings.SplitSeq(l, ",") {
			target, params, _ := strings.Cut(part, ";")
			u, err := url.Parse(strings.Trim(strings.TrimSpace(target), "<>"))
			if err == nil && strings.Contains(params, `rel="next"`) && u.Query().Get("max_id") != "" {
				return true
			}
		}
	}
	return false
}
