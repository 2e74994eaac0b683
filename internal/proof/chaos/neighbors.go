package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/proof/chaos/attack"
	"github.com/fireonce/fireonce/internal/proof/chaos/fleet"
	"github.com/fireonce/fireonce/internal/proof/chaos/meter"
	"github.com/fireonce/fireonce/internal/proof/loopback"
)

// Rules of this file: a bystander submits jobs, reads them and receives their requests, first
// alone and then beside each attack of another project. Its p99 may be slower times the quiet
// one, or slowEnough if that is more, and none of its jobs expires. Each part is bounded in calls
// and in time; one with too few calls fails, and so does one whose attack did nothing.

const (
	// bystanders submit, read and wait for the request concurrently, bystanderCalls times each
	// in all, but not for longer than partTime.
	bystanders, bystanderCalls = 4, 1000
	partTime                   = 90 * time.Second
	slowEnough                 = 250 * time.Millisecond
	// bystanderWindow is the start window of the bystander's jobs, stockJobs is what the
	// attacker's scans read.
	bystanderWindow = 40 * time.Second
	stockJobs       = 20_000
	// attackLead is how long an attack goes on before anything is measured.
	attackLead = 4 * time.Second
)

// callArrive is the time from a submit's beginning to the arrival of its request.
const callArrive = "arrive"

var bystanderKinds = []string{callSubmit, callGet, callArrive}

// besideNeighbors measures on one engine after the other.
func besideNeighbors(ctx context.Context, o options, dir, binary string, w io.Writer) error {
	var wrong []string
	for _, engine := range o.engines {
		own := filepath.Join(dir, engine)
		if err := os.Mkdir(own, 0o700); err != nil {
			return err
		}
		found, err := neighborsOn(ctx, o, engine, own, binary, w)
		if err != nil {
			return fmt.Errorf("%s: %w", engine, err)
		}
		wrong = append(wrong, found...)
	}
	for _, why := range wrong {
		fmt.Fprintln(w, "×", why)
	}
	if len(wrong) > 0 {
		return errViolated
	}
	fmt.Fprintln(w, "no project stopped another one")
	return nil
}

func neighborsOn(ctx context.Context, o options, engine, dir, binary string, w io.Writer) (wrong []string, err error) {
	begun := time.Now()
	s, err := setUp(ctx, o, engine, dir, binary)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	at := s.fleet.Listeners()[0]
	b, err := newBystander(ctx, at.URL, s.keys.honest)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.receiver.Close()) }()
	n, err := attack.NewNeighbor(ctx, at.URL, s.keys.hostile.Write)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, n.Close()) }()
	if err := n.Stock(ctx, stockJobs); err != nil {
		return nil, err
	}
	quiet := b.measure(ctx, "quiet")
	parts := []*part{quiet}
	for _, a := range attack.NeighborAttacks() {
		attacking, end := context.WithCancel(ctx)
		var mu sync.Mutex
		acts := make(map[string]int)
		var work sync.WaitGroup
		work.Go(func() {
			a.Run(attacking, n, func(outcome string) {
				mu.Lock()
				defer mu.Unlock()
				acts[outcome]++
			})
		})
		fleet.Pause(ctx, attackLead)
		p := b.measure(ctx, a.Name)
		end()
		work.Wait()
		p.acts = acts
		parts = append(parts, p)
		fleet.Pause(ctx, lull)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	expired, err := b.expired(ctx)
	if err != nil {
		return nil, err
	}
	printParts(w, engine, parts, time.Since(begun))
	for _, p := range parts {
		for _, why := range p.wrong(quiet) {
			wrong = append(wrong, engine+", "+why)
		}
	}
	if expired > 0 {
		wrong = append(wrong, fmt.Sprintf("%s: %d jobs of the bystander are EXPIRED", engine, expired))
	}
	return wrong, nil
}

// part is what was measured beside one attack.
type part struct {
	name   string
	calls  map[string]meter.Latency
	failed map[string]int
	acts   map[string]int
}

// wrong returns what is wrong with a part beside the quiet one.
func (p *part) wrong(quiet *part) (why []string) {
	for _, kind := range bystanderKinds {
		got, most := p.calls[kind], max(slowEnough, slower*quiet.calls[kind].P99)
		if got.Calls < bystanderCalls {
			why = append(why, fmt.Sprintf("%s: %d calls of %s, and %d are needed", p.name, got.Calls, kind, bystanderCalls))
		}
		if p != quiet && got.P99 > most {
			why = append(why, fmt.Sprintf("%s: the p99 of %s is %s, more than %s", p.name, kind, ms(got.P99), ms(most)))
		}
	}
	if n := sum(p.failed); n > 0 {
		why = append(why, fmt.Sprintf("%s: %d calls failed: %v", p.name, n, p.failed))
	}
	if p == quiet {
		return why
	}
	for _, code := range []connect.Code{connect.CodePermissionDenied, connect.CodeUnauthenticated, connect.CodeUnimplemented} {
		if n := p.acts[code.String()]; n > 0 {
			why = append(why, fmt.Sprintf("%s: %d acts of the attack were %s: it is none", p.name, n, code))
		}
	}
	if sum(p.acts) == 0 {
		why = append(why, p.name+": the attack did nothing")
	}
	return why
}

func printParts(w io.Writer, engine string, parts []*part, took time.Duration) {
	fmt.Fprintf(w, "%s: a bystander beside the attacks of another project (%v)\n", engine, took.Round(time.Second))
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "  beside\tcalls each\tsubmit p50\tp99\tread p50\tp99\tsend p50\tp99\tverdict\tacts of the attack")
	for _, p := range parts {
		verdict := "ok"
		if len(p.wrong(parts[0])) > 0 {
			verdict = "FAILED"
		}
		s, g, a := p.calls[callSubmit], p.calls[callGet], p.calls[callArrive]
		fmt.Fprintf(out, "  %s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", p.name, min(s.Calls, g.Calls, a.Calls),
			ms(s.P50), ms(s.P99), ms(g.P50), ms(g.P99), ms(a.P50), ms(a.P99), verdict, strings.ReplaceAll(outcomes(p.acts), "\t", ": "))
	}
	_ = out.Flush()
}

// bystander is a project that works beside others.
type bystander struct {
	api      *fleet.API
	conn     string
	receiver *loopback.Server

	mu      sync.Mutex
	waiting map[string]chan struct{} // by the job's key: closed when its request has arrived
}

func newBystander(ctx context.Context, url, key string) (_ *bystander, err error) {
	b := &bystander{waiting: make(map[string]chan struct{})}
	if b.api, err = fleet.Dial(url, key); err != nil {
		return nil, err
	}
	if b.receiver, err = loopback.Listen(); err != nil { //nolint:contextcheck // it lives until it is closed
		return nil, err
	}
	b.receiver.Serve(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		b.mu.Lock()
		defer b.mu.Unlock()
		key := strings.TrimPrefix(r.URL.Path, "/")
		if arrived := b.waiting[key]; arrived != nil {
			close(arrived)
			delete(b.waiting, key)
		}
	}))
	made, err := b.api.Connections.CreateConnection(ctx, &connectionsv1.CreateConnectionRequest{
		IdempotencyKey: "bystander", Connection: &connectionsv1.Connection{Connector: "webhook", Settings: &connectionsv1.Connection_Webhook{
			Webhook: &connectionsv1.WebhookSettings{ReceiverDedupes: connectionsv1.ReceiverDedupes_RECEIVER_DEDUPES_NO},
		}},
	})
	b.conn = made.GetConnection().GetConnectionId()
	return b, err
}

// measure makes the bystander's calls.
func (b *bystander) measure(ctx context.Context, name string) *part {
	ctx, cancel := context.WithTimeout(ctx, partTime)
	defer cancel()
	calls := meter.NewCalls(time.Now)
	calls.Enter(meter.Quiet)
	p := &part{name: name, calls: make(map[string]meter.Latency), failed: make(map[string]int)}
	var all sync.WaitGroup
	var mu sync.Mutex
	for i := range bystanders {
		all.Go(func() {
			for n := 0; n < bystanderCalls/bystanders && ctx.Err() == nil; n++ {
				key := strings.ReplaceAll(fmt.Sprint("bystander-", name, "-", i, "-", n), " ", "-")
				if err := b.once(ctx, calls, key); err != nil && ctx.Err() == nil {
					mu.Lock()
					p.failed[err.Error()]++
					mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	for _, kind := range bystanderKinds {
		p.calls[kind] = calls.Latency(kind, meter.Quiet)
	}
	return p
}

// once submits a job, reads it, and waits for its request.
func (b *bystander) once(ctx context.Context, calls *meter.Calls, key string) error {
	arrived := make(chan struct{})
	b.mu.Lock()
	b.waiting[key] = arrived
	b.mu.Unlock()
	sent, submitted := calls.Begin(callArrive), calls.Begin(callSubmit)
	_, err := b.api.Jobs.ScheduleJob(ctx, &fireoncev1.ScheduleJobRequest{
		IdempotencyKey: key, Connection: &fireoncev1.ScheduleJobRequest_ConnectionId{ConnectionId: b.conn},
		Payload: &fireoncev1.Payload{Kind: &fireoncev1.Payload_Webhook{Webhook: &fireoncev1.Webhook{
			Url: b.receiver.URL() + "/" + key, Content: &fireoncev1.Webhook_BodyText{BodyText: "{}"},
		}}},
		StartWindow: durationpb.New(bystanderWindow),
	})
	if err != nil {
		return fmt.Errorf("submit: %w", err)
	}
	submitted()
	read := calls.Begin(callGet)
	if _, err := b.api.Jobs.GetJob(ctx, &fireoncev1.GetJobRequest{Job: &fireoncev1.GetJobRequest_IdempotencyKey{IdempotencyKey: key}}); err != nil {
		return fmt.Errorf("read: %w", err)
	}
	read()
	select {
	case <-arrived:
		sent()
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(bystanderWindow):
		return errors.New("send: no request came within the start window")
	}
}

// expired counts the bystander's jobs that were not sent in time.
func (b *bystander) expired(ctx context.Context) (int, error) {
	page, err := b.api.Jobs.ListJobs(ctx, &fireoncev1.ListJobsRequest{
		Filter: &fireoncev1.JobFilter{States: []fireoncev1.JobState{fireoncev1.JobState_JOB_STATE_EXPIRED}}, PageSize: 500,
	})
	return len(page.GetJobs()), err
}
