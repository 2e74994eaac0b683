package slack

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"github.com/fireonce/fireonce/internal/connector"
)

// Rules of this file, which is pure: given the pages, what do they prove?
//
//   - A message with the job's mark, by the account that sent it, is ours, whatever it
//     says and whenever it was made.
//   - An absence rests on marks being shown. So a message of the account without any
//     mark of ours that says the same, from the time of the send, may be ours: a person
//     decides.
//   - Complete is a read of every page back to the watermark less slack, in a list from
//     after the fence; of a thread, in one that begins with the thread's first message.
//     An answer has no thread of its own: what is listed for it is not where ours is.

const (
	// slack is how far clocks may be apart.
	slack = time.Minute
	// rounding is what whole seconds take off, here and at the watermark.
	rounding = 2 * time.Second
)

// Why a read proves nothing.
var (
	errUnsteady = errors.New("the clock of Slack, or ours, was set since the send; times cannot be compared")
	errShifted  = errors.New("a page shifted while it was read")
	errNoThread = errors.New("the thread is not listed: it may be gone")
	errNested   = errors.New("the message that is answered is itself an answer, and Slack does not list its thread by it; " +
		"look for the message in that thread")
	errNoClock = errors.New("the answer of Slack does not say its time")
)

// search looks for one message in one conversation.
type search struct {
	mark mark
	want content
	look connector.Look
	// until is the fence, by Slack's clock: the message was made before.
	until time.Time

	ids             map[string]bool // read so far
	began           time.Time       // Slack's clock at the first page
	thread          bool            // its first message was listed
	sure, uncertain []message
}

func newSearch(m mark, want content, l connector.Look) *search {
	return &search{mark: m, want: want, look: l, until: l.Until(m.At, m.At), ids: make(map[string]bool)}
}

// steady holds Slack's clock, read at local by ours, against the watermark's.
func (s *search) steady(now, local time.Time) error {
	if apart := now.Sub(s.mark.At) - local.Sub(s.mark.Local); apart > slack || apart < -slack {
		return errUnsteady
	}
	if s.began.IsZero() {
		s.began, s.until = now, s.look.Until(s.mark.At, now)
	}
	return nil
}

// add takes the next page.
func (s *search) add(l listing) (done bool, err error) {
	for _, m := range l.messages {
		if m.TS == s.want.Thread {
			if m.Thread != "" && m.Thread != m.TS {
				return false, errNested
			}
			s.thread = true
			continue // a thread begins each of its pages with its first message
		}
		if s.ids[m.TS] {
			return false, errShifted
		}
		s.ids[m.TS] = true
		s.match(m)
	}
	if l.next == "" && s.want.Thread != "" && !s.thread && len(s.sure) == 0 {
		return false, errNoThread
	}
	return l.next == "", nil
}

func (s *search) match(m message) {
	ours := m.User == s.mark.User || s.mark.Bot != "" && m.Bot == s.mark.Bot
	marked := m.Mark != nil && m.Mark.Type == markEvent
	switch {
	case marked && m.Mark.Payload.Job == s.want.Key && ours:
		s.sure = append(s.sure, m)
	case marked && m.Mark.Payload.Job == s.want.Key:
		s.uncertain = append(s.uncertain, m)
	case !marked && ours && !m.at.Before(s.mark.At.Add(-rounding)) && !m.at.After(s.until.Add(slack)) &&
		m.Text != "" && loose(m.Text) == loose(s.want.Text):
		s.uncertain = append(s.uncertain, m)
	}
}

// late tells whether the read began after the fence, by Slack's clock.
func (s *search) late() bool { return !s.began.Before(s.until.Add(-rounding)) }

// drop takes out messages that are other jobs'.
func (s *search) drop(taken map[string]bool) {
	gone := func(m message) bool { return taken[s.external(m)] }
	s.sure = slices.DeleteFunc(s.sure, gone)
	s.uncertain = slices.DeleteFunc(s.uncertain, gone)
}

// external names a message, as the answer to its post did.
func (s *search) external(m message) string {
	return externalID(s.mark.Channel, m.TS, s.want.Thread)
}

// found gives the external ids of all that could be ours.
func (s *search) found() []string {
	var ids []string
	for _, m := range slices.Concat(s.sure, s.uncertain) {
		ids = append(ids, s.external(m))
	}
	return ids
}

var (
	linked  = regexp.MustCompile(`<([^<>|]*)(?:\|[^<>]*)?>`)
	schemes = regexp.MustCompile(`(?i)\b(?:https?://|mailto:|tel:)`)
	keycap  = regexp.MustCompile(`[0-9#*]\x{fe0f}?\x{20e3}`)
	emoji   = regexp.MustCompile(`:[a-z0-9_+'-]+:`)
	escaped = strings.NewReplacer("&amp;", "&", "&lt;", "<", "&gt;", ">")
)

// loose keeps of a text what Slack does not change: it marks links up, makes links of
// host names and addresses, escapes & < >, and names emoji.
func loose(text string) string {
	for strings.Contains(text, "&amp;") {
		text = escaped.Replace(text)
	}
	text = escaped.Replace(linked.ReplaceAllString(text, "$1"))
	text = schemes.ReplaceAllString(linked.ReplaceAllString(text, "$1"), "")
	text = strings.Map(func(r rune) rune {
		if unicode.Is(unicode.So, r) || r == 'ℹ' { // as letters they would be kept
			return -1
		}
		return r
	}, emoji.ReplaceAllString(keycap.ReplaceAllString(text, ""), ""))
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsNumber(r) {
			return r
		}
		return -1
	}, cases.Fold().String(norm.NFKC.String(text)))
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
