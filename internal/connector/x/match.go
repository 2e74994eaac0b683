package x

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/lookup"
	"github.com/fireonce/fireonce/internal/job"
)

// Rules of this file, which is pure: given the pages, what do they prove?
//
//   - Times are the ids' own, to the millisecond, and X's clock when it answers.
//     Between watermark and look that clock and ours must have gone on alike.
//   - A read is complete when it has every page down to the watermark less slack. X lists
//     the latest 3,200 posts of an account at most: a list that long may be cut short.
//   - An object is ours for sure if it has the content and was made between watermark and
//     fence.
//   - An object may be ours if it has the content and was made a little before or after
//     that, if its content is alike but not the same, or if it was edited since: a person
//     decides. An object that differs in marks is not ours, if another one is for sure.
//   - X's refusal of a duplicate means that the content is there: an older object that has
//     it, back to duplicateReach, may be ours, of a job that a lost database knew. If
//     nothing explains the refusal, not even another job's object, nothing is proven: a
//     person decides, after as many complete reads as prove an absence. A refused attempt
//     made no object, whenever the listed ones were made.

const (
	// slack is how far clocks may be apart.
	slack = time.Minute
	// rounding is what whole seconds take off, here and at the watermark.
	rounding = 2 * time.Second
	// duplicateReach is how far before the watermark a duplicate is looked for. X does
	// not document for how long it refuses them.
	duplicateReach = 72 * time.Hour
	// maxListed is how many posts of an account X lists.
	maxListed = 3200
)

var errNoClock = errors.New("the answer of X does not say its time")

// search looks for one object among the account's.
type search struct {
	lookup.Search[object]

	watermark watermark
	want      content
	// duplicate is set if X has refused an attempt as a duplicate, everyOne if it has
	// refused each.
	duplicate, everyOne bool
	// unexplained is set if the last attempt was, and nothing is known of it but that.
	unexplained bool
}

func newSearch(m watermark, want content, l connector.Look) *search {
	message := want.Recipient != ""
	s := &search{watermark: m, want: want, Search: lookup.New(lookup.Rules[object]{
		Platform: "X", Clock: "the clock of X", Objects: "posts", Pages: "pages",
		Slack: slack, Rounding: rounding, MaxPages: maxPages,
		ID:       func(o object) string { return o.id },
		External: func(o object) string { return externalID(o.id, message) },
		Created:  func(o object) time.Time { return o.at },
		URL:      func(o object) string { return webURL(o.id, message) },
	}, m.Clocks, l)}
	if message {
		s.Disorder = "the messages are not listed newest first"
	}
	s.duplicate = slices.ContainsFunc(l.Attempts, asDuplicate)
	s.everyOne = s.duplicate && !slices.ContainsFunc(l.Attempts, func(a job.Attempt) bool { return !asDuplicate(a) })
	s.unexplained = slices.ContainsFunc(l.Attempts, func(a job.Attempt) bool { return asDuplicate(a) && a.Result == job.ResultUnknown })
	return s
}

// wording is how verdicts are put.
func (s *search) wording() lookup.Wording {
	w := lookup.Wording{
		Object: "post", Missing: "this content", Many: "are like this one",
		One: "is like this one, but its text or its time is not quite that of the send; is it this one?",
	}
	if s.want.Recipient != "" {
		w.Object = "direct message"
	}
	w.Objects = w.Object + "s"
	return w
}

// from is the time from which on objects are read.
func (s *search) from() time.Time {
	if s.duplicate {
		return s.watermark.At.Add(-duplicateReach)
	}
	return s.watermark.At.Add(-slack)
}

// floor is the id from which on objects are read.
func (s *search) floor() uint64 { return idAt(s.from()) }

// add takes the next page. done reports that nothing of ours can be on later pages.
// An error means that no verdict may rest on this read.
func (s *search) add(l listing) (done bool, err error) {
	if err := s.Add(l.objects, s.fit); err != nil {
		return false, err
	}
	switch {
	case l.next == "" && s.Count() >= maxListed && s.want.Recipient == "":
		return false, lookup.Because(lookup.ErrCutShort, "more posts since the send than X lists")
	case l.next == "":
		return true, nil
	default: // of posts, X lists none from before the floor
		return s.want.Recipient != "" && s.Past(s.from()), nil
	}
}

func (s *search) fit(o object) lookup.Fit {
	ours := o.sender == s.watermark.Account
	if s.want.Recipient == "" {
		ours = !o.repost
	}
	if !ours || o.number < s.floor() {
		return lookup.Other
	}
	switch fit := s.fits(o); {
	case fit == differs:
		return lookup.Other
	case fit == near || o.at.Before(s.watermark.At.Add(-slack)): // or what a refused duplicate met
		return lookup.Alike
	case fit == same && !s.everyOne && !o.at.Before(s.watermark.At) && !o.at.After(s.Until):
		return lookup.Sure
	default:
		return lookup.Uncertain
	}
}

// fits returns how well an object fits what is wanted.
func (s *search) fits(o object) likeness {
	answers := o.replyTo == s.want.ReplyTo
	made, _, edited := timeOf(o.origin)
	switch {
	case edited && made.Before(s.watermark.At.Add(-slack)):
		return differs // an old post, edited
	case edited && answers && !made.Before(s.watermark.At) && !made.After(s.Until):
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

// shows reports whether an object has the quote, and as many pictures, as the wanted one
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

// leads reports whether the wanted text has such a link, or a t.co link to such a target.
func (o object) leads(want content, such func(target string) bool) bool {
	for _, link := range strings.Fields(want.Text) {
		if such(link) || such(o.text.links[short.FindString(link)]) {
			return true
		}
	}
	return false
}
