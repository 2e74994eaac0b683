package attack

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/schedulesv1"
	"github.com/fireonce/fireonce/internal/proof/chaos/fleet"
	"github.com/fireonce/fireonce/internal/proof/loopback"
)

// Rules of this file: these are attacks by one ordinary key within its rights, each of which
// could stop other projects. They are bounded in requests and callers; a bystander is measured
// beside them.

const (
	// silentHooks are connections with silentJobs each: more than a server's senders. drippingMails
	// are as well. No connection's own limit bounds them.
	silentHooks, silentJobs, drippingMails = 4, 64, 80
	ownLimit                               = 1000
	// scanners are the callers and streams of one attack.
	scanners = 20
	// silence is the attempt timeout of jobs for a silent receiver: the longest there is.
	silence = 10 * time.Minute
	// dripPause is the time between two parts of an attachment, of dripBytes.
	dripPause, dripBytes = time.Second, 200
	// hangUp is when the caller of a preview does not wait any longer.
	hangUp = 2 * time.Second
	// mailsAgain is the time between two lots of e-mails with dripping attachments.
	mailsAgain = 15 * time.Second
)

// NeighborLabels are on every job that Stock stores; the scans look for others.
func NeighborLabels(of string) map[string]string {
	labels := make(map[string]string)
	for i := range 8 {
		labels[fmt.Sprint("label", i)] = of
	}
	return labels
}

// Neighbor is a project that attacks others.
type Neighbor struct {
	api   *fleet.API
	hooks []string // connections for webhooks
	mail  string   // one for e-mails
	traps
}

type traps struct {
	server *loopback.Server
	over   chan struct{}
	end    sync.Once
}

// NewNeighbor makes the project's connections and its receivers.
func NewNeighbor(ctx context.Context, url, key string) (_ *Neighbor, err error) {
	n := &Neighbor{traps: traps{over: make(chan struct{})}}
	if n.api, err = fleet.Dial(url, key); err != nil {
		return nil, err
	}
	if n.server, err = loopback.Listen(); err != nil { //nolint:contextcheck // it lives until it is closed
		return nil, err
	}
	n.server.Serve(http.HandlerFunc(n.trap))
	for i := range silentHooks {
		hook, err := n.connect(ctx, fmt.Sprint("neighbor-", i), &connectionsv1.Connection{Connector: "webhook", Settings: &connectionsv1.Connection_Webhook{
			Webhook: &connectionsv1.WebhookSettings{ReceiverDedupes: connectionsv1.ReceiverDedupes_RECEIVER_DEDUPES_NO},
		}})
		if err != nil {
			return nil, err
		}
		n.hooks = append(n.hooks, hook)
	}
	n.mail, err = n.connect(ctx, "neighbor-mail", &connectionsv1.Connection{Connector: "smtp", Settings: &connectionsv1.Connection_Smtp{
		// No relay listens there; attachments are fetched before.
		Smtp: &connectionsv1.SmtpSettings{Host: "127.0.0.1", Port: 9, Security: connectionsv1.SmtpSettings_SECURITY_NONE},
	}})
	return n, err
}

// connect makes a connection that may have more jobs under way than a server has senders.
func (n *Neighbor) connect(ctx context.Context, key string, c *connectionsv1.Connection) (id string, err error) {
	c.Limits = &connectionsv1.ConnectionLimits{MaxInFlight: ownLimit}
	made, err := n.api.Connections.CreateConnection(ctx, &connectionsv1.CreateConnectionRequest{IdempotencyKey: key, Connection: c})
	return made.GetConnection().GetConnectionId(), err
}

// trap answers nothing, or drips a file.
func (n *Neighbor) trap(w http.ResponseWriter, r *http.Request) {
	if !strings.HasPrefix(r.URL.Path, "/drip/") {
		select {
		case <-r.Context().Done():
		case <-n.over:
		}
		return
	}
	w.Header().Set("Content-Type", "application/pdf")
	w.Header().Set("Content-Length", "100000000")
	if r.Method == http.MethodHead {
		return
	}
	for {
		if _, err := w.Write(make([]byte, dripBytes)); err != nil {
			return
		}
		_ = http.NewResponseController(w).Flush()
		fleet.Pause(r.Context(), dripPause)
		if r.Context().Err() != nil {
			return
		}
		select {
		case <-n.over:
			return
		default:
		}
	}
}

// Close ends the receivers, and what waits for them.
func (n *Neighbor) Close() error {
	n.end.Do(func() { close(n.over) })
	return n.server.Close()
}

// Stock stores so many jobs for the scans to read, due in a month.
func (n *Neighbor) Stock(ctx context.Context, jobs int) error {
	labels, due := NeighborLabels("stock"), time.Now().Add(farAway)
	for from := 0; from < jobs; from += batchJobs {
		req := &fireoncev1.BatchScheduleJobsRequest{}
		for i := from; i < min(from+batchJobs, jobs); i++ {
			one := job(fmt.Sprint("stock-", i), n.hooks[0], n.server.URL(), due, "{}")
			one.Labels = labels
			req.Requests = append(req.Requests, one)
		}
		if _, err := n.api.Jobs.BatchScheduleJobs(ctx, req); err != nil {
			return fmt.Errorf("store the jobs for scans: %w", err)
		}
	}
	return nil
}

// NeighborAttack is one attack. Run attacks until ctx ends.
type NeighborAttack struct {
	Name string
	Run  func(ctx context.Context, n *Neighbor, count func(outcome string))
}

// NeighborAttacks lists them. Those that leave work behind, if a server lets them, come last.
func NeighborAttacks() []NeighborAttack {
	return []NeighborAttack{
		{"20 searches by eight labels", byScanners(func(ctx context.Context, n *Neighbor, _ int) error {
			_, err := n.api.Jobs.ListJobs(ctx, &fireoncev1.ListJobsRequest{Filter: &fireoncev1.JobFilter{Labels: NeighborLabels("none")}})
			return err
		})},
		{"20 searches for a text that no key has", byScanners(func(ctx context.Context, n *Neighbor, i int) error {
			_, err := n.api.Jobs.ListJobs(ctx, &fireoncev1.ListJobsRequest{
				Filter: &fireoncev1.JobFilter{IdempotencyKeyText: fmt.Sprint("no-key-has-", i)}, Order: fireoncev1.JobOrder_JOB_ORDER_CREATE_TIME_DESC,
			})
			return err
		})},
		{"20 streams that select nothing", byScanners(streamNothing)},
		{"256 silent webhooks", silentWebhooks},
		{"80 e-mails with dripping attachments", drippingAttachments},
		{"20 previews of a costly schedule", byScanners(previewCostly)},
	}
}

// byScanners repeats an act in every scanner.
func byScanners(act func(ctx context.Context, n *Neighbor, scanner int) error) func(context.Context, *Neighbor, func(string)) {
	return func(ctx context.Context, n *Neighbor, count func(string)) {
		var all sync.WaitGroup
		for i := range scanners {
			all.Go(func() {
				for ctx.Err() == nil {
					calling, cancel := context.WithTimeout(ctx, patience)
					err := act(calling, n, i)
					cancel()
					if ctx.Err() != nil {
						return
					}
					count(outcomeOf(err))
				}
			})
		}
		all.Wait()
	}
}

func streamNothing(ctx context.Context, n *Neighbor, i int) error {
	ctx, cancel := context.WithTimeout(ctx, hangUp)
	defer cancel()
	stream, err := n.api.Jobs.StreamJobEvents(ctx, &fireoncev1.StreamJobEventsRequest{
		Start:  &fireoncev1.StreamJobEventsRequest_FromBeginning{FromBeginning: true},
		Filter: &fireoncev1.EventFilter{Labels: NeighborLabels(fmt.Sprint("none-", i))},
	})
	if err != nil {
		return err
	}
	for stream.Receive() {
	}
	_ = stream.Close()
	if ctx.Err() != nil {
		return nil // it has hung up, and begins again
	}
	return stream.Err()
}

// previewCostly asks for a preview whose exclusions cost far more than its bytes, and hangs up.
func previewCostly(ctx context.Context, n *Neighbor, _ int) error {
	ctx, cancel := context.WithTimeout(ctx, hangUp)
	defer cancel()
	hours := make([]string, 24)
	for i := range hours {
		hours[i] = fmt.Sprint(i)
	}
	spec := &schedulesv1.ScheduleSpec{
		TimeZone: "UTC", CronExpressions: []string{"* * * * *", "0 0 31 12 *"}, Jitter: durationpb.New(30 * time.Second),
		Exclusions: &schedulesv1.ScheduleExclusions{},
	}
	for i := range 5 {
		spec.Exclusions.RecurrenceRules = append(spec.Exclusions.RecurrenceRules, &schedulesv1.RecurrenceRule{
			Rule: fmt.Sprintf("FREQ=DAILY;BYHOUR=%s;BYSECOND=%d", strings.Join(hours, ","), 30+i), Start: "1970-01-01T00:00:30",
		})
	}
	_, err := n.api.Schedules.PreviewSchedule(ctx, &schedulesv1.PreviewScheduleRequest{
		Subject: &schedulesv1.PreviewScheduleRequest_Spec{Spec: spec}, Count: 1000,
		StartTime: timestamppb.New(time.Date(2150, 1, 1, 0, 0, 0, 0, time.UTC)),
	})
	return err
}

// silentWebhooks holds as many senders as it may, for as long as it may.
func silentWebhooks(ctx context.Context, n *Neighbor, count func(string)) {
	for i := range silentHooks * silentJobs {
		req := job(fmt.Sprint("silent-", i), n.hooks[i%silentHooks], n.server.URL(), time.Time{}, "{}")
		req.AttemptTimeout = durationpb.New(silence)
		_, err := n.api.Jobs.ScheduleJob(ctx, req)
		count(outcomeOf(err))
	}
	<-ctx.Done()
}

func drippingAttachments(ctx context.Context, n *Neighbor, count func(string)) {
	for lot := 0; ctx.Err() == nil; lot++ {
		var all sync.WaitGroup
		for i := range drippingMails {
			all.Go(func() {
				_, err := n.api.Jobs.ScheduleJob(ctx, &fireoncev1.ScheduleJobRequest{
					IdempotencyKey: fmt.Sprint("mail-", lot, "-", i), Connection: &fireoncev1.ScheduleJobRequest_ConnectionId{ConnectionId: n.mail},
					Payload: &fireoncev1.Payload{Kind: &fireoncev1.Payload_Email{Email: &fireoncev1.Email{
						Sender: "a@example.org", To: []string{"b@example.org"}, Subject: "drip", TextBody: "drip",
						Attachments: []*fireoncev1.MediaRef{{Url: n.server.URL() + fmt.Sprint("/drip/", lot, "/", i)}},
					}}},
				})
				if ctx.Err() == nil {
					count(outcomeOf(err))
				}
			})
		}
		all.Wait()
		fleet.Pause(ctx, mailsAgain)
	}
}
