package sim

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/memory"
)

// Rules of this file: the invariants I1 to I10 of docs/protocol.md, held against
// what was seen from outside. Nothing here asks the code that it checks.

// violation is a broken invariant.
type violation struct {
	name, what string
	job        *simJob
}

// broke notes the first violation and ends the world.
func (w *simWorld) broke(name string, j *simJob, format string, args ...any) {
	if *simOutside != "" {
		w.stats.breaches++ // counted: nothing is promised there
		return
	}
	if w.broken != nil {
		return
	}
	w.broken = &violation{name: name, what: fmt.Sprintf(format, args...), job: j}
	w.note("", "VIOLATION "+name, j.id, 0, w.broken.what)
	if !w.log.keep { // now: a broken world may do anything at its end
		fmt.Printf("SIM VIOLATION %s: seed %d: job %d: %s\n", name, w.seed, j.index, w.broken.what)
	}
	w.director.over = true
}

// legalMoves is the table of docs/protocol.md, read from the page itself.
var legalMoves = sync.OnceValue(func() map[string]bool {
	page, err := os.ReadFile("../../../docs/protocol.md")
	if err != nil {
		panic(err)
	}
	_, rest, _ := strings.Cut(string(page), "```transitions\n")
	table, _, _ := strings.Cut(rest, "```")
	moves := make(map[string]bool)
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		moves[f[0]+" "+f[2]] = true
	}
	return moves
})

// check holds what changed against the invariants.
func (w *simWorld) check() {
	w.ledgerIsTrue()
	version := w.store.Version()
	if version == w.seen {
		return
	}
	changed := w.store.Changed(w.seen)
	w.seen = version
	w.adopt(changed)
	for _, id := range changed {
		if j := w.byID[id]; j != nil {
			w.checkJob(j, w.store.Inspect(id))
		}
	}
	for _, id := range changed {
		if j := w.byID[id]; j != nil {
			w.objectIsOnes(j)
			w.waitsAsLong(j)
			w.oneOfAContent(j)
			w.fewInFlight(j)
		}
	}
	for _, j := range w.jobs { // also those that should have changed, and have not
		w.knowsItsPredecessor(j)
	}
}

func (w *simWorld) checkJob(j *simJob, r memory.Record) {
	before := j.last
	w.history(j, r)
	for i, a := range r.Attempts {
		if j.attempts[a.Number] == nil {
			w.newIntent(j, r, i)
		}
	}
	w.oneLiveIntent(j, r)
	w.proofsAreTrue(j, r)
	w.presenceIsAnEnd(j, r)
	j.last = r.Snapshot
	if before.State != r.Snapshot.State || effectID(before) != effectID(r.Snapshot) {
		w.endIsTrue(j)
	}
	if before.State != r.Snapshot.State {
		w.endHasAReason(j, before, r)
	}
}

func effectID(s job.Snapshot) string {
	if s.Effect == nil {
		return ""
	}
	return s.Effect.ExternalID
}

// history: I9 and I4.
func (w *simWorld) history(j *simJob, r memory.Record) {
	state := j.last.State
	news := r.Events[j.events:]
	switch {
	case len(news) == 2 && news[0].Cause == job.CauseClaimed && news[1].Cause == job.CauseArmed:
		w.stats.fused++
	case len(news) > 1:
		w.broke("I9", j, "one write made %d events", len(news))
	}
	for _, e := range news {
		j.events++
		w.note("", "event", j.id, e.Attempt, e.From.String()+" -> "+e.To.String()+" "+e.Cause.String())
		switch {
		case e.Sequence != int64(j.events):
			w.broke("I9", j, "event %d has sequence %d", j.events, e.Sequence)
		case e.From != state:
			w.broke("I9", j, "event %d starts from %s, the job was %s", j.events, e.From, state)
		case e.From != e.To && !legalMoves()[e.From.String()+" "+e.To.String()]:
			w.broke("I9", j, "%s -> %s is no legal transition", e.From, e.To)
		}
		if from := e.From; from != e.To {
			switch {
			case from == job.Succeeded:
				w.broke("I4", j, "SUCCEEDED became %s", e.To)
			case (from == job.Failed || from == job.Expired) && e.To == job.Retrying && e.Cause != job.CauseRetryRequested:
				w.broke("I4", j, "%s left for %s by %s", from, e.To, e.Cause)
			}
		}
		if e.Cause == job.CauseEffectShared || strings.Contains(e.Detail, "is the effect of job") {
			j.alarmed = true
		}
		if e.Cause == job.CauseDuplicateEffect || e.Cause == job.CauseEffectShared {
			w.stats.alarms++
		}
		w.connectionRules(j, e, r)
		w.looksPass(j, e, r.Snapshot)
		w.senderIsLost(j, e, r)
		w.nothingInADoubt(j, e)
		w.windowIsHeld(j, e, r.Snapshot)
		if e.To == job.NeedsResolution || e.Cause == job.CauseResolved {
			j.doubted = true
		}
		if e.Cause == job.CauseLooked && e.To == job.Ambiguous && e.Detail == ownersUnread {
			w.sighted(j)
		}
		w.waitsAsDocumented(j, e, r.Snapshot)
		state = e.To
	}
	s := r.Snapshot
	if s.State != state || s.Version != int64(len(r.Events)) || len(r.Events) != j.events {
		w.broke("I9", j, "%s at version %d after %d events, the last to %s", s.State, s.Version, len(r.Events), state)
	}
}

// newIntent: I3, and the attempt's times as they truly are.
func (w *simWorld) newIntent(j *simJob, r memory.Record, i int) {
	a, now := r.Attempts[i], job.Micros(time.Now()) // as the store cuts it
	if a.Number != i+1 || len(j.attempts) != i {
		w.broke("I1", j, "attempt %d after %d others", a.Number, len(j.attempts))
	}
	w.stats.arms++
	is := &simAttempt{
		round: a.Round, key: a.EffectKey, armed: now,
		sendBy: now.Add(a.SendDeadline.Sub(a.ArmedAt)), answerBy: now.Add(a.AnswerDeadline.Sub(a.ArmedAt)),
	}
	is.fence = is.answerBy.Add(simGrace)
	if works := is.sendBy.Add(j.target.traits.MaxHandling + simGrace); works.After(is.fence) {
		is.fence = works // as long as the target says that it works
	}
	is.repeats, is.worker = j.last.State == job.Ambiguous, a.Worker
	w.keepsApart(j, is)
	w.presenceWasLooked(j, a)
	w.startIsWanted(j, r)
	w.armIsFitting(j, r, i)
	w.passesBreakers(j, a.Number)
	w.countEarly(j, r)
	for _, m := range r.Attempts[:i] {
		if why := w.mayFollow(j, is, m); why != "" {
			w.broke("I3", j, "attempt %d armed while attempt %d is %s: %s", a.Number, m.Number, m.Result, why)
		}
	}
	j.attempts[a.Number] = is
}

// mayFollow returns why a new intent may not follow an earlier attempt.
func (w *simWorld) mayFollow(j *simJob, is *simAttempt, m memory.Attempt) string {
	was, now := j.attempts[m.Number], time.Now()
	switch m.Result {
	case job.ResultRejected, job.ResultNotSent, job.ResultAbsent:
		return ""
	default:
	}
	if j.target.traits.Class == job.Keyed && m.EffectKey == is.key {
		age := now.Sub(w.firstOf(j, was.round).armed)
		if age >= j.target.traits.KeyWindow && m.Number > j.ruled {
			return fmt.Sprintf("the key is %v old, and remembered for %v", age, j.target.traits.KeyWindow)
		}
		return ""
	}
	byPolicy := j.spec.Spec.Delivery == job.AtLeastOnce && was.round < is.round
	if !byPolicy && m.Number > j.ruled {
		return "nobody has closed it"
	}
	if now.Before(was.fence) && !w.clockJumps {
		return fmt.Sprintf("it may act for another %v", was.fence.Sub(now))
	}
	return ""
}

// firstOf returns the first attempt of a round.
func (w *simWorld) firstOf(j *simJob, round int) *simAttempt {
	for n := 1; n <= len(j.attempts); n++ {
		if a := j.attempts[n]; a.round == round {
			return a
		}
	}
	return nil
}

// oneLiveIntent: I1.
func (w *simWorld) oneLiveIntent(j *simJob, r memory.Record) {
	live := 0
	for _, a := range r.Attempts {
		if a.Result == 0 {
			live++
		}
	}
	sending := r.Snapshot.State == job.Sending
	last := len(r.Attempts) > 0 && r.Attempts[len(r.Attempts)-1].Result == 0
	if live > 1 || sending != (live == 1) || sending && !last {
		w.broke("I1", j, "%d intents without an outcome in state %s", live, r.Snapshot.State)
	}
}

// proofsAreTrue holds what is said of the attempts against the platform's own count.
func (w *simWorld) proofsAreTrue(j *simJob, r memory.Record) {
	for _, a := range r.Attempts {
		is := j.attempts[a.Number]
		if is == nil || is.result == a.Result {
			continue
		}
		is.result = a.Result
		switch a.Result {
		case job.ResultAbsent:
			w.absenceIsProven(j, a, r)
		case job.ResultRejected:
			if !is.refused {
				w.broke("I3", j, "attempt %d is said to be REJECTED, and the platform has not refused it", a.Number)
			}
		case job.ResultNotSent:
			if is.requests > 0 {
				w.broke("I3", j, "attempt %d is said to be NOT_SENT, and its request has left", a.Number)
			}
		case job.ResultSuperseded:
			j.doubted = true
			continue
		default:
			continue
		}
		posted := slices.ContainsFunc(j.posts, func(p *simPost) bool { return p.attempt == a.Number && !w.swapped(j, p) })
		if posted || is.pending {
			name := map[job.Result]string{job.ResultAbsent: "I8"}[a.Result]
			if name == "" {
				name = "I3"
			}
			w.broke(name, j, "attempt %d is said to be %s and has, or will have, an effect", a.Number, a.Result)
		}
	}
}

// absenceIsProven: I8, by the looks that the platform answered.
func (w *simWorld) absenceIsProven(j *simJob, a memory.Attempt, r memory.Record) {
	t := j.target.traits
	if w.clockJumps && !w.alone(j) || t.Class == job.Handle && r.Snapshot.Handle != "" {
		return
	}
	w.looks.Lock()
	defer w.looks.Unlock()
	from := j.attempts[len(j.attempts)].fence.Add(t.ReadLag)
	enough := 0
	for _, at := range j.absences {
		if !at.Add(time.Microsecond).Before(from) { // the store's times are cut to whole ones
			enough++
			from = at.Add(t.Spacing)
		}
	}
	if enough < t.Negatives {
		w.broke("I8", j, "attempt %d is absent by %d of %d looks that count", a.Number, enough, t.Negatives)
	}
}

// alone reports whether one process armed the last attempt, lives still, and is the
// only one: it goes by its own clock, whatever the database's says.
func (w *simWorld) alone(j *simJob) bool {
	n := w.nodes[0]
	return len(w.nodes) == 1 && n != nil && n == w.all[len(w.all)-1] && j.attempts[len(j.attempts)].armed.After(n.born) &&
		(len(w.all) == 1 || w.all[len(w.all)-2].dead.Load())
}

// absent notes a complete look that saw nothing.
func (w *simWorld) absent(j *simJob, began time.Time) {
	w.looks.Lock()
	defer w.looks.Unlock()
	j.absences = append(j.absences, began)
}

// sighted notes that such a look was written down: it speaks against the absences
// before it.
func (w *simWorld) sighted(j *simJob) {
	w.looks.Lock()
	defer w.looks.Unlock()
	j.absences = nil
}

// lookIsSound: I8 again, by what is asked of the platform: a look reads back to its
// round's first attempt, and up to where the last one could no longer act.
func (w *simWorld) lookIsSound(n *node, j *simJob, l connector.Look) {
	r := w.store.Inspect(j.id)
	r.Attempts = r.Attempts[:n.read[j.id]] // a look under a lost lease may not know of the last
	w.stats.looks++
	round := j.attempts[len(r.Attempts)].round
	first := 1
	for j.attempts[first].round != round {
		first++
	}
	if l.First.Number > first {
		w.broke("I8", j, "a look reads back to attempt %d only; the round's first is %d", l.First.Number, first)
	}
	if n.leased[j.id] != w.store.Steps() {
		return // a step has ended the lease, and moved the fences
	}
	var latest time.Time
	for _, a := range r.Attempts[first-1:] {
		if a.Result != job.ResultRejected && a.Result != job.ResultNotSent && l.Fence.Before(a.Fence) {
			w.broke("I8", j, "a look ends %v before the fence of attempt %d", a.Fence.Sub(l.Fence), a.Number)
		}
		latest = later(latest, a.Fence)
	}
	if l.Fence.After(latest) {
		w.broke("I8", j, "a look ends %v after no attempt could act any more", l.Fence.Sub(latest))
	}
}

// cutoff is the end of a look by the platform's clock.
func (w *simWorld) cutoff(j *simJob, l connector.Look) time.Time {
	if w.clockJumps { // the two clocks have nothing in common then
		return time.Now().Add(1)
	}
	return j.attempts[l.First.Number].armed.Add(l.Fence.Sub(l.First.ArmedAt))
}

// leaves: I2, at the moment of the write. It returns the attempt.
func (w *simWorld) leaves(s *simSession, c connector.Commit) *simAttempt {
	j, now := s.job, time.Now()
	w.stats.requests++
	w.note(s.name, "request", j.id, c.Attempt, "")
	a, r := j.attempts[c.Attempt], w.store.Inspect(j.id)
	if a == nil {
		w.broke("I2", j, "a byte without a durable intent of attempt %d", c.Attempt)
		return &simAttempt{armed: now, answerBy: now, fence: now}
	}
	a.requests++
	w.leavesAsProbe(j, c.Attempt)
	is := r.Attempts[c.Attempt-1]
	sum := sha256.Sum256(s.frozen)
	switch {
	case a.requests > 1:
		w.broke("I2", j, "%d requests of attempt %d", a.requests, c.Attempt)
	case is.EffectKey != c.EffectKey || !bytes.Equal(is.RequestDigest, sum[:]):
		w.broke("I2", j, "attempt %d sends other bytes, or another key, than its intent", c.Attempt)
	case is.Result == job.ResultRejected || is.Result == job.ResultNotSent || is.Result == job.ResultAbsent:
		w.broke("I2", j, "a byte of attempt %d, which is %s", c.Attempt, is.Result)
	case now.After(a.sendBy):
		w.broke("LATE_SEND", j, "attempt %d was sent %v after its deadline", c.Attempt, now.Sub(a.sendBy))
	}
	for n := j.ruled + 1; n < c.Attempt; n++ {
		m, window := j.attempts[n], j.target.traits.KeyWindow
		repeats := window > 0 && m.key == a.key && m.requests > 0 && !m.refused
		if repeats && a.fence.Sub(m.armed) > window && !w.clockJumps {
			w.broke("I3", j, "attempt %d may repeat attempt %d until %v after the key is forgotten", c.Attempt, n, a.fence.Sub(m.armed)-window)
		}
	}
	if parent := w.byID[j.spec.Spec.ReplyTo]; parent != nil && parent.last.State != job.Succeeded {
		w.broke("REPLY", j, "attempt %d is sent while job %d, which it replies to, is %s", c.Attempt, parent.index, parent.last.State)
	}
	for n := 1; n < c.Attempt; n++ {
		if m := j.attempts[n]; m.accepted && m.round == a.round && n > j.ruled {
			w.broke("SECOND_COMMIT", j, "attempt %d commits, and attempt %d was accepted", c.Attempt, n)
		}
	}
	return a
}

// effectIsOne: I6, as an effect is made.
func (w *simWorld) effectIsOne(s *simSession, p *simPost) {
	j := s.job
	if made, most := w.own(j), j.mayHave(); made > most {
		w.stats.second++
		w.broke("I6", j, "%d effects, at most %d are wanted", made, most)
	}
	w.beatHasOneEffect(j, p)
	if j.target.twins {
		most := 0
		for _, other := range w.jobs {
			if other.target == j.target {
				most += other.mayHave()
			}
		}
		if made := len(j.target.posts); made > most {
			w.broke("I6", j, "%d effects of twins, at most %d are wanted", made, most)
		}
	}
	a := j.attempts[p.attempt]
	switch j.last.State {
	case job.Failed, job.Canceled, job.Expired:
		if a != nil && w.tellable(j) && (j.spec.Spec.Delivery != job.AtLeastOnce || a.round == j.last.Round) {
			w.broke("FALSE_"+j.last.State.String(), j, "an effect of attempt %d after the end", p.attempt)
		}
	default:
	}
}

// boundOnce: I7.
func (w *simWorld) boundOnce(j *simJob, c store.Created) {
	if c.Created == !j.scheduleTime.IsZero() || c.Snapshot.ID != j.id {
		w.broke("I7", j, "the key gave job %s, created %t", c.Snapshot.ID, c.Created)
	}
	if c.Created {
		j.scheduleTime = c.Snapshot.ScheduleTime
	} else if !j.moved && !c.Snapshot.ScheduleTime.Equal(j.scheduleTime) {
		w.broke("I7", j, "the key's time was %v and is %v", j.scheduleTime, c.Snapshot.ScheduleTime)
	}
}

// answered notes which calls the platform told of an effect, or that it wants no request now.
func (w *simWorld) answered(s *simSession, attempt int, out job.Outcome) {
	a := s.job.attempts[attempt]
	a.unknown = a.requests > 0 && out.Result == job.ResultUnknown
	switch {
	case out.Result == job.ResultSucceeded:
		s.job.told = append(s.job.told, s.node)
	case out.Result != job.ResultRejected:
	case out.Kind == job.FailAuth:
		a.free, a.refusedVersion = true, s.target.account.version(s.version)
	case out.Kind == job.FailRateLimited:
		a.free, a.wait = true, max(out.RetryAfter, time.Second).Truncate(time.Microsecond)
	}
}

// atTheEnd: I5, and that no living worker has learned of a success that the store does not have.
func (w *simWorld) atTheEnd() {
	asked := make(map[*target]int)
	owned := make(map[string]bool)
	for _, j := range w.jobs {
		s := j.last
		if !s.State.Terminal() && s.State != job.NeedsResolution {
			w.broke("I5", j, "%s when everything was over", s.State)
		}
		living := slices.ContainsFunc(j.told, func(n *node) bool { return !n.dead.Load() && !n.stopping })
		if living && s.State != job.Succeeded {
			w.broke("LOST_SUCCESS", j, "%s, and a living worker was told of its success", s.State)
		}
		if s.State != job.Succeeded || effectID(s) == "" {
			asked[j.target] += max(j.mayHave(), 1)
		} else {
			owned[effectID(s)] = true
			asked[j.target] += max(j.mayHave(), 1) - 1
		}
		w.stats.ends[s.State]++
	}
	for _, t := range w.targets {
		if !t.twins {
			continue
		}
		free := 0
		for _, p := range t.posts {
			if !owned[p.id] {
				free++
			}
		}
		if free > asked[t] {
			w.broke("FALSE_FAILED", t.posts[0].job, "%d posts of twins settle no job, and %d jobs have none", free, asked[t])
		}
	}
}
