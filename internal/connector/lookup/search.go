// Package lookup asks a platform whether an effect exists: it reads a list of objects,
// page by page, back to before the send, and judges what the read proves. The platform
// supplies how it lists and compares, its margins and its words.
package lookup

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
)

// Rules of this package:
//
//   - An absence rests on a complete read: every page back to the time before which no
//     object can be ours, without an object twice, in a list from after the fence.
//   - Clocks count only as far as they can be checked: between watermark and look the
//     platform's clock and the store's steady one must have advanced alike.
//   - The platform decides which objects are certainly ours, and which need a person's
//     decision.

// Rules holds what differs from platform to platform.
type Rules[T any] struct {
	// Platform names the platform in messages, Clock its clock, Objects what it lists, and
	// Pages pages of that: "the server", "the server's clock", "posts", "pages of posts".
	Platform, Clock, Objects, Pages string
	// Disorder describes a list that is not the newest first; empty: it need not be.
	Disorder string
	// Slack is how far clocks and stamps may be apart, Rounding what whole seconds take off.
	Slack, Rounding time.Duration
	// MaxPages bounds one look.
	MaxPages int
	// ID names an object in the list, External among all that the account has ever made.
	ID, External func(T) string
	// Created returns when an object was made, by the platform's clock.
	Created func(T) time.Time
	// URL is where a person sees an object; empty: nowhere.
	URL func(T) string
}

// Why a read proves nothing. Errors of this package wrap them in the platform's words.
var (
	ErrUnsteady = errors.New("a clock was set since the send")
	ErrDisorder = errors.New("the list is not the newest first")
	ErrShifted  = errors.New("a page shifted while it was read")
	ErrCutShort = errors.New("the list is cut short")
)

// Because returns an error of one of these kinds, in words of the platform.
func Because(kind error, words string) error { return because{kind, words} }

type because struct {
	kind  error
	words string
}

func (b because) Error() string { return b.words }

func (b because) Unwrap() error { return b.kind }

// Fit is what an object is to the search.
type Fit int

// The fits of an object.
const (
	// Other is not ours.
	Other Fit = iota
	// Sure is ours.
	Sure
	// Uncertain may be ours: a person decides.
	Uncertain
	// Alike may be ours if no other object certainly is.
	Alike
)

// Search looks for one effect among the objects of an account.
type Search[T any] struct {
	Rules[T]

	Look connector.Look
	// Until is the latest time at which the object may have been made, by the
	// platform's clock: the fence. It is known with the first page.
	Until time.Time
	// Oldest is when the oldest object that was read was made.
	Oldest time.Time
	// Sure, Uncertain and Alike are the objects of these fits.
	Sure, Uncertain, Alike []T

	watermark Clocks
	began     time.Time       // the platform's clock at the first page
	read      map[string]bool // ids
}

// New begins a search from a watermark's time.
func New[T any](r Rules[T], watermark Clocks, l connector.Look) Search[T] {
	return Search[T]{Rules: r, Look: l, Until: l.Until(watermark.At, watermark.At), watermark: watermark, read: make(map[string]bool)}
}

// Steady compares the platform's clock, read at local by the local one (LocalClock), with the
// watermark's.
func (s *Search[T]) Steady(now, local time.Time) error {
	if apart := now.Sub(s.watermark.At) - local.Sub(s.watermark.Local); apart > s.Slack || apart < -s.Slack {
		return Because(ErrUnsteady, s.Clock+", or ours, was set since the send; times cannot be compared")
	}
	if s.began.IsZero() {
		s.began, s.Until = now, s.Look.Until(s.watermark.At, now)
	}
	return nil
}

// Add takes the objects of the next page, each with its fit. An error means that no
// verdict may rest on this read.
func (s *Search[T]) Add(objects []T, fit func(T) Fit) error {
	for _, o := range objects {
		id, created := s.ID(o), s.Created(o)
		switch {
		case s.read[id]:
			return ErrShifted
		case s.Disorder != "" && !s.Oldest.IsZero() && created.After(s.Oldest.Add(s.Slack)):
			return Because(ErrDisorder, s.Disorder)
		}
		s.read[id] = true
		if s.Oldest.IsZero() || created.Before(s.Oldest) {
			s.Oldest = created
		}
		s.put(o, fit(o))
	}
	return nil
}

func (s *Search[T]) put(o T, fit Fit) {
	switch fit {
	case Sure:
		s.Sure = append(s.Sure, o)
	case Uncertain:
		s.Uncertain = append(s.Uncertain, o)
	case Alike:
		s.Alike = append(s.Alike, o)
	case Other:
	}
}

// Sort classifies the objects of all fits again, those that were sure first, and within
// a fit in the order in which they were read. It ends with the first error of fit.
func (s *Search[T]) Sort(fit func(o T, before Fit) (Fit, error)) error {
	before := map[Fit][]T{Sure: s.Sure, Uncertain: s.Uncertain, Alike: s.Alike}
	s.Sure, s.Uncertain, s.Alike = nil, nil, nil
	for _, was := range []Fit{Sure, Uncertain, Alike} {
		for _, o := range before[was] {
			is, err := fit(o, was)
			if err != nil {
				return err
			}
			s.put(o, is)
		}
	}
	return nil
}

// Count is how many objects were read.
func (s *Search[T]) Count() int { return len(s.read) }

// Past reports whether the read has reached objects from before from. In an ordered
// list, later objects are newer by the slack at most.
func (s *Search[T]) Past(from time.Time) bool {
	return !s.Oldest.IsZero() && s.Oldest.Before(from.Add(-s.Slack))
}

// Ended reports, after a page of an ordered list, whether no later page can have an
// object of ours. A time ends a read, never an object: the account may have no object
// to stop at, and an object may be deleted, or stamped by a server whose clock is
// ahead. more is set if there are later pages. If the account had objects at the
// watermark (seen), and the list ends without any of them, the list is cut short.
func (s *Search[T]) Ended(more bool, seen []string) (bool, error) {
	switch {
	case s.Past(s.watermark.At.Add(-s.Slack)):
		return true, nil
	case more:
		return false, nil
	case !s.reached(seen):
		return false, Because(ErrCutShort, "the list of "+s.Objects+" ends before the place where it was at the send")
	}
	return true, nil
}

// reached reports whether the read came to the position of the watermark in the list.
func (s *Search[T]) reached(seen []string) bool {
	return len(seen) == 0 || s.Oldest.Before(s.watermark.At) && !s.Oldest.IsZero() ||
		slices.ContainsFunc(seen, func(id string) bool { return s.read[id] })
}

// ReadPages reads page after page until one is the last. page reads the page of a token, which
// is empty for the first, and returns the token of the next.
func (s *Search[T]) ReadPages(page func(token string) (next string, done bool, err error)) error {
	token, been := "", make(map[string]bool)
	for range s.MaxPages {
		next, done, err := page(token)
		if done || err != nil {
			return err
		}
		if been[next] {
			return ErrShifted
		}
		been[next], token = true, next
	}
	return fmt.Errorf("more than %d %s since the send", s.MaxPages, s.Pages)
}
