package slack

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/lookup"
	"github.com/fireonce/fireonce/internal/job"
)

// Rules of this file, which is pure: given the pages, what do they prove?
//
//   - A message with the job's mark, by the account that sent it, is ours, whatever its
//     text and its time.
//   - An absence rests on marks being shown. So a message of the account with the same
//     text and no mark of ours, from the time of the send, may be ours: a person decides.
//   - A read is complete when it has every page back to the watermark less slack, of a list
//     made after the fence. The list of a thread must begin with the thread's first
//     message. A reply has no thread of its own: its list cannot contain ours.

const (
	// slack is how far clocks may be apart.
	slack = time.Minute
	// rounding is the most that whole seconds take off, here and at the watermark.
	rounding = 2 * time.Second
)

// Why a read proves nothing.
var (
	errNoThread = errors.New("the thread is not listed: it may be gone")
	errNested   = errors.New("the message that is answered is itself an answer, and Slack does not list its thread by it; " +
		"look for the message in that thread")
	errNoClock = errors.New("the answer of Slack does not say its time")
)

// wording is how verdicts are put.
var wording = lookup.Wording{Object: "message", Objects: "messages", Missing: "this job's mark"}

// search looks for one message in one conversation.
type search struct {
	lookup.Search[message]

	watermark watermark
	want      content
	thread    bool // its first message was listed
}

func newSearch(m watermark, want content, l connector.Look) *search {
	return &search{watermark: m, want: want, Search: lookup.New(lookup.Rules[message]{
		Platform: "Slack", Clock: "the clock of Slack", Objects: "messages", Pages: "pages of messages",
		Slack: slack, Rounding: rounding, MaxPages: maxPages,
		ID:       func(m message) string { return m.TS },
		External: func(told message) string { return externalID(m.Channel, told.TS, want.Thread) },
		Created:  func(m message) time.Time { return m.at },
		URL:      func(told message) string { return link(m.Site, m.Channel, told.TS, want.Thread) },
	}, m.Clocks, l)}
}

// add takes the next page.
func (s *search) add(l listing) (done bool, err error) {
	messages := make([]message, 0, len(l.messages))
	for _, m := range l.messages {
		switch {
		case m.TS != s.want.Thread:
			messages = append(messages, m)
		case m.Thread != "" && m.Thread != m.TS:
			return false, errNested
		default: // a thread begins each of its pages with its first message
			s.thread = true
		}
	}
	if err := s.Add(messages, s.fit); err != nil {
		return false, err
	}
	if l.next == "" && s.want.Thread != "" && !s.thread && len(s.Sure) == 0 {
		return false, errNoThread
	}
	return l.next == "", nil
}

func (s *search) fit(m message) lookup.Fit {
	ours := m.User == s.watermark.User || s.watermark.Bot != "" && m.Bot == s.watermark.Bot
	marked := m.Mark != nil && m.Mark.Type == markEvent
	switch {
	case marked && m.Mark.Payload.Job == s.want.Key && ours:
		return lookup.Sure
	case marked && m.Mark.Payload.Job == s.want.Key:
		return lookup.Uncertain
	case !marked && ours && !m.at.Before(s.watermark.At.Add(-rounding)) && !m.at.After(s.Until.Add(slack)) &&
		m.Text != "" && loose(m.Text) == loose(s.want.Text):
		return lookup.Uncertain
	default:
		return lookup.Other
	}
}

// verdict returns what the read proves: the mark is the proof, whatever else has the same text.
func (s *search) verdict() job.Observation {
	switch ids := s.Found(); {
	case len(ids) == 0:
		return s.Absence(wording)
	case len(s.Sure) == 1:
		return s.Presence("found by its mark as message")
	case len(s.Sure) > 1:
		return lookup.Saw(job.SawCandidates, fmt.Sprintf("%d messages have this job's mark: %s", len(s.Sure), lookup.Names(ids)))
	default:
		return lookup.Saw(job.SawCandidates, "these messages say the same, without the mark of any job, or by somebody else: "+lookup.Names(ids)+"; is it one of them?")
	}
}

var (
	label   = regexp.MustCompile(`\|[^<>]*>`)
	schemes = regexp.MustCompile(`(?i)https?|mailto:|tel:`)
	keycap  = regexp.MustCompile(`[0-9#*]\x{fe0f}?\x{20e3}`)
	emoji   = regexp.MustCompile(`:[a-z0-9_+'-]+:`)
	escaped = strings.NewReplacer("&amp;", "&", "&lt;", "<", "&gt;", ">")
)

// loose returns the letters and digits of a text that Slack does not change: it makes links
// of URLs, host names and addresses, with a label and a scheme of its own, escapes & < >,
// and names emoji. A link may end between a letter and its accent, so accents are dropped.
func loose(text string) string {
	text = label.ReplaceAllString(text, ">")
	for strings.Contains(text, "&amp;") {
		text = escaped.Replace(text)
	}
	// These texts are dropped wherever they stand, so that it does not matter which
	// characters of Slack's are beside them.
	text = schemes.ReplaceAllString(label.ReplaceAllString(escaped.Replace(text), ">"), "")
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
	}, cases.Fold().String(norm.NFKD.String(text)))
}
