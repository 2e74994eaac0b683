package main

import (
	"strings"
	"testing"
	"time"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/proof/chaos/judge"
	"github.com/fireonce/fireonce/internal/proof/chaos/platform"
	"github.com/fireonce/fireonce/internal/proof/chaos/sites"
)

var everySite = []string{
	sites.X, sites.Slack, sites.TikTok, sites.Resend, sites.Mastodon, sites.GoToSocial, sites.Bluesky, sites.SMTP,
}

// TestPlatformJobsOfASeed: every connector gets all that it can do, twins come in
// pairs, and a reply goes to the job before it, at the same connection.
func TestPlatformJobsOfASeed(t *testing.T) {
	const jobs = 4000
	names, twins, replies := make(map[string]int), make(map[string]int), make(map[string]int)
	subjects := make(map[string][]spec)
	for i := range jobs {
		s := platformSpecOf(5, i, everySite, postWindow)
		if s != platformSpecOf(5, i, everySite, postWindow) {
			t.Fatalf("job %d is two", i)
		}
		names[s.kind.name]++
		subjects[s.subject] = append(subjects[s.subject], s)
		if s.after < 0 {
			continue
		}
		replies[s.kind.name]++
		if to := platformSpecOf(5, s.after, everySite, postWindow); s.after != i-1 || to.kind != s.kind || to.subject == s.subject || to.after >= 0 {
			t.Errorf("job %d replies to %+v", i, to)
		}
	}
	for subject, of := range subjects {
		if len(of) == 2 && of[0].kind == of[1].kind && of[0].key != of[1].key && strings.HasSuffix(subject, "-twin") {
			twins[of[0].kind.name]++
		} else if len(of) != 1 {
			t.Errorf("%s: %+v", subject, of)
		}
	}
	for _, k := range kinds {
		if names[k.name] < jobs/20 || twins[k.name] == 0 || k.replies != (replies[k.name] > 0) {
			t.Errorf("%s: %d jobs, %d twins, %d replies", k.name, names[k.name], twins[k.name], replies[k.name])
		}
	}
	for i := range 100 {
		if s := platformSpecOf(5, i, everySite[:1], postWindow); s.kind.conn == sites.Bluesky {
			t.Fatalf("job %d is for a site that is not there: %+v", i, s)
		}
	}
}

// TestEveryKindHasItsConnection: a job finds its connection and its payload, the same
// in every repeat.
func TestEveryKindHasItsConnection(t *testing.T) {
	places := make(map[string]platform.Place)
	for _, name := range everySite {
		places[name] = platform.Place{Address: "127.0.0.1:25"}
	}
	to := targets{places: places, sites: make(map[string]string)}
	for name := range connections(places) {
		to.sites[name] = "id-of-" + name
	}
	at := time.Now()
	for i := range 200 {
		s := platformSpecOf(7, i, everySite, postWindow)
		a, b := s.request(to, at), s.request(to, at)
		if a.String() != b.String() || a.GetConnectionId() == "" || a.GetPayload().GetKind() == nil {
			t.Errorf("job %d: %v, then %v", i, a, b)
		}
	}
}

// TestRepliesWaitForTheirIDs: a reply goes in a call of its own, after the answer to
// what it replies to; if there will be none, the client stops.
func TestRepliesWaitForTheirIDs(t *testing.T) {
	specs := func(i int) spec {
		s := platformSpecOf(5, i, everySite, postWindow)
		s.after = -1
		if i == 3 {
			s.after = 2
		}
		return s
	}
	l := newLoad(5, 10, specs, nil, targets{})
	if end := l.together(0, 10); end != 3 {
		t.Errorf("the first call ends with %d", end)
	}
	if end := l.together(3, 10); end != 10 {
		t.Errorf("the second one ends with %d", end)
	}
	reqs := list(specs, 3, 5)
	l.submits[2].acks = []judge.Ack{{JobID: "two"}}
	if err := l.thread(t.Context(), 3, reqs); err != nil || reqs[0].GetReplyToJobId() != "two" || reqs[1].GetReplyToJobId() != "" {
		t.Errorf("%v, %v", reqs, err)
	}
	l.submits[2].acks = nil
	l.failed = errViolated
	if err := l.thread(t.Context(), 3, list(specs, 3, 4)); err == nil {
		t.Error("a reply to nothing")
	}
}

func list(specs func(int) spec, from, to int) (out []*fireoncev1.ScheduleJobRequest) {
	for i := from; i < to; i++ {
		out = append(out, specs(i).request(targets{}, time.Now()))
	}
	return out
}

// TestSiteFaultsAreWithinTheFence: what goes wrong before the platforms is within what
// is assumed of them.
func TestSiteFaultsAreWithinTheFence(t *testing.T) {
	f := siteFaults()
	if err := f.Check(); err != nil {
		t.Fatal(err)
	}
	if f.Rates[platform.Late] != 0 || time.Duration(f.Delay) > grace-delayMargin || f.Rates[platform.Drop] < 0.1 {
		t.Errorf("%+v", f)
	}
	for _, k := range kinds {
		if k.class == job.Opaque && k.policy == 0 {
			t.Errorf("%s has no policy", k.name)
		}
	}
}
