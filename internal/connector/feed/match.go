package feed

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
)

// Rules of this file, which is pure: given the pages, what do they prove?
//
//   - Complete is a read that came so far behind the watermark that nothing of ours
//     can come any more, or to the list's end. It is time that ends a read, never a
//     post: an empty feed has none to stop at, and one may be deleted, or stamped by
//     a server whose clock is ahead. A list that ends without anything that was there
//     at the watermark, though something was, is cut short.
//   - Ours for sure is what has the content, was not there before, and was made
//     between watermark and fence by the platform's clock.
//   - What has the content and was made a little before the watermark, or after the
//     fence, may be ours: a person decides. A read lag can hide an old post from the
//     watermark, so "new to us" alone proves nothing.
//   - A platform may forget what a post answers, when that is deleted. What lacks only
//     that may be ours, if nothing else is.
//   - Clocks are believed only as far as they can be checked: between watermark and
//     look the platform's clock and ours must have gone on alike.

// slack is how far clocks and stamps may be apart.
const slack = time.Minute

// rounding is what a platform that stamps whole seconds takes off.
const rounding = 2 * time.Second

// Why a read proves nothing.
var (
	errForeign  = errors.New("the credential belongs to another account than at the send")
	errUnsteady = errors.New("the platform's clock, or ours, was set since the send; times cannot be compared")
	errDisorder = errors.New("the posts are not listed newest first")
	errShifted  = errors.New("a page shifted while it was read")
	errCutShort = errors.New("the list of posts ends before the place where it was at the send")
)

// search looks for one post among the account's posts.
type search struct {
	mark mark
	want [sha256.Size]byte
	// orphan is the content without what it answers; nil: it answers nothing.
	orphan *[sha256.Size]byte
	look   connector.Look
	// until is the fence, by the platform's clock: the post was made before.
	until time.Time

	ids             map[string]bool // read so far
	began           time.Time       // the platform's clock at the first page
	oldest          time.Time
	sure, uncertain []post
	orphans         []post
}

func newSearch(m mark, want content, l connector.Look) *search {
	s := &search{mark: m, want: want.fingerprint(), look: l, until: l.Until(m.At, m.At), ids: make(map[string]bool)}
	if want.ReplyTo != "" {
		lost := fingerprint(want.Text, "")
		s.orphan = &lost
	}
	return s
}

// add takes the next page, read at local by our clock. done tells that nothing of
// ours can be on later pages. An error means that no verdict may rest on this
// read.
func (s *search) add(l listing, local time.Time) (done bool, err error) {
	switch {
	case l.account != s.mark.Account:
		return false, errForeign
	case !l.cursors:
		return false, errNoCursor
	}
	if apart := l.now.Sub(s.mark.At) - local.Sub(s.mark.Local); apart > slack || apart < -slack {
		return false, errUnsteady
	}
	if s.began.IsZero() {
		s.began, s.until = l.now, s.look.Until(s.mark.At, l.now)
	}
	for _, p := range l.posts {
		switch {
		case s.ids[p.id]:
			return false, errShifted
		case !s.oldest.IsZero() && p.created.After(s.oldest.Add(slack)):
			return false, errDisorder
		}
		s.ids[p.id] = true
		if s.oldest.IsZero() || p.created.Before(s.oldest) {
			s.oldest = p.created
		}
		s.match(p)
	}
	if !s.oldest.IsZero() && s.oldest.Before(s.mark.At.Add(-2*slack)) {
		return true, nil // what follows is at most slack newer
	}
	if l.next == "" && !s.reached() {
		return false, errCutShort
	}
	return l.next == "", nil
}

// reached tells whether the read came to the place where the list was at the
// watermark.
func (s *search) reached() bool {
	return len(s.mark.Seen) == 0 || s.oldest.Before(s.mark.At) && !s.oldest.IsZero() ||
		slices.ContainsFunc(s.mark.Seen, func(id string) bool { return s.ids[id] })
}

func (s *search) match(p post) {
	orphan := s.orphan != nil && p.print == *s.orphan
	if p.print != s.want && !orphan || slices.Contains(s.mark.Seen, p.id) {
		return
	}
	from := s.mark.At
	if p.created.Nanosecond() == 0 { // stamped in whole seconds
		from = from.Truncate(time.Second)
	}
	switch {
	case p.created.Before(s.mark.At.Add(-slack)): // an old post
	case orphan:
		s.orphans = append(s.orphans, p)
	case p.created.Before(from), p.created.After(s.until):
		s.uncertain = append(s.uncertain, p)
	default:
		s.sure = append(s.sure, p)
	}
}

// late tells whether the read began after the fence, by the platform's clock. An
// answer from a cache may be older than the look.
func (s *search) late() bool { return !s.began.Before(s.until.Add(-rounding)) }

// drop takes out posts that are other jobs'.
func (s *search) drop(taken map[string]bool) {
	gone := func(p post) bool { return taken[p.id] }
	s.sure = slices.DeleteFunc(s.sure, gone)
	s.uncertain = slices.DeleteFunc(s.uncertain, gone)
	s.orphans = slices.DeleteFunc(s.orphans, gone)
}

// found gives the ids of all that could be ours.
func (s *search) found() []string {
	if len(s.sure) > 0 {
		return idsOf(s.sure, s.uncertain)
	}
	return idsOf(s.uncertain, s.orphans)
}

func idsOf(posts ...[]post) []string {
	var ids []string
	for _, p := range slices.Concat(posts...) {
		ids = append(ids, p.id)
	}
	return ids
}

// naming bounds how many candidates a message names.
const naming = 5

// names lists candidates for a person.
func names(ids []string) string {
	if len(ids) <= naming {
		return strings.Join(ids, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(ids[:naming], ", "), len(ids)-naming)
}
