package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/job"
)

// target is one account on the simulated platform. It counts requests and effects
// itself: the oracle is not the store.
type target struct {
	name    string
	traits  job.Traits
	unsure  bool // it has to be asked for them
	twins   bool // all jobs post the same
	account account
	// ill is what is wrong with it, and answered when it last said something of a request.
	ill      illness
	answered time.Time
	posts    []*simPost
	keys     map[string]*simPost // by effect key, as long as it is remembered
	// containers are what HANDLE targets keep under a handle.
	containers map[string]*container
}

// simPost is one effect.
type simPost struct {
	id, key, text string
	job           *simJob
	attempt       int
	at, visible   time.Time
}

// container is a prepared effect of a HANDLE target.
type container struct {
	job     *simJob
	attempt int
	text    string
	// taken: the commit was accepted, and its processing ends at ends.
	taken  bool
	ends   time.Time
	fails  bool
	posted *simPost
}

// simConnector is the platform as one node sees it.
type simConnector struct{ *node }

func (simConnector) Describe() connector.Description {
	return connector.Description{
		Name: "scripted", Payloads: []string{"scripted"},
		Classes: []job.Class{job.Keyed, job.Handle, job.Observable, job.Opaque},
	}
}

func (c simConnector) target(settings []byte) *target { return c.w.targets[int(settings[0])] }

func (c simConnector) Traits(settings []byte) (job.Traits, error) {
	return c.target(settings).traits, nil
}

func (c simConnector) Check(settings []byte, _ connector.Credential) (connector.Capability, error) {
	t := c.target(settings)
	identity := t.name
	if c.w.doubled && t.traits.Class == job.Observable {
		identity = ""
	}
	return connector.Capability{Traits: t.stated(), Unsure: t.unsure, Identity: identity}, nil
}

// AccountOf is connector.Identifier: a watermark has the account's name where Check does not
// know it.
func (c simConnector) AccountOf(mark string) string {
	name, _, found := strings.Cut(mark, ": ")
	if !found {
		return ""
	}
	return name
}

// stated is what holds of a target that was not asked.
func (t *target) stated() job.Traits {
	out := t.traits
	if t.unsure {
		out.Class = job.Observable
	}
	return out
}

// Probe asks a target what it can do.
func (c simConnector) Probe(ctx context.Context, o connector.Opening) (job.Traits, error) {
	t := c.target(o.Settings)
	return t.traits, c.before("Probe", ctx, o, func() error { return nil })
}

// before makes a call before an arm. What it meets there costs a try, unless it is
// told to wait, or to log in again.
func (c simConnector) before(op string, ctx context.Context, o connector.Opening, act func() error) (err error) { //nolint:revive // the context is the call's
	w, j := c.w, c.w.byID[o.Job]
	defer func() {
		p := recover()
		var refusal *connector.Refusal
		waits := errors.As(err, &refusal) && (refusal.Kind == job.FailAuth || refusal.Kind == job.FailRateLimited)
		if p != nil || err != nil && !waits {
			w.meets(c.node, j)
		}
		if p != nil {
			panic(p)
		}
	}()
	return c.ask(op, o.Job, 0, ctx, func() error {
		switch {
		case w.hit(faultPanicBefore):
			return errPanic
		case w.hit(faultUnreachable):
			return errConnector
		case w.refuses(c.target(o.Settings), o.Credential.Version, faultAuth):
			return &connector.Refusal{Kind: job.FailAuth, Msg: "the credential was refused"}
		}
		return act()
	})
}

func (c simConnector) Prepare(r connector.Request) (connector.Prepared, error) {
	t := c.target(r.Settings)
	text := textOfPayload(r)
	if r.Offline { // as a firing is decided, in the director's turn: the job is not there yet
		return connector.Prepared{HoldKey: "account"}, nil
	}
	if r.ReplyTo != "" {
		text += " to " + r.ReplyTo
	}
	out := connector.Prepared{HoldKey: "account", Frozen: []byte(text)}
	switch t.traits.Class {
	case job.Keyed:
		if !t.unsure {
			out.Frozen = []byte(r.EffectKey + ":" + text)
		}
	default:
	}
	if t.stated().Class == job.Observable {
		out.Gate = simDigest(text)
	}
	id, known := c.w.byEffect[r.EffectKey]
	if !known {
		return out, fmt.Errorf("the effect key %q is of no job", r.EffectKey)
	}
	act := func() error {
		if c.w.hit(faultPanicBefore) {
			return errPanic
		}
		return nil
	}
	if c.asking.Load() {
		if act() != nil {
			panic("the connector panics")
		}
		return out, nil
	}
	defer func() {
		if p := recover(); p != nil {
			c.w.meets(c.node, c.w.byID[id])
			panic(p)
		}
	}()
	return out, c.ask("Prepare", id, 0, nil, act)
}

// ask parks one call to the platform.
func (n *node) ask(op string, id job.ID, attempt int, ctx context.Context, act func() error) error { //nolint:revive // the context is the call's, often none
	return n.asked(call{op: op, job: id, n: int64(attempt), ctx: ctx, act: act})
}

func (n *node) asked(c call) error {
	c.node, c.platform = n, true
	err := n.w.director.do(c)
	if err == errPanic { //nolint:errorlint // the value itself is the signal
		panic("the connector panics")
	}
	return err
}

func (c simConnector) Open(ctx context.Context, o connector.Opening) (connector.Session, error) {
	w := c.w
	err := c.before("Open", ctx, o, func() error {
		if t := c.target(o.Settings); t.ill == refuses {
			return t.refusal()
		}
		if w.hit(faultRefusedBefore) {
			kind := []job.FailureKind{job.FailTransient, job.FailRateLimited, job.FailTransient, job.FailPermanent}[w.upTo(4)]
			asked := time.Duration(w.upTo(int(3 * time.Minute)))
			w.refused(o.Job, kind, asked)
			return &connector.Refusal{Kind: kind, Msg: "refused before the send", RetryAfter: asked}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return c.session(o), nil
}

func (c simConnector) session(o connector.Opening) *simSession {
	return &simSession{
		node: c.node, target: c.target(o.Settings), job: c.w.byID[o.Job], frozen: o.Prepared.Frozen, version: o.Credential.Version,
	}
}

// HasIdle says so unless none ever does.
func (c simConnector) HasIdle() bool { return c.w.warm > 0 }

// OpenIdle returns a line that was used before, by chance.
func (c simConnector) OpenIdle(o connector.Opening) connector.Session {
	if c.w.upTo(100) >= c.w.warm || c.target(o.Settings).ill == refuses {
		return nil
	}
	return c.session(o)
}

func (c simConnector) Watermark(ctx context.Context, o connector.Opening) (mark string, err error) {
	w, t := c.w, c.target(o.Settings)
	err = c.before("Watermark", ctx, o, func() error {
		if mark = t.newest(); w.doubled {
			mark = t.name + ": " + mark
		}
		return nil
	})
	return mark, err
}

// newest names the newest post that can be seen.
func (t *target) newest() string {
	now := time.Now()
	for _, p := range slices.Backward(t.posts) {
		if !p.visible.After(now) {
			return p.id
		}
	}
	return ""
}

// Observe reads the posts back to the watermark.
func (c simConnector) Observe(ctx context.Context, o connector.Opening, l connector.Look) job.Observation {
	w, t, j := c.w, c.target(o.Settings), c.w.byID[o.Job]
	if _, id, found := strings.Cut(l.First.Watermark, ": "); found {
		l.First.Watermark = id
	}
	if l.Any {
		return c.lookForContent(ctx, o, l)
	}
	var ids []string
	var began time.Time
	refused := false
	err := c.ask("Observe", o.Job, l.First.Number, ctx, func() error {
		began, j.looked = w.director.current.arrived, time.Now()
		w.lookIsSound(c.node, j, l)
		switch {
		case w.hit(faultPanicBefore):
			return errPanic
		case w.hit(faultBlindLook):
			return errConnector
		case w.refuses(t, o.Credential.Version, faultAuth):
			refused = true
			return errConnector
		}
		// Replicas may be behind, but never in a row as often as absences are asked for.
		if j.stale < t.traits.Negatives-1 && w.hit(faultStaleLook) {
			j.stale++
		} else {
			ids = t.after(l.First.Watermark, textOfFrozen(t, l.First.Frozen), w.cutoff(j, l))
		}
		return nil
	})
	switch {
	case refused:
		return job.Observation{Verdict: job.SawInconclusive, Kind: job.FailAuth, Detail: "the credential was refused"}
	case err != nil:
		return job.Observation{Verdict: job.SawInconclusive, Detail: blindLook}
	}
	taken, err := l.Taken(ctx, ids)
	if j.posted(ids, taken) {
		j.stale = 0
	}
	if err != nil {
		return job.Observation{Verdict: job.SawInconclusive, Detail: err.Error()}
	}
	ids = slices.DeleteFunc(ids, func(id string) bool { return taken[id] })
	switch len(ids) {
	case 0:
		c.w.absent(j, began)
		return job.Observation{Verdict: job.SawAbsent}
	case 1:
		return job.Observation{Verdict: job.SawPresent, ExternalID: ids[0]}
	default:
		c.w.saw(j)
		return job.Observation{Verdict: job.SawCandidates, Detail: strings.Join(ids, ", ")}
	}
}

// posted reports whether one of these posts is the job's, and not taken for another's.
func (j *simJob) posted(ids []string, taken map[string]bool) bool {
	return slices.ContainsFunc(j.posts, func(p *simPost) bool { return slices.Contains(ids, p.id) && !taken[p.id] })
}

func textOfFrozen(t *target, frozen []byte) string {
	if t.traits.Class == job.Keyed && !t.unsure {
		_, text, _ := strings.Cut(string(frozen), ":")
		return text
	}
	return string(frozen)
}

// after returns the posts with the text that can be seen, are newer than the
// watermark and were made before the cutoff: at its fence, an attempt cannot act.
func (t *target) after(mark, text string, cutoff time.Time) []string {
	var ids []string
	now := time.Now()
	for _, p := range slices.Backward(t.posts) {
		if p.id == mark {
			break
		}
		if p.text == text && !p.visible.After(now) && p.at.Before(cutoff) {
			ids = append(ids, p.id)
		}
	}
	return ids
}

// Poll returns what became of a handle.
func (c simConnector) Poll(ctx context.Context, o connector.Opening, handle string) job.Outcome {
	w, t, j := c.w, c.target(o.Settings), c.w.byID[o.Job]
	var out job.Outcome
	err := c.ask("Poll", o.Job, 0, ctx, func() error {
		switch {
		case w.hit(faultBlindLook):
			return errConnector
		case w.refuses(t, o.Credential.Version, faultAuth):
			out = simUnknown("the credential was refused")
			out.Kind = job.FailAuth
			return nil
		}
		box := t.containers[handle]
		switch {
		case box == nil:
			out = simUnknown(noHandle)
		case box.posted != nil:
			out = job.Outcome{Result: job.ResultSucceeded, ExternalID: box.posted.id}
		case !box.taken:
			out = simRejected(job.FailTransient, 200)
			out.Message = "not committed"
			w.denies(j, box.attempt)
		case box.ends.After(time.Now()):
			out = job.Outcome{Result: job.ResultAccepted, Handle: handle}
		case box.fails:
			out = simRejected(job.FailPermanent, 200)
			w.denies(j, box.attempt)
			w.refused(o.Job, out.Kind, out.RetryAfter)
		}
		return nil
	})
	if err != nil {
		return simUnknown(blindPoll)
	}
	return out
}

// simSession is one opened line.
type simSession struct {
	*node
	target *target
	job    *simJob
	frozen []byte
	// version is that of the credential that it was opened with.
	version int
}

func (s *simSession) Close() {}

// Publish makes the attempt's one commit request.
func (s *simSession) Publish(c connector.Commit) job.Outcome {
	handle := ""
	if s.target.traits.Class == job.Handle {
		if refused := s.contain(c, &handle); refused != nil {
			return *refused
		}
	}
	var out job.Outcome
	err := s.asked(call{
		op: "Publish", job: s.job.id, n: int64(c.Attempt),
		act: func() error {
			err := s.send(c, handle, &out)
			if out.Result == job.ResultRejected {
				s.w.denies(s.job, c.Attempt)
			}
			return err
		},
		delivered: func() { s.w.answered(s, c.Attempt, out) },
	})
	if err != nil {
		return simUnknown("the process is dead")
	}
	return out
}

// contain makes the prepare step of a HANDLE target: nothing of it can be seen.
func (s *simSession) contain(c connector.Commit, handle *string) *job.Outcome {
	unsent := func(why string) *job.Outcome {
		return &job.Outcome{Result: job.ResultNotSent, Kind: job.FailTransient, Message: why}
	}
	err := s.ask("Container", s.job.id, c.Attempt, nil, func() error {
		if s.w.hit(faultUnreachable) {
			return errConnector
		}
		*handle = fmt.Sprintf("handle-%d-%d", s.job.index, c.Attempt)
		s.target.containers[*handle] = &container{job: s.job, attempt: c.Attempt, text: string(s.frozen)}
		return nil
	})
	if err != nil {
		return unsent("the container could not be made")
	}
	if err := c.SaveHandle(*handle); err != nil {
		return unsent("the handle could not be stored")
	}
	return nil
}
