package mastodon

import (
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
//     post: an account may have none to stop at, and one may be deleted. A list that
//     ends without anything that was there at the watermark, though something was, is
//     cut short.
//   - Ours may be what answers the same post, has as many files, is no boost, was not there before, and
//     was made between watermark and fence by the server's clock; what was made a
//     little before the watermark, or after the fence, needs a person. Then the
//     content decides (text.go).
//   - A server forgets what a post answers when that is deleted, may leave out files that
//     it could not attach, and lets posts be edited. What lacks one of these but is ours
//     otherwise, or had other words before, needs a person.
//   - Clocks are believed only as far as they can be checked: between watermark and
//     look the server's clock and ours must have gone on alike.

const (
	// slack is how far clocks and stamps may be apart.
	slack = time.Minute
	// rounding is what a server that tells its clock in whole seconds takes off.
	rounding = 2 * time.Second
	// opening is what may lie between watermark and arm.
	opening = 15 * time.Second
)

// Why a read proves nothing.
var (
	errUnsteady = errors.New("the server's clock, or ours, was set since the send; times cannot be compared")
	errDisorder = errors.New("the posts are not listed newest first")
	errShifted  = errors.New("a page shifted while it was read")
	errCutShort = errors.New("the list of posts ends before the place where it was at the send")
)

// search looks for one post among the account's posts.
type search struct {
	mark    mark
	replyTo string
	files   int
	look    connector.Look

	ids    map[string]bool // read so far
	began  time.Time       // the server's clock at the first page
	fence  time.Time       // by that clock
	oldest time.Time
	// last is the id of the last post read: the next page starts behind it.
	last string
	// alike are those that are like ours but for marks. A server that changes marks
	// changes ours, too: beside one that is sure they count for nothing.
	sure, uncertain, alike []status
}

func newSearch(m mark, want content, l connector.Look) *search {
	return &search{mark: m, replyTo: want.ReplyTo, files: len(want.media), look: l, ids: make(map[string]bool)}
}

// add takes the next page, read at local by our clock. done tells that nothing of
// ours can be on later pages. An error means that no verdict may rest on this read.
func (s *search) add(l listing, local time.Time) (done bool, err error) {
	if apart := l.now.Sub(s.mark.At) - local.Sub(s.mark.Local); apart > slack || apart < -slack {
		return false, errUnsteady
	}
	if s.began.IsZero() {
		s.began, s.fence = l.now, s.look.Until(s.mark.At, l.now)
	}
	for _, p := range l.statuses {
		switch {
		case s.ids[p.id]:
			return false, errShifted
		case !s.oldest.IsZero() && p.created.After(s.oldest.Add(slack)):
			return false, errDisorder
		}
		s.ids[p.id], s.last = true, p.id
		if s.oldest.IsZero() || p.created.Before(s.oldest) {
			s.oldest = p.created
		}
		s.match(p)
	}
	switch {
	case !s.oldest.IsZero() && s.oldest.Before(s.mark.At.Add(-2*slack)):
		return true, nil // what follows is at most slack newer
	case l.more:
		return false, nil
	case !s.reached():
		return false, errCutShort
	}
	return true, nil
}

// reached tells whether the read came to the place where the list was at the
// watermark.
func (s *search) reached() bool {
	return len(s.mark.Seen) == 0 || s.oldest.Before(s.mark.At) && !s.oldest.IsZero() ||
		slices.ContainsFunc(s.mark.Seen, func(id string) bool { return s.ids[id] })
}

func (s *search) match(p status) {
	replies, files := p.replyTo == s.replyTo, p.files == s.files
	if p.boost || !replies && p.replyTo != "" || p.files > s.files || slices.Contains(s.mark.Seen, p.id) {
		return
	}
	from := s.mark.At
	if p.created.Nanosecond() == 0 { // stamped in whole seconds
		from = from.Truncate(time.Second)
	}
	switch {
	case p.created.Before(s.mark.At.Add(-slack)): // an old post
	case p.created.Before(from), p.created.After(s.fence.Add(opening)):
		p.edited = false // its words of today would have to be ours
		s.uncertain = append(s.uncertain, p)
	case !replies, !files, p.edited:
		p.edited = p.edited && replies
		s.uncertain = append(s.uncertain, p)
	default:
		s.sure = append(s.sure, p)
	}
}

// late tells whether the read began after the fence, by the server's clock. An
// answer from a cache may be older than the look.
func (s *search) late() bool { return !s.began.Before(s.fence.Add(-rounding)) }

// keep keeps of the posts those that judge takes for ours, or may.
func (s *search) keep(judge func(status) (likeness, error)) error {
	var sure, uncertain, alike []status
	for i, p := range slices.Concat(s.sure, s.uncertain) {
		like, err := judge(p)
		switch {
		case err != nil:
			return err
		case like == same && i < len(s.sure):
			sure = append(sure, p)
		case like == near:
			alike = append(alike, p)
		case like != other:
			uncertain = append(uncertain, p)
		}
	}
	s.sure, s.uncertain, s.alike = sure, uncertain, alike
	return nil
}

// drop takes out posts that are other jobs'.
func (s *search) drop(taken map[string]bool) {
	gone := func(p status) bool { return taken[p.id] }
	s.sure = slices.DeleteFunc(s.sure, gone)
	s.uncertain = slices.DeleteFunc(s.uncertain, gone)
	s.alike = slices.DeleteFunc(s.alike, gone)
}

// found gives the ids of all that could be ours.
func (s *search) found() []string {
	if len(s.sure) > 0 {
		return idsOf(s.sure, s.uncertain)
	}
	return idsOf(s.uncertain, s.alike)
}

func idsOf(posts ...[]status) []string {
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
