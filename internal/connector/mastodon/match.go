package mastodon

import (
	"slices"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/lookup"
)

// Rules of this file, which is pure: given the pages, what do they prove?
//
//   - A read is complete when it reached so far behind the watermark that no post of ours
//     can follow, or the list's end (lookup.Search.Ended).
//   - A post may be ours if it answers the same post, has as many files, is no boost, was
//     not there before, and was made between watermark and fence by the server's clock. A
//     post that was made a little before the watermark, or after the fence, needs a
//     person. Then the content decides (text.go).
//   - A server forgets which post a reply answers when that post is deleted, may leave out
//     files that it could not attach, and lets posts be edited. A post that lacks one of
//     these but is ours otherwise, or had other words before, needs a person.

const (
	// slack is how far clocks and stamps may be apart.
	slack = time.Minute
	// rounding is the most that a server takes off whose clock shows whole seconds.
	rounding = 2 * time.Second
	// opening is the longest time between watermark and arm.
	opening = 15 * time.Second
)

var rules = lookup.Rules[status]{
	Platform: "the server", Clock: "the server's clock", Objects: "posts", Pages: "pages of posts",
	Disorder: "the posts are not listed newest first", Slack: slack, Rounding: rounding, MaxPages: MaxPages,
	ID:       func(p status) string { return p.id },
	External: func(p status) string { return p.id },
	Created:  func(p status) time.Time { return p.created },
	URL:      func(p status) string { return p.url },
}

// wording is how verdicts are put.
var wording = lookup.Wording{
	Object: "post", Objects: "posts", Missing: "this content",
	One:  "may be this one, but its time, its words or what belongs to it are not quite those of the send; is it?",
	Many: "have this content",
}

// search looks for one post among the account's posts.
type search struct {
	lookup.Search[status]

	watermark watermark
	want      content
	// last is the id of the last post read: the next page starts behind it.
	last string
}

func newSearch(m watermark, want content, l connector.Look) *search {
	return &search{Search: lookup.New(rules, m.Clocks, l), watermark: m, want: want}
}

// add takes the next page, read at local by our clock. done reports that nothing of
// ours can be on later pages. An error means that no verdict may rest on this read.
func (s *search) add(l listing, local time.Time) (done bool, err error) {
	if err := s.Steady(l.now, local); err != nil {
		return false, err
	}
	if err := s.Add(l.statuses, s.fit); err != nil {
		return false, err
	}
	if n := len(l.statuses); n > 0 {
		s.last = l.statuses[n-1].id
	}
	return s.Ended(l.more, s.watermark.Seen)
}

// fit is what a post may be by all but its content.
func (s *search) fit(p status) lookup.Fit {
	replies, files := p.replyTo == s.want.ReplyTo, len(s.want.media)
	switch {
	case p.boost || !replies && p.replyTo != "" || p.files > files || slices.Contains(s.watermark.Seen, p.id):
		return lookup.Other
	case p.created.Before(s.watermark.At.Add(-slack)): // an old post
		return lookup.Other
	case !s.timely(p), !replies, p.files != files, p.edited:
		return lookup.Uncertain
	default:
		return lookup.Sure
	}
}

// timely reports whether a post was made between watermark and fence, by the server's
// clock.
func (s *search) timely(p status) bool {
	return !p.created.Before(s.watermark.From(p.created)) && !p.created.After(s.Until.Add(opening))
}

// rewritten reports whether a post that was edited may have had our words before. A post
// from another time, or that answers another post, must have our words now.
func (s *search) rewritten(p status) bool {
	return p.edited && p.replyTo == s.want.ReplyTo && s.timely(p)
}

// judge returns a post's fit by its content, too.
func judge(content likeness, before lookup.Fit) lookup.Fit {
	switch {
	case content == same && before == lookup.Sure:
		return lookup.Sure
	case content == near:
		return lookup.Alike
	case content != other:
		return lookup.Uncertain
	default:
		return lookup.Other
	}
}
