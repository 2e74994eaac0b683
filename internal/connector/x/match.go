package x

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/job"
)

// Rules of this file, which is pure: given the pages, what do they prove?
//
//   - Times are the ids' own, to the millisecond, and X's clock when it answers.
//     Between watermark and look that clock and ours must have gone on alike.
//   - Complete is a read of every page down to the watermark less slack. X lists the
//     latest 3,200 posts of an account at most: a list that long may be cut short.
//   - Ours for sure is what has the content and was made between watermark and fence.
//   - What has the content and was made a little before or after that, what is alike
//     but not the same, and what was edited since, may be ours: a person decides. What
//     differs in marks is not, if another one is ours for sure.
//   - X's refusal of a duplicate says that the content is there: what has it and is older,
//     back to duplicateReach, may be ours, of a job that a lost database knew. If nothing
//     explains the refusal, not even another job's object, nothing is proven: a person
//     decides, after as many complete reads as prove an absence. What was refused has
//     made no object, whenever one was made.

const (
	// slack is how far clocks may be apart.
	slack = time.Minute
	// rounding is what whole seconds take off, here and at the watermark.
	rounding = 2 * time.Second
	// duplicateReach is how far before the watermark a duplicate is looked for. X says
	// not for how long it refuses them.
	duplicateReach = 72 * time.Hour
	// mostListed is how many posts of an account X lists.
	mostListed = 3200
)

// Why a read proves nothing.
var (
	errUnsteady = errors.New("the clock of X, or ours, was set since the send; times cannot be compared")
	errDisorder = errors.New("the messages are not listed newest first")
	errShifted  = errors.New("a page shifted while it was read")
	errCutShort = errors.New("more posts since the send than X lists")
	errNoClock  = errors.New("the answer of X does not say its time")
)

// search looks for one object among the account's.
type search struct {
	mark mark
	want content
	look connector.Look
	// until is when the object may have been made at the latest, by X's clock: the
	// fence. It is known with the first page.
	until time.Time

	ids             map[string]bool // read so far
	began           time.Time       // X's clock at the first page
	oldest          uint64
	sure, uncertain []object
	// alike are those that are like ours but for marks. If X changed marks it would
	// change ours, too: beside one that is sure they count for nothing. So do those that
	// a refused duplicate may have met.
	alike []object
	// duplicate says that X has refused an attempt as a duplicate, everyOne that it has
	// refused each.
	duplicate, everyOne bool
	// unexplained says that the last attempt was, and nothing is known of it but that.
	unexplained bool
}

func newSearch(m mark, want content, l connector.Look) *search {
	s := &search{mark: m, want: want, look: l, until: l.Until(m.At, m.At), ids: make(map[string]bool)}
	s.duplicate = slices.ContainsFunc(l.Attempts, asDuplicate)
	s.everyOne = s.duplicate && !slices.ContainsFunc(l.Attempts, func(a job.Attempt) bool { return !asDuplicate(a) })
	s.unexplained = slices.ContainsFunc(l.Attempts, func(a job.Attempt) bool { return asDuplicate(a) && a.Result == job.ResultUnknown })
	return s
}

// from is the time from which on objects are read.
func (s *search) from() time.Time {
	if s.duplicate {
		return s.mark.At.Add(-duplicateReach)
	}
	return s.mark.At.Add(-slack)
}

// floor is the id from which on objects are read.
func (s *search) floor() uint64 { return idAt(s.from()) }

// steady holds X's clock, read at local by ours, against the watermark's.
func (s *search) steady(now, local time.Time) error {
	if apart := now.Sub(s.mark.At) - local.Sub(s.mark.Local); apart > slack || apart < -slack {
		return errUnsteady
	}
	if s.began.IsZero() {
		s.began, s.until = now, s.look.Until(s.mark.At, now)
	}
	return nil
}

// add takes the next page. done tells that nothing of ours can be on later pages.
// An error means that no verdict may rest on this read.
func (s *search) add(l listing) (done bool, err error) {
	for _, o := range l.objects {
		if s.ids[o.id] {
			return false, errShifted
		}
		s.ids[o.id] = true
		if s.want.Recipient != "" && s.oldest != 0 && o.number > idAt(idTime(s.oldest).Add(slack)) {
			return false, errDisorder
		}
		if s.oldest == 0 || o.number < s.oldest {
			s.oldest = o.number
		}
		s.match(o)
	}
	switch {
	case l.next == "":
		if len(s.ids) >= mostListed && s.want.Recipient == "" {
			return false, errCutShort
		}
		return true, nil
	case s.want.Recipient != "" && s.oldest != 0 && s.oldest < idAt(s.from().Add(-slack)):
		return true, nil // what follows is at most slack newer
	default:
		return false, nil
	}
}

func idTime(id uint64) time.Time { return time.UnixMilli(int64(id>>22) + idEpoch) }

func (s *search) match(o object) {
	ours := o.sender == s.mark.Account
	if s.want.Recipient == "" {
		ours = !o.repost
	}
	if !ours || o.number < s.floor() {
		return
	}
	switch fit := s.fits(o); {
	case fit == differs:
	case fit == near || o.at.Before(s.mark.At.Add(-slack)):
		s.alike = append(s.alike, o)
	case fit == same && !s.everyOne && !o.at.Before(s.mark.At) && !o.at.After(s.until):
		s.sure = append(s.sure, o)
	default:
		s.uncertain = append(s.uncertain, o)
	}
}

// fits says how well an object fits what is wanted.
func (s *search) fits(o object) likeness {
	answers := o.replyTo == s.want.ReplyTo
	made, _, edited := timeOf(o.origin)
	switch {
	case edited && made.Before(s.mark.At.Add(-slack)):
		return differs // an old post, edited
	case edited && answers && !made.Before(s.mark.At) && !made.After(s.until):
		return similar // it was another text before
	}
	fit := o.text.like(s.want)
	quotes, pictures := o.shows(s.want)
	switch {
	case edited && fit == same:
		return similar
	case fit == differs || answers && quotes && pictures:
		return fit
	case (answers || o.replyTo == "") && (quotes || o.quote == "") && (pictures || o.pictures < len(s.want.Pictures)):
		return similar // what it answers or quotes may be gone, or pictures of it, or not told of
	default:
		return differs
	}
}

// shows tells whether an object has the quote, and as many pictures, as the wanted one
// is shown with: its own, or what its text leads to.
func (o object) shows(want content) (quotes, pictures bool) {
	quotes, pictures = o.quote == want.Quote, o.pictures == len(want.Pictures)
	if !quotes && want.Quote == "" {
		quotes = o.leads(want, func(target string) bool { return strings.Contains(target, "/status/"+o.quote) })
	}
	if !pictures && len(want.Pictures) == 0 {
		pictures = o.leads(want, pictured.MatchString)
	}
	return quotes, pictures
}

// leads tells whether the wanted text has such a link, or a t.co link to such a target.
func (o object) leads(want content, such func(target string) bool) bool {
	for _, link := range strings.Fields(want.Text) {
		if such(link) || such(o.text.links[short.FindString(link)]) {
			return true
		}
	}
	return false
}

// late tells whether the read began after the fence, by X's clock.
func (s *search) late() bool { return !s.began.Before(s.until.Add(-rounding)) }

// drop takes out objects that are other jobs'.
func (s *search) drop(taken map[string]bool) {
	gone := func(o object) bool { return taken[s.external(o)] }
	if slices.ContainsFunc(slices.Concat(s.sure, s.uncertain, s.alike), gone) {
		s.unexplained = false // another job's object is what X meant
	}
	s.sure = slices.DeleteFunc(s.sure, gone)
	s.uncertain = slices.DeleteFunc(s.uncertain, gone)
	s.alike = slices.DeleteFunc(s.alike, gone)
}

func (s *search) external(o object) string { return externalID(o.id, s.want.Recipient != "") }

// found gives the external ids of all that could be ours.
func (s *search) found() []string {
	if len(s.sure) > 0 {
		return s.idsOf(s.sure, s.uncertain)
	}
	return s.idsOf(s.uncertain, s.alike)
}

func (s *search) idsOf(objects ...[]object) []string {
	var ids []string
	for _, o := range slices.Concat(objects...) {
		ids = append(ids, s.external(o))
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
