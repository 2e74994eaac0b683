// Command recovery measures how long the jobs of a server that died wait: it runs the
// real server with its default settings, kills it with SIGKILL while it sends, starts it
// again, and prints the seconds from the restart until the jobs of each effect class have
// ended, or wait for a person. The target has acted on each request and answers none
// before the kill.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector/feed/feedtest"
	"github.com/fireonce/fireonce/internal/proof/chaos/fleet"
	"github.com/fireonce/fireonce/internal/proof/pgtest"
)

const (
	// askEach is how often jobs are read while they are waited for.
	askEach = 100 * time.Millisecond
	// mostJobs bounds the jobs of one class: a server has 64 senders.
	mostJobs = 16
	// longest bounds one measurement: fence, read lag, and a margin.
	longest = 5 * time.Minute
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := command(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "recovery:", err)
		os.Exit(1) //nolint:gocritic // nothing is left to stop
	}
}

func command(ctx context.Context, args []string, out io.Writer) error {
	set := flag.NewFlagSet("recovery", flag.ContinueOnError)
	jobs := set.Int("jobs", 12, fmt.Sprintf("how many jobs of each class, at most %d", mostJobs))
	if err := set.Parse(args); err != nil {
		return err
	}
	if *jobs < 1 || *jobs > mostJobs {
		return fmt.Errorf("-jobs must be 1 to %d", mostJobs)
	}
	dir, err := os.MkdirTemp("", "recovery")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binary := filepath.Join(dir, "fireonce")
	if err := fleet.Build(ctx, binary, ""); err != nil {
		return err
	}
	cluster, err := pgtest.Open(pgtest.Options{})
	if err != nil {
		return err
	}
	defer func() { _ = cluster.Close() }()
	name, err := cluster.CreateDatabase(ctx)
	if err != nil {
		return err
	}
	databases := []struct{ name, url string }{
		{"sqlite", "sqlite:" + filepath.Join(dir, "recovery.db")}, {"postgres", cluster.URL(name)},
	}
	tables := make([][]row, len(databases))
	errs := make([]error, len(databases))
	var runs sync.WaitGroup
	for i, d := range databases {
		runs.Go(func() {
			work := filepath.Join(dir, d.name)
			if errs[i] = os.Mkdir(work, 0o750); errs[i] == nil {
				tables[i], errs[i] = measure(ctx, fleet.Options{
					Binary: binary, Dir: work, Servers: 1, Database: d.url, Args: []string{"--dev", "--key-file", "recovery.key", "--breaker-after", "0"},
				}, *jobs)
			}
		})
	}
	runs.Wait()
	_, _ = fmt.Fprintf(out, "| Database | Class | Jobs | Ended as | Half within | All within | Effects |\n|---|---|---|---|---|---|---|\n")
	for i, d := range databases {
		for _, r := range tables[i] {
			_, _ = fmt.Fprintf(out, "| %s | %s | %d | %s | %.1f s | %.1f s | %d |\n",
				d.name, r.class, r.jobs, r.ends, r.half.Seconds(), r.all.Seconds(), r.effects)
		}
	}
	return errors.Join(errs...)
}

// row is what was measured of one class.
type row struct {
	class     string
	jobs      int
	ends      string
	half, all time.Duration
	effects   int
}

// class is one kind of target, and its jobs.
type class struct {
	name, path string
	connection *connectionsv1.Connection
	payload    func(n int) *fireoncev1.Payload
	effects    func() int
	ids        []string
}

// targets acts on every request and keeps the answers back until the server is dead.
type targets struct {
	silent  atomic.Bool
	arrived chan struct{}

	mu   sync.Mutex
	seen map[string]int // requests by path
	feed *feedtest.Platform
	http *httptest.Server
}

// ServeHTTP takes one effect for each path.
func (t *targets) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	t.mu.Lock()
	t.seen[r.URL.Path]++
	t.mu.Unlock()
	if !t.silent.Load() {
		return
	}
	t.arrived <- struct{}{}
	<-r.Context().Done() // until the server is dead
}

// paths counts the effects below a path: one for each that was ever asked for, since the
// receiver takes the requests with one key for one.
func (t *targets) paths(prefix string) (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for path := range t.seen {
		if strings.HasPrefix(path, prefix) {
			n++
		}
	}
	return n
}

func startTargets(requests int) (*targets, error) {
	t := &targets{arrived: make(chan struct{}, requests), seen: make(map[string]int)}
	t.silent.Store(true)
	t.http = httptest.NewServer(t)
	var err error
	t.feed, err = feedtest.Start(feedtest.Options{Plan: func(r feedtest.Request) feedtest.Answer {
		if r.Method == http.MethodPost && t.silent.Load() {
			t.arrived <- struct{}{}
			return feedtest.Silence
		}
		return feedtest.Reply
	}})
	return t, err
}

func (t *targets) classes() []*class {
	yes, day := connectionsv1.ReceiverDedupes_RECEIVER_DEDUPES_YES, durationpb.New(24*time.Hour)
	hook := func(name, path string, s *connectionsv1.WebhookSettings) *class {
		return &class{
			name: name, path: path, connection: &connectionsv1.Connection{Connector: "webhook", Settings: &connectionsv1.Connection_Webhook{Webhook: s}},
			payload: func(n int) *fireoncev1.Payload {
				return &fireoncev1.Payload{Kind: &fireoncev1.Payload_Webhook{Webhook: &fireoncev1.Webhook{
					Url: fmt.Sprintf("%s/%s/%d", t.http.URL, path, n), Content: &fireoncev1.Webhook_BodyText{BodyText: "{}"},
				}}}
			},
			effects: func() int { return t.paths("/" + path + "/") },
		}
	}
	return []*class{
		hook("KEYED, dedupes in flight", "flight", &connectionsv1.WebhookSettings{ReceiverDedupes: yes, KeyWindow: day, DedupesInFlight: true}),
		hook("KEYED, not in flight", "keyed", &connectionsv1.WebhookSettings{ReceiverDedupes: yes, KeyWindow: day}),
		{
			name: "OBSERVABLE, read lag 0", path: "feed",
			connection: &connectionsv1.Connection{Connector: "feed", Settings: &connectionsv1.Connection_Feed{Feed: &connectionsv1.FeedSettings{
				BaseUrl: t.feed.URL(), ReadLag: durationpb.New(0),
			}}},
			payload: func(n int) *fireoncev1.Payload {
				return &fireoncev1.Payload{Kind: &fireoncev1.Payload_SocialPost{SocialPost: &fireoncev1.SocialPost{Text: fmt.Sprint("post ", n)}}}
			},
			effects: func() (n int) {
				for i := range mostJobs {
					n += t.feed.Effects(fmt.Sprint("post ", i))
				}
				return n
			},
		},
		hook("OPAQUE", "opaque", &connectionsv1.WebhookSettings{ReceiverDedupes: connectionsv1.ReceiverDedupes_RECEIVER_DEDUPES_NO}),
	}
}

// measure kills a server in mid-send, once, and waits for its jobs.
func measure(ctx context.Context, o fleet.Options, jobs int) ([]row, error) {
	to, err := startTargets(8 * jobs)
	if err != nil {
		return nil, err
	}
	defer to.http.Close()
	defer func() { _ = to.feed.Close() }()
	f := fleet.New(o)
	defer f.Close()
	if err := f.Start(ctx, 0, fleet.Life{}); err != nil {
		return nil, err
	}
	all := to.classes()
	for _, c := range all {
		if err := c.submit(ctx, f, jobs); err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
	}
	for range jobs * len(all) {
		select {
		case <-to.arrived:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	f.Kill(0)
	to.silent.Store(false)
	to.http.CloseClientConnections()
	begun := time.Now()
	if err := f.Start(ctx, 0, fleet.Life{}); err != nil {
		return nil, err
	}
	rows := make([]row, len(all))
	errs := make([]error, len(all))
	var waits sync.WaitGroup
	for i, c := range all {
		waits.Go(func() { rows[i], errs[i] = c.wait(ctx, f, begun) })
	}
	waits.Wait()
	return rows, errors.Join(errs...)
}

func (c *class) submit(ctx context.Context, f *fleet.Fleet, jobs int) error {
	return f.Call(ctx, 0, func(ctx context.Context, api *fleet.API) error {
		conn, err := api.Connections.CreateConnection(ctx, &connectionsv1.CreateConnectionRequest{IdempotencyKey: c.path, Connection: c.connection})
		if err != nil {
			return err
		}
		c.ids = nil
		for n := range jobs {
			made, err := api.Jobs.ScheduleJob(ctx, &fireoncev1.ScheduleJobRequest{
				IdempotencyKey: fmt.Sprintf("%s/%d", c.path, n), Payload: c.payload(n),
				Connection: &fireoncev1.ScheduleJobRequest_ConnectionId{ConnectionId: conn.GetConnection().GetConnectionId()},
			})
			if err != nil {
				return err
			}
			c.ids = append(c.ids, made.GetJob().GetJobId())
		}
		return nil
	})
}

// wait reads the jobs until each has ended, or waits for a person.
func (c *class) wait(ctx context.Context, f *fleet.Fleet, begun time.Time) (row, error) {
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	ends := make(map[string]int)
	var took []time.Duration
	for left := c.ids; len(left) > 0; {
		var still []string
		for _, id := range left {
			var j *fireoncev1.Job
			err := f.Call(ctx, 0, func(ctx context.Context, api *fleet.API) error {
				got, err := api.Jobs.GetJob(ctx, &fireoncev1.GetJobRequest{Job: &fireoncev1.GetJobRequest_JobId{JobId: id}})
				j = got.GetJob()
				return err
			})
			if err != nil {
				return row{}, fmt.Errorf("%s: %w", c.name, err)
			}
			switch s := j.GetState(); s {
			case fireoncev1.JobState_JOB_STATE_SENDING, fireoncev1.JobState_JOB_STATE_AMBIGUOUS, fireoncev1.JobState_JOB_STATE_RETRYING,
				fireoncev1.JobState_JOB_STATE_CLAIMED, fireoncev1.JobState_JOB_STATE_SCHEDULED, fireoncev1.JobState_JOB_STATE_ACCEPTED:
				still = append(still, id)
			default:
				ends[strings.TrimPrefix(s.String(), "JOB_STATE_")]++
				took = append(took, j.GetUpdateTime().AsTime().Sub(begun))
			}
		}
		left = still
		select {
		case <-time.After(askEach):
		case <-ctx.Done():
			return row{}, fmt.Errorf("%s: %d jobs have not ended: %w", c.name, len(left), ctx.Err())
		}
	}
	slices.SortFunc(took, func(a, b time.Duration) int { return cmp.Compare(a, b) })
	var names []string
	for name, n := range ends {
		names = append(names, fmt.Sprintf("%s %d", name, n))
	}
	slices.Sort(names)
	return row{
		class: c.name, jobs: len(c.ids), ends: strings.Join(names, ", "), half: took[(len(took)-1)/2], all: took[len(took)-1], effects: c.effects(),
	}, nil
}
