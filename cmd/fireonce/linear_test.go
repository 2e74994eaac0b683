//go:build failpoints

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	rpc "connectrpc.com/connect"
	"github.com/anishathalye/porcupine"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1/fireoncev1connect"
	"github.com/fireonce/fireonce/internal/failpoint"
	"github.com/fireonce/fireonce/internal/proof/chaos/commitproxy"
	"github.com/fireonce/fireonce/internal/proof/pgtest"
)

// Rules of this file: every call is an operation of its own in the history, with the
// times of its begin and end by one clock. A call without an answer stays open forever,
// and its client repeats the same request in a new call.

const (
	linearClients = 1000
	// sharers is how many clients share one key. The checker's work grows fast with the
	// number of concurrently open calls of a key.
	sharers = 5
	// linearRounds is how many keys a client uses, one after another.
	linearRounds = 2
	callsAtAKey  = 3
	// linearKills is how many servers the test kills, besides those that die at
	// failpoints.
	linearKills = 3
	// impatient: in one of this many calls, the client stops waiting after a moment.
	impatient = 40
	// maxPatience bounds the time after which such a client stops waiting.
	maxPatience = 12 * time.Millisecond
)

// linear is many clients of one fleet, and the history of their calls.
type linear struct {
	*fleet
	seed       uint64
	connection string
	url        string // of the webhooks
	base       time.Time
	http       *http.Client
	reached    chan struct{} // gets a token after a number of further answered calls
	rounds     int
	step       int64

	began    time.Time
	answered atomic.Int64
	kills    int

	mu      sync.Mutex
	history []porcupine.Operation
}

// TestSubmitsAreLinearizable checks that the answers to clients that submit and read under
// shared keys, while servers die, are consistent with one order of all calls.
func TestSubmitsAreLinearizable(t *testing.T) {
	t.Parallel()
	for _, d := range deployments {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			url := ""
			var wire *commitproxy.Proxy
			if d == onPostgres {
				c := pgtest.Shared(t)
				wire = startWire(t, c, func(k commitproxy.Kind, n int) bool { return k == commitproxy.Create && n%5 == 0 })
				url = wire.URL(pgtest.Role, c.NewDatabase(t))
			}
			l := newLinear(t, d, url)
			l.run(scaled(linearRounds), linearKills)
			l.report(wire)
			l.judge()
		})
	}
}

func newLinear(t *testing.T, d deployment, url string) *linear {
	t.Helper()
	to := startHooks(t, true, nil)
	f := newFleet(t, d, url, "--log-level", "warn")
	transport := &http.Transport{MaxIdleConnsPerHost: linearClients}
	t.Cleanup(transport.CloseIdleConnections)
	l := &linear{
		fleet: f, seed: rand.Uint64(), url: to.URL("once"), base: time.Now().Add(24 * time.Hour),
		http: &http.Client{Transport: transport},
	}
	// Servers die in two ways: with a job that is durable but not acknowledged, or at any
	// time. The test ends the lives without a failpoint; there are more of them than it
	// ends.
	const byHand = failpoint.Submitted + ":1000000000"
	f.start(failpoint.Submitted+":150", byHand, failpoint.Submitted+":250", byHand, byHand, byHand, byHand)
	// Jobs that are due immediately must not keep the machine busy.
	slow := to.connection()
	slow.Limits = &connectionsv1.ConnectionLimits{MaxPerMinute: 1}
	l.connection = f.connect(slow)
	return l
}

// run makes every client call with a number of keys, and kills servers from time to time.
func (l *linear) run(rounds, kills int) {
	l.Helper()
	l.rounds, l.step = rounds, int64(linearClients*rounds*callsAtAKey/(kills+1))
	l.reached = make(chan struct{}, kills+2)
	l.began = time.Now()
	ctx, cancel := context.WithTimeout(l.Context(), time.Duration(rounds)*patience)
	defer cancel()
	var clients sync.WaitGroup
	keys := l.keysOf()
	for i := range linearClients {
		clients.Go(func() { l.client(ctx, i, keys[i]) })
	}
	over := make(chan struct{})
	go func() {
		clients.Wait()
		close(over)
	}()
	for done := false; !done; {
		select {
		case <-l.reached:
			if p, _, err := l.from(ctx, l.kills); err == nil && l.kills < kills {
				p.Kill()
				l.kills++
			}
		case <-over:
			done = true
		}
	}
	l.readAll(ctx, slices.Concat(keys...))
}

// keysOf returns the keys of each client. Other clients share each of them.
func (l *linear) keysOf() [][]string {
	random := rand.New(rand.NewPCG(l.seed, 0))
	out := make([][]string, linearClients)
	for round := range l.rounds {
		for place, client := range random.Perm(linearClients) {
			out[client] = append(out[client], fmt.Sprintf("key-%d-%d", round, place/sharers))
		}
	}
	return out
}

func (l *linear) client(ctx context.Context, id int, keys []string) {
	random := rand.New(rand.NewPCG(l.seed, uint64(id)+1))
	for _, key := range keys {
		for range callsAtAKey {
			a := ask{key: key, read: random.IntN(3) == 0}
			if !a.read {
				a.content = l.content(random, key)
			}
			if err := l.insist(ctx, random, id, a); err != nil {
				l.Errorf("client %d: %v: %v", id, a, err)
				return
			}
		}
	}
}

// readAll reads every key once more, after all other calls.
func (l *linear) readAll(ctx context.Context, keys []string) {
	l.Helper()
	slices.Sort(keys)
	keys = slices.Compact(keys)
	const readers = 16
	var reading sync.WaitGroup
	for i := range readers {
		reading.Go(func() {
			random := rand.New(rand.NewPCG(l.seed, uint64(linearClients+i)+1))
			for k := i; k < len(keys); k += readers {
				if err := l.insist(ctx, random, linearClients+i, ask{key: keys[k], read: true}); err != nil {
					l.Errorf("read %s: %v", keys[k], err)
				}
			}
		})
	}
	reading.Wait()
}

// content returns one of the requests that clients make with a key: mostly the same one,
// which may be for a time or for as soon as possible.
func (l *linear) content(random *rand.Rand, key string) content {
	n := int64(0)
	for _, b := range []byte(key) {
		n = n*31 + int64(b)
	}
	w := content{text: key}
	if n%3 != 0 {
		w.at = l.base.Add(time.Duration(n%100_000) * time.Millisecond).UnixMicro()
	}
	switch random.IntN(8) {
	case 0:
		w.text += " and more"
	case 1:
		w.at = l.base.Add(48 * time.Hour).UnixMicro()
	case 2:
		w.window = time.Hour
	case 3:
		w.text, w.window = w.text+" and more", time.Hour
	}
	return w
}

// request returns a request for a content, in one of several equivalent forms.
func (l *linear) request(random *rand.Rand, a ask) *fireoncev1.ScheduleJobRequest {
	req := &fireoncev1.ScheduleJobRequest{
		IdempotencyKey: a.key, Connection: &fireoncev1.ScheduleJobRequest_ConnectionId{ConnectionId: l.connection},
		Payload: &fireoncev1.Payload{Kind: &fireoncev1.Payload_Webhook{Webhook: &fireoncev1.Webhook{
			Url: l.url, Content: &fireoncev1.Webhook_BodyText{BodyText: a.content.text},
		}}},
		Labels: map[string]string{"random": fmt.Sprint(random.IntN(10))},
	}
	if random.IntN(2) == 0 {
		req.Connection = &fireoncev1.ScheduleJobRequest_ConnectionId{ConnectionId: strings.ToUpper(req.GetConnectionId())}
	}
	if a.content.at != 0 {
		req.ScheduleTime = timestamppb.New(time.UnixMicro(a.content.at).Add(time.Duration(random.IntN(1000))))
	}
	if a.content.window != 0 {
		req.StartWindow = durationpb.New(a.content.window)
	}
	return req
}

// insist repeats one request until a server has answered it.
func (l *linear) insist(ctx context.Context, random *rand.Rand, id int, a ask) error {
	req := l.request(random, a)
	for {
		p, _, err := l.from(ctx, random.IntN(len(l.slots)))
		if err != nil {
			return err
		}
		patient, cancel := ctx, context.CancelFunc(func() {})
		if random.IntN(impatient) == 0 {
			patient, cancel = context.WithTimeout(ctx, time.Duration(random.Int64N(int64(maxPatience))))
		}
		begin := time.Since(l.began).Nanoseconds()
		r, err := l.call(patient, p, a, req)
		end := time.Since(l.began).Nanoseconds()
		cancel()
		switch {
		case err != nil:
			return err
		case r.verdict != lost:
			l.note(operation(id, begin, end, a, r))
			if l.answered.Add(1)%l.step == 0 {
				l.reached <- struct{}{}
			}
			return nil
		case !a.read: // a read without an answer has no effect
			l.note(operation(id, begin, never, a, r))
		}
		select {
		case <-time.After(clientPause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (l *linear) note(op porcupine.Operation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.history = append(l.history, op)
}

// call makes one call at one server. It fails for an answer that these clients must never
// get.
func (l *linear) call(ctx context.Context, p *process, a ask, req *fireoncev1.ScheduleJobRequest) (reply, error) {
	jobs := fireoncev1connect.NewJobServiceClient(l.http, p.url)
	if a.read {
		resp, err := jobs.GetJob(ctx, &fireoncev1.GetJobRequest{Job: &fireoncev1.GetJobRequest_IdempotencyKey{IdempotencyKey: a.key}})
		if err != nil {
			return replyOf(err, fireoncev1.ErrorReason_ERROR_REASON_JOB_NOT_FOUND)
		}
		return replyWith(found, resp.GetJob()), nil
	}
	resp, err := jobs.ScheduleJob(ctx, req)
	switch {
	case err != nil:
		return replyOf(err, fireoncev1.ErrorReason_ERROR_REASON_IDEMPOTENCY_KEY_REUSED)
	case resp.GetCreated():
		return replyWith(created, resp.GetJob()), nil
	default:
		return replyWith(repeated, resp.GetJob()), nil
	}
}

// replyWith returns an answer with a job.
func replyWith(v verdict, j *fireoncev1.Job) reply {
	when := j.GetScheduleTime().AsTime()
	r := reply{verdict: v, job: j.GetJobId(), when: when.UnixMicro(), holds: content{
		text: j.GetPayload().GetWebhook().GetBodyText(), at: when.UnixMicro(), window: j.GetStartWindow().AsDuration(),
	}}
	if when.Nanosecond()%1000 != 0 {
		r.when = 0 // it has no schedule time
	}
	return r
}

// replyOf converts an error to an answer. The error must be the one that may occur, or
// leave the outcome open.
func replyOf(err error, may fireoncev1.ErrorReason) (reply, error) {
	if !final(err) {
		return reply{}, nil
	}
	var e *rpc.Error
	if !errors.As(err, &e) {
		return reply{}, err
	}
	for _, d := range e.Details() {
		value, broken := d.Value()
		detail, ok := value.(*fireoncev1.ErrorDetail)
		if broken != nil || !ok || detail.GetReason() != may {
			continue
		}
		if may == fireoncev1.ErrorReason_ERROR_REASON_JOB_NOT_FOUND {
			return reply{verdict: notFound}, nil
		}
		c := detail.GetIdempotencyConflict()
		fields := slices.Sorted(slices.Values(c.GetMismatchedFields()))
		return reply{
			verdict: refused, job: c.GetJobId(), when: c.GetScheduleTime().AsTime().UnixMicro(), fields: strings.Join(fields, " "),
		}, nil
	}
	return reply{}, err
}

// judge checks the history, and checks that the checker refuses a wrong one.
func (l *linear) judge() {
	l.Helper()
	keys := byKey(l.history)
	begun := time.Now()
	verdict := check(l.history)
	l.Logf("seed %d: %d keys are %s, in %s", l.seed, len(keys), verdict, time.Since(begun).Round(time.Millisecond))
	if verdict != porcupine.Ok {
		l.show(keys)
		l.Fatalf("seed %d: the history is %s", l.seed, verdict)
	}
	l.distinct(keys)
	l.forged(keys)
}

// show prints the histories of the keys that are wrong.
func (l *linear) show(keys map[string][]porcupine.Operation) {
	l.Helper()
	shown := 0
	for key, ops := range keys {
		if shown == 3 {
			return
		}
		verdict, info := porcupine.CheckOperationsVerbose(submits, lostLast(ops), checkLimit/10)
		if verdict == porcupine.Ok {
			continue
		}
		shown++
		path := filepath.Join(l.ArtifactDir(), key+".html")
		if err := porcupine.VisualizePath(submits, info, path); err != nil {
			l.Error(err)
		}
		l.Errorf("%s is %s; drawn in %s (kept with -artifacts)", key, verdict, path)
		slices.SortFunc(ops, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
		for _, op := range ops {
			end := "the end"
			if op.Return != never {
				end = time.Duration(op.Return).String()
			}
			l.Logf("  client %d from %s to %s: %v → %v", op.ClientId, time.Duration(op.Call), end, op.Input, op.Output)
		}
	}
}

// distinct checks that each key has a job of its own, and that there are no other jobs.
func (l *linear) distinct(keys map[string][]porcupine.Operation) {
	l.Helper()
	holder := make(map[string]string)
	for key, ops := range keys {
		for _, op := range ops {
			id := op.Output.(reply).job
			if other, known := holder[id]; known && id != "" && other != key {
				l.Errorf("job %s is of %s and of %s", id, other, key)
			}
			holder[id] = key
		}
	}
	delete(holder, "")
	p, _, err := l.from(waiting(l), 0)
	if err != nil {
		l.Fatal(err)
	}
	jobs := fireoncev1connect.NewJobServiceClient(l.http, p.url)
	n := 0
	for token, more := "", true; more; more = token != "" {
		page, err := jobs.ListJobs(waiting(l), &fireoncev1.ListJobsRequest{PageSize: 500, PageToken: token})
		if err != nil {
			l.Fatal(err)
		}
		n += len(page.GetJobs())
		for _, j := range page.GetJobs() {
			if key, known := holder[j.GetJobId()]; !known || key != j.GetIdempotencyKey() {
				l.Errorf("job %s is stored under %s; clients were told %q", j.GetJobId(), j.GetIdempotencyKey(), key)
			}
		}
		token = page.GetNextPageToken()
	}
	if n != len(holder) {
		l.Errorf("%d jobs are stored, clients were told of %d", n, len(holder))
	}
}

// forged changes one answer of a correct history in each of several ways.
func (l *linear) forged(keys map[string][]porcupine.Operation) {
	l.Helper()
	const each = 20
	for name, f := range forgeries {
		tried, caught := 0, 0
		for key, ops := range keys {
			if ops = forge(ops, f.of, f.change); ops == nil || tried == each {
				continue
			}
			tried++
			if verdict := check(ops); verdict == porcupine.Illegal {
				caught++
			} else {
				l.Errorf("seed %d: %s, in %s: the verdict is %s", l.seed, name, key, verdict)
			}
		}
		if tried == 0 {
			l.Errorf("%s: no history has what it takes", name)
		}
		l.Logf("forged, %s: %d of %d caught", name, caught, tried)
	}
}

// report logs what happened, and fails the test if too little did.
func (l *linear) report(wire *commitproxy.Proxy) {
	l.Helper()
	counts := make(map[verdict]int)
	for _, op := range l.history {
		counts[op.Output.(reply).verdict]++
	}
	unsaid := 0
	for _, ops := range byKey(l.history) {
		said := func(v verdict) bool {
			return slices.ContainsFunc(ops, func(op porcupine.Operation) bool { return op.Output.(reply).verdict == v })
		}
		if said(found) && !said(created) {
			unsaid++
		}
	}
	l.fleet.mu.Lock()
	deaths := -l.kills
	for _, n := range l.killed {
		deaths += n
	}
	l.fleet.mu.Unlock()
	l.Logf("seed %d: %d clients, %d calls in %s: %v; servers killed: %d, died before an answer: %d; jobs whose creator was not told: %d",
		l.seed, linearClients, len(l.history), time.Since(l.began).Round(time.Millisecond), counts, l.kills, deaths, unsaid)
	if wire != nil {
		l.Log(wire)
		if wire.Lost(commitproxy.Create) == 0 {
			l.Error("no answer to a COMMIT was lost")
		}
	}
	for v := lost; v <= notFound; v++ {
		if counts[v] == 0 {
			l.Errorf("no call was %v", v)
		}
	}
	if l.kills == 0 || deaths == 0 || unsaid == 0 {
		l.Error("too little went wrong")
	}
}
