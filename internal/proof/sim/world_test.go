package sim

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/memory"
)

// simGrace is the engines' grace, and what the simulated platform is bound to: no
// request acts later than its answer's deadline plus this.
const simGrace = 30 * time.Second

// simWorld is one world: real engines over one store and one simulated platform,
// all that happens in it a function of its seed.
type simWorld struct {
	t        *testing.T
	seed     uint64
	director *director
	store    *memory.Store
	seen     uint64 // the store's version up to which all was checked
	targets  []*target
	halts    []halt // that have not ended
	holding  []halt // that hold windows, the ended ones too
	// breakers are those of connections, and breakAfter how many tries open one; 0: none does.
	breakers   []*simBreaker
	breakAfter int
	conns      []store.Connection
	nodes      []*node // by slot; nil: none lives there now
	all        []*node
	lives      int
	ids        uint64
	jobs       []*simJob
	byID       map[job.ID]*simJob
	// byEffect has the jobs by the effect keys of all rounds that they may come to.
	byEffect map[string]job.ID
	started  time.Time

	// What the seed chose.
	rates            [faults]int
	calm             time.Duration // mean time between two strokes at a node
	hurry            time.Duration // and between two deeds of people
	senders, lookers int
	poll, drain      time.Duration
	warm             int // how often, in a hundred, a line lies idle
	clockJumps       bool
	truthful         bool // persons are never wrong
	kind             simKind
	theme            *theme        // nil: everything
	alike, close     bool          // the jobs post the same, and at about the same time
	few              bool          // and are two to four
	brief            bool          // keys are remembered for minutes
	care             time.Duration // mean time between two deeds at a connection; zero: none
	cared            bool          // every connection has a credential
	renewals         bool          // that ends, and is renewed
	unsure           bool          // targets have to be asked what they can do
	narrow           bool          // start windows, too
	wide             bool          // or long ones
	doubled          bool          // each account has two connections, and only watermarks name it

	plagued atomic.Bool // faults strike
	healed  time.Time   // since when none does
	dbShift atomic.Int64
	// booted is when the machine of the store came up, and wrong what its clock showed.
	booted       time.Time
	wrong        []wrongness
	comingUp     time.Time // until when it may not know the time
	synchronized bool      // its kernel vouches for its clock where that is right
	// looks guards what the connector notes from the nodes' goroutines.
	looks sync.Mutex

	stats  simStats
	log    *simTrace
	broken *violation
	// paced are the times of early repeats, by connection and write.
	paced map[string][]time.Time
	// recurring is what a world of schedules has besides.
	recurring
}

// simJob is what is known of a job from outside.
type simJob struct {
	id       job.ID
	index    int
	text     string // what is to be posted
	spec     store.NewJob
	target   *target
	attempts map[int]*simAttempt
	posts    []*simPost
	// last is the job as it was checked last.
	last         job.Snapshot
	scheduleTime time.Time
	events       int
	// ruled is the last attempt that a person has ruled on; wronged, that the ruling may
	// have been wrong.
	ruled    int
	wronged  bool
	moved    bool // rescheduled
	canceled bool // a client asked for that
	retried  bool // a client had it start again after an end
	// A stop held its window, which began again.
	begunAgain bool
	ruling     job.Ruling // the last one
	// permanent: the platform has refused it for good at some time.
	permanent bool
	// asked is how long the platform's last refusal asked to wait.
	asked time.Duration
	// several: a look saw more than one object, or one that another job owned.
	several bool
	// doubted: it was given up once without a proof.
	doubted  bool
	absences []time.Time // complete looks that saw nothing, when they began
	stale    int         // how many replicas in a row were behind
	unread   int         // looks and polls in a row that failed; negative: not known
	// told are the nodes that the platform told of the effect.
	told    []*node
	alarmed bool // a second claim to its object was written down
	missed  bool // it fell due in a pause, and was not wanted then
	// leased is the version of the credential that it was claimed under last; claimed
	// says that the present step did that.
	leased  int
	claimed bool
	met     map[string]int // by worker, what it met before an arm that costs a try
	// lost are the attempts whose sender was taken for gone, and lostAt when that was first
	// decided about a version of the job.
	lost   map[int]bool
	lostAt map[int64]time.Time
	// beat is the firing that it is of, and schedule its schedule; zero: it is no firing's.
	beat     string
	schedule *simSchedule
	// presence is its last look for the content, and found that it ended by it.
	presence presence
	found    bool
	// looked is when the platform was last asked for its effect.
	looked time.Time
	// under is the claim token of the arm that was just written; zero: its claim wrote it.
	under job.ID
}

// simAttempt is one armed attempt, in true time.
type simAttempt struct {
	round                          int
	key                            string
	armed, sendBy, answerBy, fence time.Time
	requests                       int
	pending                        bool // the platform will act yet
	accepted                       bool // by the platform, for good or still in processing
	refused                        bool // by the platform
	result                         job.Result
	// free: the platform has asked for a wait, or has refused a credential, and its
	// worker has the answer.
	free bool
	// repeats another attempt whose outcome is unknown.
	repeats        bool
	worker         string
	wait           time.Duration
	refusedVersion *credential
	// unknown: its request has left, and its sender knows no answer. probeOf is the breaker whose
	// probe it was, and held when it took the time for its answer.
	unknown bool
	probeOf job.ID
	held    time.Time
}

func newSimWorld(t *testing.T, seed uint64, kind simKind) *simWorld {
	w := &simWorld{t: t, seed: seed, kind: kind, byID: make(map[job.ID]*simJob), byEffect: make(map[string]job.ID), started: time.Now(), paced: make(map[string][]time.Time)}
	w.director = newDirector(w, seed)
	if kind.recurring {
		w.beginInAYear()
	}
	w.log = newSimTrace(w)
	w.openStore()
	w.clockJumps, w.truthful = w.upTo(6) == 0, w.upTo(4) > 0
	w.synchronized = w.upTo(3) == 0
	w.senders, w.lookers = 1+w.upTo(6), 1+w.upTo(4)
	w.poll = w.oneOf(5*time.Second, 30*time.Second, 2*time.Minute, 10*time.Minute)
	w.drain = w.oneOf(time.Second, 20*time.Second, 45*time.Second)
	w.calm = w.oneOf(20*time.Second, time.Minute, 5*time.Minute, 20*time.Minute, 24*time.Hour)
	w.hurry = w.oneOf(10*time.Second, time.Minute, 3*time.Minute)
	w.drawRates()
	w.nodes = make([]*node, 1+w.upTo(3))
	w.warm = []int{0, 50, 100}[w.upTo(3)]
	w.care = w.oneOf(0, 0, time.Minute, 5*time.Minute)
	w.pick()
	for range 1 + w.upTo(4)/3 {
		w.connect()
	}
	w.plagued.Store(true)
	return w
}

// newID makes ids that sort as they were made.
func (w *simWorld) newID() (id job.ID) {
	w.ids++
	binary.BigEndian.PutUint64(id[:8], w.ids<<16|0x7000)
	binary.BigEndian.PutUint64(id[8:], 1<<63|w.seed)
	return id
}

// connect makes one connection to an account of its own.
func (w *simWorld) connect() {
	t := &target{
		name: fmt.Sprint("account ", len(w.targets)), keys: make(map[string]*simPost), containers: make(map[string]*container),
	}
	kind := w.upTo(7)
	if w.theme != nil && w.theme.class != 0 {
		kind = map[job.Class]int{job.Keyed: w.upTo(2), job.Handle: 2, job.Opaque: 3, job.Observable: 4}[w.theme.class]
	}
	if w.brief {
		kind = 1
	}
	switch kind {
	case 0:
		t.traits = job.Traits{Class: job.Keyed, KeyWindow: 24 * time.Hour}
	case 1:
		t.traits = job.Traits{Class: job.Keyed, KeyWindow: w.oneOf(time.Minute, 100*time.Second, 4*time.Minute, 8*time.Minute, 20*time.Minute)}
	case 2:
		t.traits = job.Traits{Class: job.Handle, ReadLag: w.oneOf(0, 5*time.Second), Negatives: 1}
	case 3:
		t.traits = job.Traits{Class: job.Opaque}
	default:
		t.traits = job.Traits{
			Class: job.Observable, ReadLag: w.oneOf(0, 10*time.Second, time.Minute), Negatives: 1 + w.upTo(3),
			Spacing: w.oneOf(20*time.Second, time.Minute),
		}
		t.twins = (w.alike || w.upTo(3) == 0) && !w.clockJumps
	}
	if t.traits.Class == job.Keyed {
		if t.traits.DedupesInFlight = w.upTo(3) > 0; !t.traits.DedupesInFlight {
			t.traits.MaxHandling = w.oneOf(0, time.Minute)
		}
	}
	t.unsure = t.traits.KeyWindow >= 24*time.Hour && w.upTo(3) == 0 || t.traits.Class == job.Observable && w.upTo(8) == 0
	if w.unsure {
		t.unsure = t.traits.Class == job.Keyed || t.traits.Class == job.Observable
	}
	w.targets = append(w.targets, t)
	sealed := w.openAccount(t)
	if w.upTo(3) == 0 && !w.doubled {
		t.account.limits = store.ConnectionLimits{MaxInFlight: 1 + w.upTo(5)}
	}
	conn, _, err := w.store.CreateConnection(context.Background(), store.NewConnection{
		Key: t.name, Sealed: sealed,
		Connection: store.Connection{
			ID: w.newID(), Project: "default", Connector: "scripted", Class: t.stated().Class, KeyWindow: t.traits.KeyWindow,
			Settings: []byte{byte(len(w.targets) - 1)}, MaxInFlight: t.account.limits.MaxInFlight, CoolDown: w.coolsFor(t),
		},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	t.account.conn, t.account.second = conn.ID, conn.ID
	if w.doubled {
		second := conn
		second.ID = w.newID()
		if second, _, err = w.store.CreateConnection(context.Background(), store.NewConnection{Key: t.name + " again", Connection: second}); err != nil {
			w.t.Fatal(err)
		}
		t.account.second = second.ID
	}
	w.conns = append(w.conns, conn)
}

// populate submits the jobs, some immediately and some in the course of time.
func (w *simWorld) populate() {
	most := 10
	if w.few {
		most = 3
	}
	if w.kind.breakers {
		most = 30
	}
	for i := range 2 + w.upTo(most) {
		at := w.upTo(len(w.targets))
		t := w.targets[at]
		text := fmt.Sprint("text ", i)
		if t.twins {
			text = "the same"
		}
		policy := []job.Delivery{job.OnceOrAsk, job.OnceOrAsk, job.AtMostOnce, job.AtLeastOnce}[w.upTo(4)]
		if w.theme != nil && w.theme.policy != 0 {
			policy = w.theme.policy
		}
		windows := []time.Duration{5 * time.Minute, 20 * time.Minute, time.Hour, 2 * time.Hour}
		if w.narrow {
			windows = []time.Duration{20 * time.Second, 45 * time.Second, 2 * time.Minute, 5 * time.Minute}
		}
		if w.wide {
			windows = []time.Duration{2 * time.Hour, 4 * time.Hour}
		}
		id, window := w.newID(), w.oneOf(windows...)
		n := store.NewJob{Class: t.stated().Class, Actor: "client", Spec: job.Spec{
			ID: id, Project: "default", Key: fmt.Sprint("job ", i), Connection: w.conns[at].ID, HoldKey: "account",
			PayloadKind: "scripted", Payload: []byte(text), Delivery: policy,
			StartWindow: window,
			Retry: job.RetryPolicy{
				MaxAttempts: w.upTo(6), KeepTrying: window, MinBackoff: w.oneOf(0, time.Second), AttemptTimeout: w.oneOf(0, 5*time.Second, time.Minute),
			},
		}}
		if w.present > 0 && t.traits.Class == job.Observable && !t.unsure {
			n.Spec.SkipIfPresent = w.present
		} else if i > 0 && w.upTo(6) == 0 {
			n.Spec.ReplyTo, n.Spec.WaitWindow = w.jobs[w.upTo(i)].id, waitOf(i)
		}
		if w.kind.breakers {
			n.Spec.Retry.MaxAttempts = 0
		}
		if i%2 > 0 {
			n.Spec.Connection = t.account.second
		}
		if w.upTo(4) > 0 {
			n.ScheduleTime = job.Micros(w.dbNow().Add(time.Duration(w.upTo(int(20 * time.Minute)))))
		}
		j := &simJob{id: n.Spec.ID, index: i, text: text, spec: n, target: t, attempts: make(map[int]*simAttempt), met: make(map[string]int), lost: make(map[int]bool)}
		w.jobs = append(w.jobs, j)
		w.byID[j.id] = j
		for round := range mostRounds {
			w.byEffect[job.EffectKey("", n.Spec.Project, n.Spec.Key, 1+round)] = j.id
		}
		in := time.Duration(w.upTo(int(10 * time.Minute)))
		if w.close {
			in, n.ScheduleTime = in/10, time.Time{}
			j.spec.ScheduleTime = n.ScheduleTime
		}
		if !n.Spec.ReplyTo.IsZero() || w.upTo(2) == 0 && !w.few {
			in += 10 * time.Minute * time.Duration(w.upTo(2)) // after what it replies to
		}
		w.director.plan(in, "submit", func() { w.submit(j) })
	}
}

// mostRounds is more than a job of a world ever comes to.
const mostRounds = 100

func (w *simWorld) dbNow() time.Time { return time.Now().Add(time.Duration(w.dbShift.Load())) }

// submit stores a job as a client does: again until it has an answer.
func (w *simWorld) submit(j *simJob) {
	if w.isDown("submit", func() { w.submit(j) }) {
		return
	}
	w.note("client", "submit", j.id, 0, "")
	created, err := w.store.Create(context.Background(), []store.NewJob{j.spec})
	if err == nil && errors.Is(created[0].Err, store.ErrReplyTo) {
		w.director.plan(time.Minute, "submit", func() { w.submit(j) })
		return
	}
	if err != nil || created[0].Err != nil {
		w.t.Errorf("create: %v %+v", err, created)
		return
	}
	w.boundOnce(j, created[0])
	if w.hit(faultLostAfter) || w.plagued.Load() && w.upTo(4) == 0 {
		w.stats.faults[faultAgain]++
		again := *j
		again.spec.Spec.ID = w.newID() // a client's retry knows nothing of the first id
		var repeat func()
		repeat = func() {
			if w.isDown("submit again", repeat) {
				return
			}
			created, err := w.store.Create(context.Background(), []store.NewJob{again.spec})
			if err != nil || created[0].Err != nil {
				w.t.Errorf("create again: %v %+v", err, created)
				return
			}
			w.boundOnce(j, created[0])
		}
		w.director.plan(time.Duration(w.upTo(int(10*time.Minute))), "submit again", repeat)
	}
}

// heal ends all faults: every slot has a living node, and all clocks and answers are right
// from now on. What is delayed comes in its time.
func (w *simWorld) heal() {
	w.comeUp()
	w.note("", "heal", job.ID{}, 0, "")
	w.plagued.Store(false)
	w.director.healed, w.healed = true, time.Now()
	w.probe()
	for _, n := range w.nodes {
		if n != nil {
			n.shift.Store(0)
		}
	}
	for len(w.halts) > 0 {
		w.endHalt(0)
	}
	for _, t := range w.targets {
		w.reconnect(t)
	}
	for slot := range w.nodes {
		w.revive(slot)
	}
}

// run is the whole life of a world.
func (w *simWorld) run() {
	w.populate()
	if w.kind.recurring {
		w.recur()
	}
	for slot := range w.nodes {
		w.start(slot)
	}
	w.director.plan(time.Duration(w.upTo(int(2*w.calm))), "trouble", w.trouble)
	w.director.plan(time.Duration(w.upTo(int(time.Minute))), "people", w.people)
	if w.care > 0 {
		w.director.plan(time.Duration(w.upTo(int(2*w.care))), "tend", w.tend)
	}
	if w.kind.breakers {
		for _, t := range w.targets {
			w.director.plan(time.Duration(w.upTo(int(5*time.Minute))), "ill", func() { w.sicken(t) })
		}
		w.director.plan(time.Duration(w.upTo(int(time.Hour))), "close a breaker", w.closeBreaker)
	}
	span := w.oneOf(40*time.Minute, time.Hour, 3*time.Hour)
	if w.kind.recurring {
		span = w.planOutages()
	}
	for end := w.started.Add(span); time.Now().Before(end.Add(w.dark)) && !w.director.over && !w.idle(); {
		w.director.run(time.Now().Add(10 * time.Minute))
	}
	if w.kind.liveness && !w.director.over {
		w.heal()
		w.endSchedules()
		if w.kind.breakers {
			w.illToTheEnd()
		}
		w.settleAll()
		w.breakersEnd()
	}
	w.finish()
}

// settleBound is how long every job may take to end once faults are over: replays,
// looks and back-offs within the longest window, a handle's polls, and what a job in
// doubt waits for an account without an owner.
const settleBound = 30*time.Hour + job.MaxHeld

// settleAll runs until every job has ended or waits for a person, and has rested for
// 20 minutes. Late evidence may legally move a job that waits for a person, and one
// that moved is given the time to come to rest again.
func (w *simWorld) settleAll() {
	end := time.Now().Add(settleBound)
	for !w.director.over && time.Now().Before(end) {
		if !w.allSettled() {
			w.director.run(time.Now().Add(10 * time.Minute))
			continue
		}
		w.director.run(time.Now().Add(20 * time.Minute))
		if w.allSettled() {
			break
		}
	}
	if !w.director.over {
		w.standsTooLong()
		w.atTheEnd()
	}
}

// idle reports whether nothing but idle polls is to come.
func (w *simWorld) idle() bool {
	return !w.kind.recurring && time.Since(w.started) > 30*time.Minute && w.allSettled()
}

// allSettled reports whether every job has ended or waits for a person, and nothing is
// under way that can still move one: no undecided write, and no outcome that a living
// process holds and has not stored.
func (w *simWorld) allSettled() bool {
	for _, j := range w.jobs {
		if s := j.last.State; !s.Terminal() && s != job.NeedsResolution {
			return false
		}
	}
	return len(w.director.limbo) == 0 && !w.director.outcomeUnderWay()
}

// finish kills every node that lives and waits for every goroutine.
func (w *simWorld) finish() {
	w.director.over = true
	synctest.Wait()
	w.director.admit() // who has just called is buried with the others
	w.stats.worlds, w.stats.jobs = 1, len(w.jobs)
	w.stats.simulated = time.Since(w.started)
	w.director.current = nil
	for _, n := range w.all {
		n.die()
	}
	for _, n := range w.all {
		<-n.done
		<-n.fires
	}
	for _, n := range w.nodes {
		if n != nil {
			w.stats.lives++
		}
	}
}
