package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/schedulesv1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/firing"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/recur"
	"github.com/fireonce/fireonce/internal/schedule"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: recurring worlds have schedules, which each node's scheduler fires
// beside its engine, through the same store, and which people change meanwhile. Only what is
// drawn here, and only in such worlds, is drawn beside what other worlds draw.

// recurring is what a world of schedules has besides.
type recurring struct {
	schedules []*simSchedule
	clerk     *schedule.Scheduler // of the server that people's requests come to
	decided   bool                // something was written about schedules
	down      bool                // no server runs
	dark      time.Duration       // for so long none did
	doubt     startDoubt

	// What the theme chose.
	schedulesMost int                     // how many schedules; 0: none
	outage        time.Duration           // about how long each outage lasts; 0: there is none
	earlier       bool                    // and may end with an earlier time
	amid          func(job.Snapshot) bool // and begins while a job is so; nil: at any time
	cools         bool                    // connections and schedules have cool-downs
	present       time.Duration           // jobs look for content of that age first; 0: they do not
	disagree      bool                    // servers have different zone data
	manage        time.Duration           // mean time between two deeds at a schedule; 0: none
	only          []string                // the rules of schedules; nil: any
}

// simZones are those of all worlds: reading one takes longer than deciding.
var simZones = recur.NewZones("")

// beginInAYear brings a world to a day of the year: many of those before a change of the
// clocks in one of the two zones.
func (w *simWorld) beginInAYear() {
	days := []time.Time{
		time.Date(2000, 2, 1, 6, 0, 0, 0, time.UTC),
		time.Date(2000, 3, 25, 20, 0, 0, 0, time.UTC), time.Date(2000, 10, 28, 20, 0, 0, 0, time.UTC), // Vienna
		time.Date(2000, 4, 2, 3, 0, 0, 0, time.UTC), time.Date(2000, 10, 29, 2, 0, 0, 0, time.UTC), // New York
	}
	at := days[w.upTo(len(days))].Add(time.Duration(w.upTo(int(6 * time.Hour))))
	time.Sleep(time.Until(at))
	w.started = time.Now()
}

// coolsFor draws the cool-down of a target's connection.
func (w *simWorld) coolsFor(t *target) time.Duration {
	if !w.cools {
		return 0
	}
	t.account.limits.CoolDown = w.oneOf(0, time.Minute, 7*time.Minute, 20*time.Minute)
	return t.account.limits.CoolDown
}

// isDown puts off what a client asks for while no server runs.
func (w *simWorld) isDown(what string, again func()) bool {
	if w.down {
		w.director.plan(time.Duration(w.upTo(int(10*time.Minute))), what, again)
	}
	return w.down
}

// recur begins what recurring worlds have, before any node looks.
func (w *simWorld) recur() {
	registry, err := connector.NewRegistry(simConnector{&node{w: w, name: "clerk"}})
	if err != nil {
		w.t.Fatal(err)
	}
	w.clerk = schedule.New(schedule.Config{Store: w.store, Connectors: registry, Zones: simZones, NewID: w.newID})
	for range w.schedulesMost {
		w.schedule()
	}
	if w.manage > 0 {
		w.director.plan(time.Duration(w.upTo(int(2*w.manage))), "manage", w.tendSchedules)
	}
}

// planOutages draws how long the faults last, and the outages in that time.
func (w *simWorld) planOutages() (span time.Duration) {
	span = w.oneOf(30*time.Minute, 40*time.Minute, time.Hour, 2*time.Hour)
	if w.outage > 0 {
		for range 1 + w.upTo(2) {
			w.director.plan(time.Duration(w.upTo(int(span))), "outage", w.goDown)
		}
	}
	return span
}

// fire starts a node's scheduler.
func (w *simWorld) fire(ctx context.Context, n *node, registry *connector.Registry) {
	if w.schedulesMost == 0 {
		close(n.fires)
		return
	}
	zones := simZones
	if w.disagree && w.upTo(2) == 0 {
		w.stats.faults[faultZones]++
		zones = oldZones()
	}
	s := schedule.New(schedule.Config{Store: firingStore{nodeStore: nodeStore{n}}, Connectors: registry, Zones: zones, NewID: w.newID})
	go func() {
		defer close(n.fires)
		s.Run(ctx)
	}()
}

// firingStore is the store as a node's scheduler sees it. What it does not need is not there.
type firingStore struct {
	nodeStore
	store.DueSchedules
	store.Schedules
}

// errKilled is what a killed process has of a decision.
var errKilled = errors.New("killed")

// Fire parks, unless nothing is due: then it would read, and no more.
func (s firingStore) Fire(ctx context.Context, p store.FireParams) (fired []store.Fired, more bool, err error) {
	if s.dead.Load() {
		return nil, false, errDead
	}
	wait, err := s.w.store.NextFiring(ctx, time.Second, p.Except)
	if m, doubt := s.w.store.Meta(ctx); err == nil && doubt == nil && wait > 0 && !m.Clock.Suspends {
		return nil, false, nil
	}
	fired, err = parkCall(s.node, call{op: "Fire", ctx: ctx, writes: true}, func(ctx context.Context) ([]store.Fired, error) {
		w := s.w
		w.decided = true
		asked := p
		killed := !s.dead.Load() && w.hit(faultKilledDeciding)
		asked.Decide = func(due store.DueSchedule) store.FireDecision {
			d := p.Decide(due)
			if killed {
				panic(errKilled) // before anything is written: the transaction is rolled back
			}
			return d
		}
		out, left, err := w.fireOnce(ctx, asked)
		more = left
		if errors.Is(err, errKilled) || err == nil && !s.dead.Load() && len(out) > 0 && w.hit(faultKilledFired) {
			w.crash(s.node)
		}
		return out, err
	})
	return fired, more && err == nil, err
}

// fireOnce is Fire, whose caller may be killed in it.
func (w *simWorld) fireOnce(ctx context.Context, p store.FireParams) (out []store.Fired, more bool, err error) {
	defer func() {
		if r := recover(); r != nil {
			if r != errKilled { //nolint:errorlint // the value itself is the signal
				panic(r)
			}
			err = errKilled
		}
	}()
	return w.store.Fire(ctx, p)
}

// NextFiring does not park, as NextDue does not.
func (s firingStore) NextFiring(ctx context.Context, limit time.Duration, except []job.ID) (time.Duration, error) {
	if s.dead.Load() {
		return 0, errDead
	}
	return s.w.store.NextFiring(ctx, limit, except)
}

// Watch implements store.Store.
func (s firingStore) Watch(kind store.WatchKind) (<-chan struct{}, func()) {
	return s.nodeStore.Watch(kind)
}

// simSchedule is what is known of a schedule from outside.
type simSchedule struct {
	id     job.ID
	index  int
	target *target
	text   string // of its jobs, before the name of the firing
	spans  []*simSpan
	coolDown,
	window time.Duration
	overlap, unresolved schedulesv1.OverlapPolicy
	catchUp             schedulesv1.CatchUpPolicy
	paused              bool
	rows                map[string]store.Firing
	owners              map[job.ID]string
	instants            map[string]string // of its own times, by when they are
	triggers            map[string]job.ID
}

// simSpan are times under one spec, from an instant on.
type simSpan struct {
	rule       simRule
	generation int64
	from       time.Time // by the store's clock
}

func (c *simSchedule) span() *simSpan { return c.spans[len(c.spans)-1] }

// believed is the store's time.
func (w *simWorld) believed() time.Time {
	for _, j := range w.jobs {
		if s := w.store.Inspect(j.id).Snapshot; s.Version > 0 {
			return s.Now
		}
	}
	return w.dbNow()
}

// newRule draws a rule among those that the world has.
func (w *simWorld) newRule() simRule {
	only := w.only
	if only == nil {
		only = []string{"5m", "*/10", "*/20", "0,30", "2,9", "15m", "hourly"}
	}
	r := simRules[only[w.upTo(len(only))]]
	r.zone = []string{"Europe/Vienna", "America/New_York"}[w.upTo(2)]
	return r
}

// schedule makes a schedule.
func (w *simWorld) schedule() {
	at := w.upTo(len(w.targets))
	c := &simSchedule{
		id: w.newID(), index: len(w.schedules), target: w.targets[at], rows: make(map[string]store.Firing), owners: make(map[job.ID]string),
		instants: make(map[string]string), triggers: make(map[string]job.ID),
		overlap: schedulesv1.OverlapPolicy(1 + w.upTo(3)), unresolved: schedulesv1.OverlapPolicy(1 + w.upTo(3)), catchUp: schedulesv1.CatchUpPolicy(1 + w.upTo(3)),
		window: w.oneOf(20*time.Minute, time.Hour, 2*time.Hour), text: fmt.Sprintf("beat of %d ", len(w.schedules)),
	}
	if c.target.twins {
		c.text = ""
	}
	if w.cools && w.upTo(2) == 0 {
		c.coolDown = w.oneOf(time.Minute, 12*time.Minute, 30*time.Minute)
	}
	policies := &schedulesv1.SchedulePolicies{
		Overlap: c.overlap, WhileUnresolved: c.unresolved, CatchUp: c.catchUp, CatchUpWindow: durationpb.New(w.oneOf(time.Hour, 6*time.Hour, 24*time.Hour)),
	}
	if c.coolDown > 0 {
		policies.CoolDown = durationpb.New(c.coolDown)
	}
	template := &schedulesv1.JobTemplate{
		Content: &schedulesv1.JobTemplate_Payload{Payload: bodyOf(c.text + "{{nominal_name}}")}, StartWindow: durationpb.New(c.window),
		Delivery: fireoncev1.Delivery([]job.Delivery{job.OnceOrAsk, job.OnceOrAsk, job.AtMostOnce, job.AtLeastOnce}[w.upTo(4)]),
	}
	if c.target.twins {
		template.Content = &schedulesv1.JobTemplate_Payload{Payload: bodyOf("the same")}
	}
	if w.present > 0 && c.target.stated().Class == job.Observable {
		template.SkipIfPresent = &fireoncev1.SkipIfPresent{MaxAge: durationpb.New(w.present)}
	}
	rule := w.newRule()
	now := w.believed()
	c.spans = []*simSpan{{rule: rule, generation: 1, from: now}}
	s := store.Schedule{
		ID: c.id, Project: "default", Key: fmt.Sprint("schedule ", c.index), Spec: w.encoded(rule.spec()), Template: w.encoded(template),
		Policies: w.encoded(policies), Connection: c.target.account.conn, State: store.ScheduleActive, Cursor: w.cursor(c), Next: now,
	}
	if _, _, err := w.store.CreateSchedule(context.Background(), store.NewSchedule{Schedule: s}); err != nil {
		w.t.Fatal(err)
	}
	w.note("client", "schedule", job.ID{}, c.index, fmt.Sprintf("%s %s: %s, overlap %d %d, catch-up %d, cool-down %v", rule.zone, rule.name, c.target.name, c.overlap, c.unresolved, c.catchUp, c.coolDown))
	w.schedules = append(w.schedules, c)
}

func (w *simWorld) encoded(m proto.Message) []byte {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		w.t.Fatal(err)
	}
	return b
}

// cursor is the place in time of a schedule that fires from now on.
func (w *simWorld) cursor(c *simSchedule) string {
	s := c.span()
	times, err := schedule.Compile(c.id, s.generation, s.rule.spec(), simZones)
	if err != nil {
		w.t.Fatal(err)
	}
	cursor, err := firing.Begin(times, s.from)
	if err != nil {
		w.t.Fatal(err)
	}
	return cursor
}

func bodyOf(text string) *fireoncev1.Payload {
	return &fireoncev1.Payload{Kind: &fireoncev1.Payload_Webhook{Webhook: &fireoncev1.Webhook{
		Url: "https://example.com/", Content: &fireoncev1.Webhook_BodyText{BodyText: text},
	}}}
}

// payload is a text as a job's payload.
func (j *simJob) payload(text string) []byte {
	if j.schedule == nil {
		return []byte(text)
	}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(bodyOf(text))
	if err != nil {
		panic(err)
	}
	return b
}

// textOfPayload is what a request posts.
func textOfPayload(r connector.Request) string {
	if r.PayloadKind == "scripted" {
		return string(r.Payload)
	}
	var p fireoncev1.Payload
	if err := proto.Unmarshal(r.Payload, &p); err != nil {
		panic(err)
	}
	return p.GetWebhook().GetBodyText()
}

// adopt takes in the jobs that schedules have made.
func (w *simWorld) adopt(changed []job.ID) {
	if len(w.schedules) == 0 {
		return
	}
	for _, id := range changed {
		if w.byID[id] != nil {
			continue
		}
		s := w.store.Inspect(id).Snapshot
		i := slices.IndexFunc(w.schedules, func(c *simSchedule) bool { return c.id == s.Schedule })
		if i < 0 {
			continue
		}
		c := w.schedules[i]
		j := &simJob{
			id: id, index: len(w.jobs), spec: store.NewJob{Spec: s.Spec, Class: s.Class}, target: c.target, attempts: make(map[int]*simAttempt),
			met: make(map[string]int), lost: make(map[int]bool), schedule: c, scheduleTime: s.ScheduleTime, text: "the same",
		}
		for _, f := range w.ledger(c, 0) {
			if f.Job == id {
				j.beat = f.Name
			}
		}
		if j.beat == "" {
			w.broke("ONE_JOB", j, "made by no firing of schedule %d", c.index)
		}
		if !c.target.twins {
			j.text = c.text + j.beat
		}
		if own := store.FiringKey(c.id, j.beat); s.Key != own {
			w.broke("ONE_JOB", j, "the job of %s has the key %s", j.beat, s.Key)
		}
		w.jobs = append(w.jobs, j)
		w.byID[id] = j
		for round := range mostRounds {
			w.byEffect[job.EffectKey("", s.Project, s.Key, 1+round)] = id
		}
	}
}

// tendSchedules lets people do what they do with schedules, and plans their next deed.
func (w *simWorld) tendSchedules() {
	if !w.plagued.Load() {
		return
	}
	w.director.plan(time.Duration(w.upTo(int(2*w.manage))), "manage", w.tendSchedules)
	if w.down {
		return
	}
	c := w.schedules[w.upTo(len(w.schedules))]
	if w.upTo(3) == 0 {
		w.trigger(c)
		return
	}
	s, err := w.store.Schedule(context.Background(), store.Ref{ID: c.id})
	if err != nil {
		w.t.Error(err)
		return
	}
	// What a person has read may be changed by the time that the person writes.
	respec := w.upTo(3) == 0 && !w.disagree
	w.director.plan(w.oneOf(0, time.Second, 30*time.Second), "change of a schedule", func() { w.changeSchedule(c, s, respec) })
}

// changeSchedule pauses, resumes or changes a schedule as it was read. Another write before
// refuses it, and the person reads again.
func (w *simWorld) changeSchedule(c *simSchedule, s store.Schedule, respec bool) {
	if !w.plagued.Load() || w.isDown("change of a schedule", func() { w.changeSchedule(c, s, respec) }) {
		return
	}
	ctx := context.Background()
	now, err := w.store.Schedule(ctx, store.Ref{ID: c.id})
	if err != nil {
		w.t.Error(err)
		return
	}
	was, read := len(c.spans), s.Revision
	change := store.ScheduleChange{Schedule: s, Actor: "client"}
	f := w.edit(c, &change, respec)
	w.decided = true
	_, err = w.store.ChangeSchedule(ctx, change)
	switch {
	case now.Revision != read && err == nil:
		w.broke("STALE", w.jobs[0], "a change of revision %d of schedule %d was written over %d", read, c.index, now.Revision)
	case errors.Is(err, store.ErrStale):
		w.stats.faults[faultScheduleChange]++
		c.spans = c.spans[:was]
		w.changeSchedule(c, now, respec)
		return
	case err != nil:
		w.t.Error(err)
		return
	}
	w.stats.faults[f]++
	c.paused = change.Schedule.State == store.SchedulePaused
	w.note("client", faultNames[f], job.ID{}, c.index, change.Schedule.Cursor)
}

// edit makes the change of a schedule.
func (w *simWorld) edit(c *simSchedule, change *store.ScheduleChange, respec bool) fault {
	s, now := &change.Schedule, w.believed()
	switch {
	case s.State == store.SchedulePaused:
		c.spans = append(c.spans, &simSpan{rule: c.span().rule, generation: c.span().generation, from: now})
		s.State, s.PauseCause, s.Note, s.Next, s.Cursor = store.ScheduleActive, 0, "", now, w.cursor(c)
		return faultScheduleResume
	case respec:
		c.spans = append(c.spans, &simSpan{rule: w.newRule(), generation: c.span().generation + 1, from: now})
		s.Spec, s.Generation, s.Cursor, s.Next = w.encoded(c.span().rule.spec()), c.span().generation, w.cursor(c), now
		return faultRespec
	default:
		if b := s.Buffered; b != nil {
			row := *b
			row.Outcome, row.Reason = store.FiringMissed, "paused"
			s.Counts.Missed++
			change.Firings = append(change.Firings, row)
		}
		s.State, s.PauseCause, s.Next, s.Buffered = store.SchedulePaused, store.PausedByPerson, time.Time{}, nil
		return faultSchedulePause
	}
}

// trigger asks for a job now, often under a key that has one: TRIGGER.
func (w *simWorld) trigger(c *simSchedule) {
	name := fmt.Sprint("k", w.upTo(4))
	w.decided = true
	f, created, err := w.clerk.Trigger(context.Background(), store.Ref{Project: "default", ID: c.id}, name, w.upTo(2) == 0)
	was, known := c.triggers[name]
	blocked, _ := errors.AsType[*firing.BlockedError](err)
	switch {
	case errors.Is(err, store.ErrClockSuspect), blocked != nil && !known:
	case err != nil:
		w.broke("TRIGGER", w.jobs[0], "trigger %s of schedule %d: %v", name, c.index, err)
	case known && (created || f.Job != was):
		w.broke("TRIGGER", w.jobs[0], "trigger %s of schedule %d made job %s, and now %s", name, c.index, was, f.Job)
	default:
		w.stats.faults[faultTrigger]++
		c.triggers[name] = f.Job
	}
}

// oldZones are those of a server whose zone data is years behind: no zone has summer time.
var oldZones = sync.OnceValue(func() *recur.Zones { return recur.NewZones("testdata/zones") })
