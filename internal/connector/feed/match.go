package feed

import (
	"crypto/sha256"
	"slices"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/lookup"
)

// Rules of this file, which is pure: given the pages, what do they prove?
//
//   - A read is complete when it reached so far behind the watermark that no post of ours
//     can follow, or the list's end (lookup.Search.Ended).
//   - A post is ours for certain if it has the content, was not there before, and was made
//     between watermark and fence by the platform's clock.
//   - A post that has the content and was made a little before the watermark, or after
//     the fence, may be ours: a person decides. A read lag can hide an old post from the
//     watermark, so "new to us" alone proves nothing.
//   - A platform may forget which post a reply answers, when that post is deleted. A post
//     that lacks only that may be ours, if no other is.

const (
	// slack is how far clocks and stamps may be apart.
	slack = time.Minute
	// rounding is the most that a platform takes off which stamps whole seconds.
	rounding = 2 * time.Second
)

var rules = lookup.Rules[post]{
	Platform: "the platform", Clock: "the platform's clock", Objects: "posts", Pages: "pages of posts",
	Disorder: "the posts are not listed newest first", Slack: slack, Rounding: rounding, MaxPages: MaxPages,
	ID:       func(p post) string { return p.id },
	External: func(p post) string { return p.id },
	Created:  func(p post) time.Time { return p.created },
	URL:      func(p post) string { return p.url },
}

// wording is how verdicts are put.
var wording = lookup.Wording{
	Object: "post", Objects: "posts", Missing: "this content",
	One:  "has this content, but its time is not that of the send, or it answers nothing; is it this one?",
	Many: "have this content",
}

// search looks for one post among the account's posts.
type search struct {
	lookup.Search[post]

	watermark watermark
	want      [sha256.Size]byte
	// orphan is the content without what it answers; nil: it answers nothing.
	orphan *[sha256.Size]byte
}

func newSearch(m watermark, want content, l connector.Look) *search {
	s := &search{Search: lookup.New(rules, m.Clocks, l), watermark: m, want: want.fingerprint()}
	if want.ReplyTo != "" {
		lost := fingerprint(want.Text, "")
		s.orphan = &lost
	}
	return s
}

// add takes the next page, read at local by our clock. done reports that nothing of
// ours can be on later pages. An error means that no verdict may rest on this
// read.
func (s *search) add(l listing, local time.Time) (done bool, err error) {
	switch {
	case l.account != s.watermark.Account:
		return false, connector.ErrForeign
	case !l.cursors:
		return false, errNoCursor
	}
	if err := s.Steady(l.now, local); err != nil {
		return false, err
	}
	if err := s.Add(l.posts, s.fit); err != nil {
		return false, err
	}
	return s.Ended(l.next != "", s.watermark.Seen)
}

func (s *search) fit(p post) lookup.Fit {
	orphan := s.orphan != nil && p.print == *s.orphan
	switch {
	case p.print != s.want && !orphan || slices.Contains(s.watermark.Seen, p.id):
		return lookup.Other
	case p.created.Before(s.watermark.At.Add(-slack)): // an old post
		return lookup.Other
	case orphan:
		return lookup.Alike
	case p.created.Before(s.watermark.From(p.created)), p.created.After(s.Until):
		return lookup.Uncertain
	default:
		return lookup.Sure
	}
}
