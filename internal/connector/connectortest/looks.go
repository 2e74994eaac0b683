package connectortest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

// Looks is what the suite needs of an Observer: raw answers of a platform whose
// account had nothing when the watermark was read.
type Looks struct {
	// Mark answers the one request of a watermark; nil: Empty does.
	Mark func(at time.Time) string
	// Empty lists nothing, completely, at a time of the platform.
	Empty func(at time.Time) string
	// Found lists, completely, n objects with the content of Suite.Request, all made
	// at that time. The first of them is ExternalID.
	Found      func(at time.Time, n int) string
	ExternalID string
	// IDAt is ExternalID for ids that tell when their object was made.
	IDAt func(at time.Time) string
	// Broken are answers of status 200 that prove nothing, by what is wrong with them.
	Broken map[string]func(at time.Time) string
	// Transient is set if every failing status means the same: the answer is not a
	// read.
	Transient bool
}

// mark answers what a watermark reads.
func (l *Looks) mark(at time.Time) Script {
	if l.Mark != nil {
		return Say(l.Mark(at))
	}
	return Say(l.Empty(at))
}

// lookSpan is the time from the arm to the suite's fence. It is short, because the
// suite's looks follow the watermark immediately.
const lookSpan = time.Second

// testLooks: what looks is read-only, and only a complete read proves anything.
func (s Suite) testLooks(t *testing.T) {
	now := time.Now()
	t.Run("traits", func(t *testing.T) {
		tr := s.trial(t)
		settings := tr.Request(tr.URL()).Settings
		checked, err := tr.c.Check(settings, s.Credential)
		if err != nil {
			t.Fatal(err)
		}
		got, err := tr.observer(t).Traits(settings)
		if err != nil || got != checked.Traits {
			t.Errorf("traits %+v, %v; Check says %+v", got, err, checked.Traits)
		}
		_, err = tr.observer(t).Traits([]byte{0xff})
		checkInput(t, err, connector.BadSettings, s.Secrets)
	})
	t.Run("verdicts", func(t *testing.T) { s.testVerdicts(t, now) })
	t.Run("faults", func(t *testing.T) { s.testReadFaults(t, now) })
	t.Run("statuses", func(t *testing.T) { s.testReadStatuses(t, now) })
	t.Run("unreachable", s.testUnreachable)
	t.Run("stored", func(t *testing.T) {
		tr := s.trial(t, s.Looks.mark(now))
		mark := tr.watermark(t)
		for name, spoil := range map[string]func(*connector.Look){
			"no watermark":  func(l *connector.Look) { l.First.Watermark = "" },
			"bad watermark": func(l *connector.Look) { l.First.Watermark = "{\"" },
			"no bytes":      func(l *connector.Look) { l.First.Frozen = nil },
			"bad bytes":     func(l *connector.Look) { l.First.Frozen = []byte{0xff} },
		} {
			l := tr.lookFor(mark)
			spoil(&l)
			if o := tr.observe(t, l); o.Verdict != job.SawInconclusive {
				t.Errorf("%s: %s", name, o.Verdict)
			}
		}
	})
}

// testVerdicts: what a complete read proves.
func (s Suite) testVerdicts(t *testing.T, now time.Time) {
	id := s.Looks.ExternalID
	if s.Looks.IDAt != nil {
		id = s.Looks.IDAt(now)
	}
	empty := Say(s.Looks.Empty(now))
	found := func(n int) Script { return Say(s.Looks.Found(now, n)) }
	all := func(_ context.Context, ids []string) (map[string]bool, error) {
		taken := make(map[string]bool)
		for _, id := range ids {
			taken[id] = true
		}
		return taken, nil
	}
	first := func(context.Context, []string) (map[string]bool, error) {
		return map[string]bool{id: true}, nil
	}
	failing := func(context.Context, []string) (map[string]bool, error) { return nil, errors.New("no store") }
	for name, c := range map[string]struct {
		answer Script
		taken  func(context.Context, []string) (map[string]bool, error)
		want   job.Verdict
	}{
		"none":                  {empty, nil, job.SawAbsent},
		"one":                   {found(1), nil, job.SawPresent},
		"two":                   {found(2), nil, job.SawCandidates},
		"one, another job's":    {found(1), all, job.SawAbsent},
		"two, one another's":    {found(2), first, job.SawPresent},
		"one, and nobody knows": {found(1), failing, job.SawInconclusive},
	} {
		t.Run(name, func(t *testing.T) {
			tr := s.trial(t, s.Looks.mark(now), c.answer)
			l := tr.lookFor(tr.watermark(t))
			l.Taken = c.taken
			o := tr.observe(t, l)
			if o.Verdict != c.want {
				t.Errorf("%s (%s), want %s", o.Verdict, o.Detail, c.want)
			}
			if name == "one" && o.ExternalID != id {
				t.Errorf("found %q, want %q", o.ExternalID, id)
			}
			if name == "two" && !strings.Contains(o.Detail, id) {
				t.Errorf("the candidates are not named: %q", o.Detail)
			}
		})
	}
	for name, answer := range s.Looks.Broken {
		t.Run(name, func(t *testing.T) {
			tr := s.trial(t, s.Looks.mark(now), Say(answer(now)))
			if o := tr.observe(t, tr.lookFor(tr.watermark(t))); o.Verdict != job.SawInconclusive {
				t.Errorf("%s (%s)", o.Verdict, o.Detail)
			}
		})
	}
}

// testReadFaults: a read that breaks is no absence, and no watermark.
func (s Suite) testReadFaults(t *testing.T, now time.Time) {
	for _, f := range s.faults() {
		if f.want[0].Result == job.ResultSucceeded {
			continue
		}
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			limit := longTime
			if f.short {
				limit = shortTime
			}
			s.blind(t, now, f.script, limit)
			tr := s.trial(t, f.script)
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			mark, err := tr.observer(t).Watermark(ctx, tr.opening())
			if err == nil {
				t.Errorf("watermark %q", mark)
			}
			checkMessage(t, fmt.Sprint(err), s.Secrets)
			tr.onlyReads(t)
		})
	}
}

// blind looks at a platform that does this to the look, and returns the observation.
func (s Suite) blind(t *testing.T, now time.Time, script Script, limit time.Duration) job.Observation {
	t.Helper()
	tr := s.trial(t, s.Looks.mark(now), script)
	l := tr.lookFor(tr.watermark(t))
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	begun := time.Now()
	o := tr.observer(t).Observe(ctx, tr.opening(), l)
	if late := time.Since(begun) - limit; late > slack {
		t.Errorf("the look came back %v after its time", late)
	}
	if o.Verdict != job.SawInconclusive {
		t.Errorf("%s (%s) from a read that failed", o.Verdict, o.Detail)
	}
	checkMessage(t, o.Detail, s.Secrets)
	tr.onlyReads(t)
	return o
}

// testReadStatuses: only status 200 is a read, and a 200 without a readable list is
// none either. A look reports a refused credential, but does not report one that is
// valid for other calls.
func (s Suite) testReadStatuses(t *testing.T, now time.Time) {
	for _, code := range codes {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			t.Parallel()
			script := Status(code, "Location: /again", "Retry-After: 120")
			refused := code == http.StatusUnauthorized && !s.Looks.Transient
			if o := s.blind(t, now, script, longTime); (o.Kind == job.FailAuth) != refused || o.Kind != 0 && !refused {
				t.Errorf("a look of kind %s", o.Kind)
			}
			tr := s.trial(t, script)
			_, err := tr.observer(t).Watermark(t.Context(), tr.opening())
			want := s.readRefusal(code)
			var refusal *connector.Refusal
			if !errors.As(err, &refusal) || refusal.Kind != want && want != 0 {
				t.Fatalf("watermark: %v, want a Refusal of kind %s", err, want)
			}
			if want == job.FailRateLimited && refusal.RetryAfter != 2*time.Minute {
				t.Errorf("retry after %v", refusal.RetryAfter)
			}
			checkMessage(t, err.Error(), s.Secrets)
			tr.onlyReads(t)
		})
	}
	t.Run("echo", func(t *testing.T) { s.blind(t, now, Echo, longTime) })
	empty := s.Looks.Empty(now)
	head, body, found := strings.Cut(empty, "\r\n\r\n")
	if !found || !strings.HasPrefix(empty, "HTTP/1.1 200 ") {
		t.Fatalf("Looks.Empty is no answer of status 200: %q", empty)
	}
	length := fmt.Sprintf("Content-Length: %d\r\n", len(body))
	if head += "\r\n"; !strings.Contains(head, length) {
		t.Fatalf("Looks.Empty does not say its length: %q", empty)
	}
	for _, code := range []int{201, 202, 203, 206, 300, 404, 500} {
		t.Run(fmt.Sprintf("%d with a list", code), func(t *testing.T) {
			s.blind(t, now, Say(strings.Replace(empty, " 200 ", fmt.Sprintf(" %d ", code), 1)), longTime)
		})
	}
	for name, raw := range map[string]string{
		"a list that was to be longer":  strings.Replace(empty, length, fmt.Sprintf("Content-Length: %d\r\n", len(body)+1), 1),
		"a list without its last chunk": fmt.Sprintf("%s\r\n%x\r\n%s\r\n", strings.Replace(head, length, "Transfer-Encoding: chunked\r\n", 1), len(body), body),
	} {
		t.Run(name, func(t *testing.T) { s.blind(t, now, SayAndClose(raw), longTime) })
	}
}

// testUnreachable: a platform that cannot be reached proves nothing.
func (s Suite) testUnreachable(t *testing.T) {
	now := time.Now()
	t.Run("nobody listens", func(t *testing.T) {
		tr := s.trial(t, s.Looks.mark(now))
		l := tr.lookFor(tr.watermark(t))
		tr.Close()
		if o := tr.observe(t, l); o.Verdict != job.SawInconclusive {
			t.Errorf("%s (%s)", o.Verdict, o.Detail)
		}
		_, err := tr.observer(t).Watermark(t.Context(), tr.opening())
		checkRefusal(t, err, job.FailTransient, s.Secrets)
	})
	t.Run("egress denied", func(t *testing.T) {
		tr := s.trial(t, s.Looks.mark(now))
		l := tr.lookFor(tr.watermark(t))
		before := tr.Accepted()
		tr.c = s.connector(t, transport.NewSender(transport.Config{}), tr.URL())
		if o := tr.observe(t, l); o.Verdict != job.SawInconclusive {
			t.Errorf("%s (%s)", o.Verdict, o.Detail)
		}
		_, err := tr.observer(t).Watermark(t.Context(), tr.opening())
		checkRefusal(t, err, job.FailEgressDenied, s.Secrets)
		if tr.Accepted() != before {
			t.Error("a denied address was connected to")
		}
	})
	t.Run("context over", func(t *testing.T) {
		tr := s.trial(t, s.Looks.mark(now))
		l := tr.lookFor(tr.watermark(t))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if o := tr.observer(t).Observe(ctx, tr.opening(), l); o.Verdict != job.SawInconclusive {
			t.Errorf("%s (%s)", o.Verdict, o.Detail)
		}
	})
}

// readRefusal returns the kind of a refusal to read; zero: any.
func (s Suite) readRefusal(code int) job.FailureKind {
	switch {
	case s.Looks.Transient:
		return job.FailTransient
	case code == http.StatusForbidden && s.Table[code].Kind != job.FailAuth:
		return 0 // a read may be another right
	case code == http.StatusUnauthorized, code == http.StatusForbidden:
		return job.FailAuth
	case code == http.StatusTooManyRequests:
		return job.FailRateLimited
	default:
		return job.FailTransient
	}
}

func (tr *trial) observer(t *testing.T) connector.Observer {
	t.Helper()
	o, ok := tr.c.(connector.Observer)
	if !ok {
		t.Fatal("an OBSERVABLE connector that is no Observer")
	}
	return o
}

// watermark reads a watermark that must come.
func (tr *trial) watermark(t *testing.T) string {
	t.Helper()
	mark, err := tr.observer(t).Watermark(t.Context(), tr.opening())
	if err != nil || mark == "" {
		t.Fatalf("watermark %q, %v", mark, err)
	}
	for _, secret := range tr.Secrets {
		if strings.Contains(mark, secret) {
			t.Errorf("a secret is in the watermark %q", mark)
		}
	}
	tr.onlyReads(t)
	return mark
}

// lookFor is a look for the suite's request, armed just now.
func (tr *trial) lookFor(mark string) connector.Look {
	at := time.Now()
	return connector.Look{
		First: job.Attempt{Number: 1, Round: 1, ArmedAt: at, Frozen: tr.prepared.Frozen, Watermark: mark},
		Fence: at.Add(lookSpan),
	}
}

// observe looks as the engine does: without a prepared request.
func (tr *trial) observe(t *testing.T, l connector.Look) job.Observation {
	t.Helper()
	opening := tr.opening()
	opening.Prepared = connector.Prepared{}
	o := tr.observer(t).Observe(t.Context(), opening, l)
	checkMessage(t, o.Detail, tr.Secrets)
	if (o.ExternalID != "") != (o.Verdict == job.SawPresent) {
		t.Errorf("%s with id %q", o.Verdict, o.ExternalID)
	}
	tr.onlyReads(t)
	return o
}

// onlyReads: whatever arrived cannot have an effect.
func (tr *trial) onlyReads(t *testing.T) {
	t.Helper()
	for _, r := range tr.Requests() {
		if tr.Reads != nil {
			if !tr.Reads(r) {
				t.Errorf("a look sent %q", r.Line)
			}
			continue
		}
		if !strings.HasPrefix(r.Line, "GET ") && !strings.HasPrefix(r.Line, "HEAD ") || len(r.Body) > 0 {
			t.Errorf("a look sent %q with %d bytes", r.Line, len(r.Body))
		}
	}
}
