package judge

import (
	"fmt"
	"iter"
	"slices"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/proof/chaos/platform"
)

// Rules of this file: what a subscriber should have received follows from the event log and from
// the client's request, never from the service's own filter. The platform's log has what it did
// receive, in order.

// Kinds of violations of subscriptions.
const (
	// Untold: a subscription selects an event, and no notice has it.
	Untold Kind = "not told"
	// ToldTwice: one event is in two notices.
	ToldTwice Kind = "told twice"
	// Invented: a notice has an event that is not in the log, or is another one there.
	Invented Kind = "told without an event"
	// Unselected: a notice has an event that its subscription does not select, or is of a kind that
	// no client asked for.
	Unselected Kind = "told unasked"
	// Disordered: notices or their events did not come in the order of the log.
	Disordered Kind = "told out of order"
	// Renamed: one notice came under two webhook-ids, or two under one.
	Renamed Kind = "notice under another id"
	// Misdigested: a digest does not count what is between its cursors.
	Misdigested Kind = "false digest"
	// Undelivered: when all faults are over, a notice is not delivered, or what the service
	// reports of it is false.
	Undelivered Kind = "notice not delivered"
	// Shown: a list, count or statistic of the project has more than its jobs, or a notice
	// reports a notice.
	Shown Kind = "notice among the jobs"
)

// ToldKinds lists the kinds of violations of subscriptions.
var ToldKinds = []Kind{Untold, ToldTwice, Invented, Unselected, Disordered, Renamed, ChangedBody, Misdigested, Undelivered, Shown}

// StateSubscribed is the state of a subscription that makes notices.
const StateSubscribed = "ACTIVE"

// Subscription is who receives what: what a client asked for, and what the service says of it at
// the end.
type Subscription struct {
	// Name is that of its receiver, which no other subscription has.
	Name string
	// ID is what the service calls it. Empty: the service keeps it, and shows it to no one; what
	// it says of it in the end is not known either.
	ID string
	// Selects reports whether the client asked for an event that is in the log.
	Selects func(Event) bool
	// Digests is set if its notices count events.
	Digests bool

	// State, UnderWay and Failing are those of the end, when all is to be delivered. Last is the
	// number of its newest notice.
	State    string
	UnderWay bool
	Failing  int64
	Last     int64
	// Listed are its newest notices, as the service lists them.
	Listed []ListedNotice
}

// ListedNotice is a notice as the service lists it.
type ListedNotice struct {
	Number  int64
	Kind    string
	Events  int64
	Outcome job.State
}

// ToldInput is all that is known of the subscriptions of a run.
type ToldInput struct {
	Subscriptions []Subscription
	Finals        []Final
	Log           iter.Seq2[platform.Record, error]
	Events        iter.Seq2[Event, error]
	// Places is how many events of the log are at or before a cursor, as the service lists them,
	// for each cursor of a notice.
	Places map[string]int
	// Shown counts the project's jobs, by who says so.
	Shown map[string]int
}

// ToldReport is the judgement of a campaign's subscriptions.
type ToldReport struct {
	Subscriptions int `json:"subscriptions"`
	// Notices are those that came, Requests what brought them, Repeats those of them that brought
	// one that had come before.
	Notices  int `json:"notices"`
	Requests int `json:"requests"`
	Repeats  int `json:"repeats"`
	// Selected are the events that had to be in notices, Told those that notices have in full, Counted
	// those of digests.
	Selected int `json:"selected"`
	Told     int `json:"told"`
	Digests  int `json:"digests"`
	Counted  int `json:"counted"`
	// Again counts the notices that a client asked for again, Pauses those of subscriptions by
	// hand. The campaign sets them.
	Again  int `json:"again"`
	Pauses int `json:"pauses"`
	// By has the events that each subscription selects.
	By map[string]int `json:"by"`
	// Faults counts what went wrong with the requests.
	Faults map[platform.Fault]int `json:"faults"`
	// Total counts the violations, Kinds by kind; Violations has the first ones of each.
	Total      int          `json:"total_violations"`
	Kinds      map[Kind]int `json:"kinds,omitempty"`
	Violations []Violation  `json:"violations,omitempty"`
}

// change names an event, as a notice does.
type change struct {
	job      string
	sequence int64
}

// place is an event and where it is in the log, from 1.
type place struct {
	Event
	at int
}

type toldTrial struct {
	ToldInput
	report  *ToldReport
	notices map[string][]*Notice // by the subscription's name
	log     map[change]place
	order   []Event
}

// JudgeTold weighs what subscribers received against the log of events. It fails only if one of
// the accounts cannot be read.
func JudgeTold(in ToldInput) (*ToldReport, error) {
	t := &toldTrial{ToldInput: in, log: make(map[change]place), report: &ToldReport{
		Subscriptions: len(in.Subscriptions), By: make(map[string]int), Faults: make(map[platform.Fault]int), Kinds: make(map[Kind]int),
	}}
	var err error
	if t.notices, err = ReadNotices(in.Log); err != nil {
		return nil, err
	}
	last := make(map[string]int64)
	for e, err := range in.Events {
		if err != nil {
			return nil, err
		}
		if e.Sequence <= last[e.JobID] {
			continue // a stream began again
		}
		last[e.JobID] = e.Sequence
		t.order = append(t.order, e)
		t.log[change{e.JobID, e.Sequence}] = place{e, len(t.order)}
	}
	known := make(map[string]bool)
	for i := range t.Subscriptions {
		s := &t.Subscriptions[i]
		known[s.Name] = true
		t.weigh(s)
	}
	for name, of := range t.notices {
		if !known[name] {
			t.blame(Unselected, name, "%d notices came for no subscription", len(of))
		}
	}
	t.weighIDs()
	for who, n := range t.Shown {
		if n != len(t.Finals) {
			t.blame(Shown, who, "%d jobs, and the project has %d", n, len(t.Finals))
		}
	}
	return t.report, nil
}

func (t *toldTrial) blame(k Kind, subject, format string, args ...any) {
	const stories = 5
	t.report.Total++
	if t.report.Kinds[k]++; t.report.Kinds[k] <= stories {
		t.report.Violations = append(t.report.Violations, Violation{Kind: k, Subject: subject, Detail: fmt.Sprintf(format, args...)})
	}
}

// telling is a subscription under judgement.
type telling struct {
	*Subscription
	// selected are the places of the events that it selects.
	selected []int
	// upTo is the place up to which notices told, and last that of the last event that one had.
	upTo, last int
	told       map[change]string // by event: the notice that had it, of those that were weighed
	ever       map[change]bool   // the events that any notice has
}

// weigh judges one subscription.
func (t *toldTrial) weigh(s *Subscription) {
	w := &telling{Subscription: s, told: make(map[change]string), ever: make(map[change]bool)}
	ends := make(map[string]job.State) // of the last event of each job that is selected
	for i, e := range t.order {
		if s.Selects(e) {
			w.selected = append(w.selected, i+1)
			ends[e.JobID] = e.To
		}
	}
	t.report.Selected += len(w.selected)
	t.report.By[s.Name] = len(w.selected)
	t.weighFinals(w, ends)
	for _, n := range t.notices[s.Name] {
		for _, e := range n.Events {
			w.ever[change{e.JobID, e.Sequence}] = true
		}
		if n.Kind == KindDigest {
			for _, at := range w.between(t.Places[n.After], t.Places[n.To]) {
				w.ever[change{t.order[at-1].JobID, t.order[at-1].Sequence}] = true
			}
		}
	}
	numbers := make(map[int64]string)
	came := 0
	for _, n := range t.notices[s.Name] {
		t.weighRequests(s, n)
		if first, known := numbers[n.Number]; known {
			t.blame(Renamed, s.Name, "notice %d came as %s and as %s", n.Number, first, n.ID)
			continue
		}
		numbers[n.Number] = n.ID
		if came++; n.Number != int64(came) {
			t.blame(Disordered, s.Name, "notice %d came as number %d", n.Number, came)
		}
		t.weighNotice(w, n)
	}
	t.untold(w, w.upTo, len(t.order), "after the last notice")
	t.weighEnd(w, numbers)
}

// weighFinals compares the outcomes of jobs with the log: what is an outcome and no event can be in no
// notice.
func (t *toldTrial) weighFinals(w *telling, ends map[string]job.State) {
	for _, f := range t.Finals {
		if w.Selects(Event{JobID: f.JobID, To: f.State}) && ends[f.JobID] != f.State {
			t.blame(Untold, w.Name, "job %s is %v, and the last event that is selected led to %v", f.JobID, f.State, ends[f.JobID])
		}
	}
}

// weighRequests judges the requests that brought a notice.
func (t *toldTrial) weighRequests(s *Subscription, n *Notice) {
	t.report.Notices++
	t.report.Requests += n.Requests
	t.report.Repeats += n.Requests - 1
	for f, count := range n.Faults {
		t.report.Faults[f] += count
	}
	if len(n.Bodies) > 1 {
		t.blame(ChangedBody, s.Name, "notice %d came with %d bodies", n.Number, len(n.Bodies))
	}
	of := s.ID
	if of == "" {
		of = t.notices[s.Name][0].SubscriptionID
	}
	if n.ID == "" || n.SubscriptionID != of {
		t.blame(Renamed, s.Name, "notice %d came under the id %q, of subscription %s, want %s", n.Number, n.ID, n.SubscriptionID, of)
	}
	if n.Lost {
		t.blame(Untold, s.Name, "notice %d says that events were removed", n.Number)
	}
}

// weighNotice judges what a notice has.
func (t *toldTrial) weighNotice(w *telling, n *Notice) {
	after, known := t.Places[n.After]
	to, knownTo := t.Places[n.To]
	if !known || !knownTo || after > to || after < w.upTo {
		t.blame(Disordered, w.Name, "notice %d is from %d to %d, the one before it is up to %d", n.Number, after, to, w.upTo)
	}
	t.untold(w, w.upTo, min(after, len(t.order)), fmt.Sprintf("before notice %d", n.Number))
	w.upTo = max(w.upTo, to)
	switch {
	case n.Kind == KindEvents && !w.Digests:
		t.weighEvents(w, n, after, to)
	case n.Kind == KindDigest:
		t.weighDigest(w, n, after, to)
	default:
		t.blame(Unselected, w.Name, "notice %d is of the kind %s", n.Number, n.Kind)
	}
}

// weighEvents judges a notice that has events in full.
func (t *toldTrial) weighEvents(w *telling, n *Notice, after, to int) {
	for _, e := range n.Events {
		at, ok := t.weighEvent(w, n, e, after, to)
		if !ok {
			continue
		}
		c := change{e.JobID, e.Sequence}
		if first := w.told[c]; first != "" {
			t.blame(ToldTwice, w.Name, "event %d of job %s is in notices %s and %s", e.Sequence, e.JobID, first, n.ID)
			continue
		}
		w.told[c] = n.ID
		t.report.Told++
		if at <= w.last {
			t.blame(Disordered, w.Name, "notice %d has event %d of job %s, at %d, after the one at %d", n.Number, e.Sequence, e.JobID, at, w.last)
		}
		w.last = max(w.last, at)
	}
	t.untold(w, after, to, fmt.Sprintf("between the cursors of notice %d", n.Number))
}

// weighEvent compares an event of a notice with the log.
func (t *toldTrial) weighEvent(w *telling, n *Notice, e Event, after, to int) (at int, ok bool) {
	p, known := t.log[change{e.JobID, e.Sequence}]
	switch {
	case !known:
		t.blame(Invented, w.Name, "notice %d has event %d of job %s, and the log has not", n.Number, e.Sequence, e.JobID)
	case e.From != p.From || e.To != p.To || e.Cause != p.Cause || e.Cursor != p.Cursor:
		t.blame(Invented, w.Name, "notice %d has event %d of job %s from %v to %v, %s, in the log it is from %v to %v, %s",
			n.Number, e.Sequence, e.JobID, e.From, e.To, e.Cause, p.From, p.To, p.Cause)
	case !w.Selects(p.Event):
		t.blame(Unselected, w.Name, "notice %d has event %d of job %s, from %v to %v", n.Number, e.Sequence, e.JobID, e.From, e.To)
	case p.at <= after || p.at > to:
		t.blame(Disordered, w.Name, "notice %d is from %d to %d, and has the event at %d", n.Number, after, to, p.at)
	default:
		return p.at, true
	}
	return 0, false
}

// mostGroups is from how many groups on a digest may leave out some.
const mostGroups = 50

// weighDigest judges a notice that counts events.
func (t *toldTrial) weighDigest(w *telling, n *Notice, after, to int) {
	t.report.Digests++
	counts, whole := make(map[Group]int64), int64(0)
	for _, at := range w.between(after, to) {
		e := t.order[at-1]
		counts[Group{To: e.To, Cause: e.Cause}]++
		whole++
	}
	t.report.Counted += int(whole)
	w.last = max(w.last, to)
	if n.Count != whole {
		t.blame(Misdigested, w.Name, "notice %d counts %d events, and there are %d between its cursors", n.Number, n.Count, whole)
	}
	if len(n.Groups) < mostGroups {
		got := make(map[Group]int64)
		for _, g := range n.Groups {
			got[Group{To: g.To, Cause: g.Cause}] += g.Count
		}
		for g, want := range counts {
			if got[g] != want {
				t.blame(Misdigested, w.Name, "notice %d counts %d events to %v by %s, and there are %d", n.Number, got[g], g.To, g.Cause, want)
			}
		}
	}
	last := 0
	for _, e := range n.Examples {
		at, ok := t.weighEvent(w, n, e, after, to)
		if ok && at <= last {
			t.blame(Disordered, w.Name, "notice %d has the example at %d after the one at %d", n.Number, at, last)
		}
		last = max(last, at)
	}
	if whole > 0 && len(n.Examples) == 0 {
		t.blame(Misdigested, w.Name, "notice %d has no example", n.Number)
	}
}

// between returns the places that are selected behind one place up to another.
func (w *telling) between(after, to int) []int {
	from, _ := slices.BinarySearch(w.selected, after+1)
	end, _ := slices.BinarySearch(w.selected, to+1)
	return w.selected[from:max(from, end)]
}

// untold blames what is selected behind one place up to another, and is in no notice.
func (t *toldTrial) untold(w *telling, after, to int, where string) {
	for _, at := range w.between(after, to) {
		if e := t.order[at-1]; !w.ever[change{e.JobID, e.Sequence}] {
			t.blame(Untold, w.Name, "event %d of job %s, from %v to %v, %s", e.Sequence, e.JobID, e.From, e.To, where)
		}
	}
}

// weighEnd compares what the service says of a subscription with what came.
func (t *toldTrial) weighEnd(w *telling, numbers map[int64]string) {
	if w.ID == "" {
		return
	}
	if w.State != StateSubscribed || w.UnderWay || w.Failing != 0 {
		t.blame(Undelivered, w.Name, "it is %s, under way: %t, failing since notice %d", w.State, w.UnderWay, w.Failing)
	}
	if int64(len(numbers)) != w.Last {
		t.blame(Undelivered, w.Name, "%d notices came, and the service has made %d", len(numbers), w.Last)
	}
	byNumber := make(map[int64]*Notice)
	for _, n := range t.notices[w.Name] {
		if byNumber[n.Number] == nil {
			byNumber[n.Number] = n
		}
	}
	for _, l := range w.Listed {
		n := byNumber[l.Number]
		switch {
		case l.Outcome != job.Succeeded:
			t.blame(Undelivered, w.Name, "notice %d is %v", l.Number, l.Outcome)
		case n == nil || !n.Taken:
			t.blame(Undelivered, w.Name, "notice %d is SUCCEEDED, and its receiver has not taken it", l.Number)
		case l.Kind != n.Kind || l.Events != max(n.Count, int64(len(n.Events))):
			t.blame(Undelivered, w.Name, "notice %d is listed as %s with %d events, it came as %s with %d", l.Number, l.Kind, l.Events, n.Kind, max(n.Count, int64(len(n.Events))))
		}
	}
}

// weighIDs checks that an id is that of one notice.
func (t *toldTrial) weighIDs() {
	of := make(map[string]string)
	for name, notices := range t.notices {
		for _, n := range notices {
			if other, known := of[n.ID]; known && other != name {
				t.blame(Renamed, name, "notice %d came under %s, as one of %s did", n.Number, n.ID, other)
			}
			of[n.ID] = name
		}
	}
}
