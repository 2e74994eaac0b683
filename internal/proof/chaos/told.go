package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/fireonce/fireonce/clients/go/adminv1"
	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/subscriptionsv1"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/proof/chaos/fleet"
	"github.com/fireonce/fireonce/internal/proof/chaos/judge"
	"github.com/fireonce/fireonce/internal/proof/chaos/platform"
)

// Rules of this file: each subscription has a receiver of its own at the platform, behind the
// proxy, so that what came where needs no word of the service.

// The receivers, and the keys of the connections to them.
const (
	toldAll        = "told-all"        // each end of each job
	toldFailures   = "told-failures"   // what went wrong
	toldLabeled    = "told-labeled"    // the ends of the jobs with toldLabel
	toldConnection = "told-connection" // the ends of the jobs of one connection
	toldDigests    = "told-digests"    // each end, counted
	toldCallback   = "told-callback"   // the ends of the jobs that name it in callback
)

const (
	toldLabel = "told"
	// labeledShare and calledShare are which part of the jobs is labeled, and called back, as one in
	// so many.
	labeledShare, calledShare = 4, 5
	// toldBy bounds the wait for the last notices once all jobs are at rest and all faults over:
	// a notice that went wrong often is sent again within ten minutes.
	// If nothing comes for as long as toldIdle, a callback is lost.
	toldBy, toldIdle = 12 * time.Minute, 5 * time.Minute
	// collected is how long digests wait.
	collected = 2 * time.Second
	// A hand asks this often for a notice again, or pauses a subscription for a while.
	handEach, pausedShare = 3 * time.Second, 4
	// toldLast is how many jobs are submitted after all others.
	toldLast = 1
)

// toldRates are the faults of receivers of notices. There are fewer than of others: a notice that
// goes wrong is sent again ever later, and the next one waits for it.
var toldRates = platform.Rates{
	platform.Drop: 0.12, platform.ErrorAfter: 0.03, platform.ResetMid: 0.02, platform.Truncate: 0.02, platform.Trickle: 0.005,
	platform.Silence: 0.01, platform.Delay: 0.04, platform.ResetBefore: 0.02, platform.Unavailable: 0.02, platform.RateLimit: 0.001,
	platform.Refuse: 0.002,
}

// ends are the states of the default receivers' notices.
var ends = []fireoncev1.JobState{
	fireoncev1.JobState_JOB_STATE_SUCCEEDED, fireoncev1.JobState_JOB_STATE_FAILED, fireoncev1.JobState_JOB_STATE_CANCELED,
	fireoncev1.JobState_JOB_STATE_EXPIRED, fireoncev1.JobState_JOB_STATE_NEEDS_RESOLUTION,
}

// toldOf has some jobs labeled, and some called back.
func toldOf(s spec, i int) spec {
	s.labeled, s.called = i%labeledShare == 1, i%calledShare == 2
	return s
}

// isTold reports whether a subject is a receiver of notices.
func isTold(subject string) bool { return strings.HasPrefix(subject, platform.ToldPrefix) }

// telling is the subscriptions of a campaign.
type telling struct {
	campaign *campaign
	ids      map[string]string // by receiver; none for callbacks
	conns    map[string]string // their connections
	last     judge.Submit      // the job after all others
	// again counts the notices that were asked for again, paused the pauses.
	again, paused int
	ended         time.Time // when the last notice was delivered
}

// newTelling makes the receivers' connections and the subscriptions, before there is a job.
func newTelling(ctx context.Context, c *campaign) (*telling, error) {
	making, cancel := context.WithTimeout(ctx, stuckAfter)
	defer cancel()
	t := &telling{campaign: c, ids: make(map[string]string), conns: make(map[string]string)}
	for _, name := range []string{toldAll, toldFailures, toldLabeled, toldConnection, toldDigests, toldCallback} {
		id, err := create(making, c.fleet, name, &connectionsv1.Connection{Connector: "webhook", Settings: &connectionsv1.Connection_Webhook{
			Webhook: &connectionsv1.WebhookSettings{
				ReceiverDedupes: connectionsv1.ReceiverDedupes_RECEIVER_DEDUPES_YES, KeyWindow: durationpb.New(keyWindow), DedupesInFlight: true,
				CallbackUrl: c.edge.URL() + "/hook/told/" + strings.TrimPrefix(name, platform.ToldPrefix),
			},
		}})
		if err != nil {
			return nil, err
		}
		t.conns[name] = id
	}
	for name, filter := range map[string]*subscriptionsv1.NoticeFilter{
		toldAll: {States: ends}, toldFailures: nil, toldDigests: {States: ends},
		toldLabeled:    {States: ends, Labels: map[string]string{toldLabel: "yes"}},
		toldConnection: {States: ends, ConnectionIds: []string{c.to.hooks[keyedHook]}},
	} {
		req := &subscriptionsv1.CreateSubscriptionRequest{
			IdempotencyKey: name, Connection: &subscriptionsv1.CreateSubscriptionRequest_ConnectionId{ConnectionId: t.conns[name]}, Filter: filter,
		}
		if name == toldDigests {
			req.Rules = &subscriptionsv1.NoticeRules{Digest: true, Collect: durationpb.New(collected)}
		}
		if err := c.fleet.Call(making, 0, func(ctx context.Context, api *fleet.API) error {
			resp, err := api.Subscriptions.CreateSubscription(ctx, req)
			t.ids[name] = resp.GetSubscription().GetSubscriptionId()
			return err
		}); err != nil {
			return nil, fmt.Errorf("create subscription %s: %w", name, err)
		}
	}
	return t, nil
}

// run has a hand at work until ctx ends: it asks for notices again, and pauses subscriptions.
func (t *telling) run(ctx context.Context) error {
	random := rand.New(rand.NewPCG(t.campaign.seed, 0x746f6c64)) //nolint:gosec // repeatable is what it must be
	names := slices.Sorted(maps.Keys(t.ids))
	for n := 0; ctx.Err() == nil; n++ {
		fleet.Pause(ctx, handEach/2+time.Duration(random.Int64N(int64(handEach))))
		name, do := names[random.IntN(len(names))], t.redeliver
		if n%pausedShare == 0 {
			do = t.pause
		}
		if err := do(ctx, name, random); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// redeliver asks for a notice again. Nothing is wrong if another one is asked for already.
func (t *telling) redeliver(ctx context.Context, name string, random *rand.Rand) error {
	s, err := t.subscription(ctx, name)
	if err != nil || s.GetLastNoticeNumber() == 0 {
		return err
	}
	number := max(1, s.GetLastNoticeNumber()-random.Int64N(10)) // those are kept
	err = t.campaign.fleet.Call(ctx, 0, func(ctx context.Context, api *fleet.API) error {
		_, err := api.Subscriptions.RedeliverNotices(ctx, &subscriptionsv1.RedeliverNoticesRequest{
			Subscription: &subscriptionsv1.RedeliverNoticesRequest_SubscriptionId{SubscriptionId: t.ids[name]},
			From:         &subscriptionsv1.RedeliverNoticesRequest_Number{Number: number},
		})
		return err
	})
	switch {
	case connect.CodeOf(err) == connect.CodeFailedPrecondition:
		return nil
	case err != nil:
		return fmt.Errorf("redeliver notice %d of %s: %w", number, name, err)
	}
	t.again++
	return nil
}

// pause pauses a subscription and resumes it after a while, also when the campaign ends meanwhile.
func (t *telling) pause(ctx context.Context, name string, random *rand.Rand) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stuckAfter)
	defer cancel()
	if err := t.campaign.fleet.Call(ctx, 0, func(ctx context.Context, api *fleet.API) error {
		_, err := api.Subscriptions.PauseSubscription(ctx, &subscriptionsv1.PauseSubscriptionRequest{
			Subscription: &subscriptionsv1.PauseSubscriptionRequest_SubscriptionId{SubscriptionId: t.ids[name]}, Note: "by hand",
		})
		return err
	}); err != nil {
		return fmt.Errorf("pause subscription %s: %w", name, err)
	}
	t.paused++
	fleet.Pause(ctx, time.Duration(random.Int64N(int64(handEach))))
	return t.resume(ctx, name)
}

func (t *telling) resume(ctx context.Context, name string) error {
	err := t.campaign.fleet.Call(ctx, 0, func(ctx context.Context, api *fleet.API) error {
		_, err := api.Subscriptions.ResumeSubscription(ctx, &subscriptionsv1.ResumeSubscriptionRequest{
			Subscription: &subscriptionsv1.ResumeSubscriptionRequest_SubscriptionId{SubscriptionId: t.ids[name]},
		})
		return err
	})
	if err != nil {
		return fmt.Errorf("resume subscription %s: %w", name, err)
	}
	return nil
}

// finish waits until every notice is delivered, for a bounded time: what is not by then is the
// judge's. Callbacks have no sign of their end but that of one more job: they come in order.
func (t *telling) finish(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, toldBy)
	defer cancel()
	if err := t.submitLast(ctx); err != nil {
		return err
	}
	for name := range t.ids { // a frozen server may have carried out a pause late, after the resume
		if err := t.resume(ctx, name); err != nil {
			return err
		}
	}
	came, since := 0, time.Now()
	for n := 0; ; n++ {
		if totals, err := t.campaign.platform.Totals(ctx); err == nil && totals.Requests[platform.FaceTold] != came {
			came, since = totals.Requests[platform.FaceTold], time.Now()
		}
		waits, err := t.waits(ctx)
		if err == nil && waits == "" {
			t.ended = time.Now()
			return nil
		}
		if n%5 == 4 {
			t.campaign.say("healed: not all notices are delivered: %s %v", waits, err)
		}
		if time.Since(since) > toldIdle {
			return nil
		}
		if fleet.Pause(ctx, asked); ctx.Err() != nil {
			return nil // the judge reports what is missing
		}
	}
}

// submitLast submits a job after all others.
func (t *telling) submitLast(ctx context.Context) error {
	s := spec{
		key: keyPrefix + "last", subject: "subject-last", face: keyedHook, class: job.Keyed, policy: job.OnceOrAsk, window: startWindow,
		labeled: true, called: true,
	}
	t.last = judge.Submit{Key: s.key, Subject: s.subject, Class: s.class, Delivery: s.policy}
	at := time.Now()
	return t.campaign.fleet.Call(ctx, 0, func(ctx context.Context, api *fleet.API) error {
		resp, err := api.Jobs.ScheduleJob(ctx, s.request(t.campaign.to, at))
		if err != nil {
			return err
		}
		t.last.Acks = []judge.Ack{{JobID: resp.GetJob().GetJobId(), ScheduleTime: resp.GetJob().GetScheduleTime().AsTime(), Created: resp.GetCreated()}}
		return nil
	})
}

// waits names what is not delivered yet; empty: nothing.
func (t *telling) waits(ctx context.Context) (string, error) {
	lastJob := t.last.Acks[0].JobID
	for name := range t.ids {
		s, err := t.subscription(ctx, name)
		if err != nil {
			return name, err
		}
		if s.GetUnderWay() || s.GetFailedNoticeNumber() != 0 {
			return fmt.Sprintf("%s: notice %d, %s", name, s.GetLastNoticeNumber(), s.GetLastError()), nil
		}
		end, err := t.after(ctx, s.GetCursor())
		if err != nil {
			return name, err
		}
		if end != nil {
			return name + ": it has not read all of the log", nil
		}
	}
	notices, err := judge.ReadNotices(platform.ReadLog(t.campaign.platform.Log))
	if err != nil {
		return toldCallback, err
	}
	for _, n := range notices[strings.TrimPrefix(toldCallback, platform.ToldPrefix)] {
		if n.Taken && slices.ContainsFunc(n.Events, func(e judge.Event) bool { return e.JobID == lastJob }) {
			return "", nil
		}
	}
	return toldCallback + ": the last job", nil
}

func (t *telling) subscription(ctx context.Context, name string) (s *subscriptionsv1.Subscription, err error) {
	err = t.campaign.fleet.Call(ctx, 0, func(ctx context.Context, api *fleet.API) error {
		resp, err := api.Subscriptions.GetSubscription(ctx, &subscriptionsv1.GetSubscriptionRequest{
			Subscription: &subscriptionsv1.GetSubscriptionRequest_SubscriptionId{SubscriptionId: t.ids[name]},
		})
		s = resp.GetSubscription()
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("get subscription %s: %w", name, err)
	}
	return s, nil
}

// after returns the first event after a cursor; nil: there is none.
func (t *telling) after(ctx context.Context, cursor string) (first *fireoncev1.JobEvent, err error) {
	for more := true; more && first == nil; {
		err := t.campaign.fleet.Call(ctx, 0, func(ctx context.Context, api *fleet.API) error {
			resp, err := api.Jobs.ListJobEvents(ctx, &fireoncev1.ListJobEventsRequest{AfterCursor: cursor, PageSize: 1})
			if err != nil {
				return err
			}
			cursor, more = resp.GetNextCursor(), resp.GetHasMore()
			if len(resp.GetEvents()) > 0 {
				first = resp.GetEvents()[0]
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("list the events after a notice's cursor: %w", err)
		}
	}
	return first, nil
}

// accounts is all that is known of the subscriptions at the end. The log of events is in a file.
func (t *telling) accounts(ctx context.Context, finals []judge.Final, events string) (*judge.ToldInput, error) {
	in := &judge.ToldInput{Finals: finals}
	for name, filter := range t.selections(finals) {
		s := judge.Subscription{Name: strings.TrimPrefix(name, platform.ToldPrefix), ID: t.ids[name], Selects: filter, Digests: name == toldDigests}
		if s.ID != "" {
			now, err := t.subscription(ctx, name)
			if err != nil {
				return nil, err
			}
			s.State = strings.TrimPrefix(now.GetState().String(), "SUBSCRIPTION_STATE_")
			s.UnderWay, s.Failing, s.Last = now.GetUnderWay(), now.GetFailedNoticeNumber(), now.GetLastNoticeNumber()
			if s.Listed, err = t.listed(ctx, s.ID); err != nil {
				return nil, err
			}
		}
		in.Subscriptions = append(in.Subscriptions, s)
	}
	var err error
	if in.Places, err = t.places(ctx, events); err != nil {
		return nil, err
	}
	in.Shown, err = t.shown(ctx)
	return in, err
}

// selections are what clients have asked for, by receiver.
func (t *telling) selections(finals []judge.Final) map[string]func(judge.Event) bool {
	labeled, called, there := make(map[string]bool), make(map[string]bool), make(map[string]bool)
	specs := make(map[string]spec)
	for i := range t.campaign.load.jobs {
		s := t.campaign.load.specs(i)
		specs[s.key] = s
	}
	specs[t.last.Key] = spec{labeled: true, called: true}
	for _, f := range finals {
		s := specs[f.Key]
		labeled[f.JobID], called[f.JobID], there[f.JobID] = s.labeled, s.called, f.ConnectionID == t.campaign.to.hooks[keyedHook]
	}
	of := func(e judge.Event, which ...job.State) bool { return e.From != e.To && slices.Contains(which, e.To) }
	end := func(e judge.Event) bool {
		return of(e, job.Succeeded, job.Failed, job.Canceled, job.Expired, job.NeedsResolution)
	}
	return map[string]func(judge.Event) bool{
		toldAll: end, toldDigests: end,
		toldFailures: func(e judge.Event) bool {
			// A second effect that comes to light goes wrong without another state.
			return of(e, job.Failed, job.Expired, job.NeedsResolution) || e.Cause == job.CauseDuplicateEffect.String() || e.Cause == job.CauseEffectShared.String()
		},
		toldLabeled:    func(e judge.Event) bool { return end(e) && labeled[e.JobID] },
		toldConnection: func(e judge.Event) bool { return end(e) && there[e.JobID] },
		toldCallback:   func(e judge.Event) bool { return end(e) && called[e.JobID] },
	}
}

// listed reads the notices that the service lists.
func (t *telling) listed(ctx context.Context, id string) (out []judge.ListedNotice, err error) {
	for token, more := "", true; more; more = token != "" {
		if err := t.campaign.fleet.Call(ctx, 0, func(ctx context.Context, api *fleet.API) error {
			resp, err := api.Subscriptions.ListNotices(ctx, &subscriptionsv1.ListNoticesRequest{
				Subscription: &subscriptionsv1.ListNoticesRequest_SubscriptionId{SubscriptionId: id}, PageSize: pageSize, PageToken: token,
			})
			if err != nil {
				return err
			}
			token = resp.GetNextPageToken()
			for _, n := range resp.GetNotices() {
				out = append(out, listedNoticeOf(n))
			}
			return nil
		}); err != nil {
			return nil, fmt.Errorf("list notices: %w", err)
		}
	}
	return out, nil
}

// places finds where the cursors of notices are in the log of events: the service lists what
// comes after each.
func (t *telling) places(ctx context.Context, events string) (map[string]int, error) {
	at, last, whole := make(map[string]int), make(map[string]int64), 0
	for e, err := range readEvents(events) {
		if err != nil {
			return nil, err
		}
		if e.Sequence > last[e.JobID] {
			whole++
			last[e.JobID], at[e.Cursor] = e.Sequence, whole
		}
	}
	notices, err := judge.ReadNotices(platform.ReadLog(t.campaign.platform.Log))
	if err != nil {
		return nil, err
	}
	for _, of := range notices {
		for _, n := range of {
			for _, cursor := range []string{n.After, n.To} {
				if _, known := at[cursor]; known {
					continue
				}
				first, err := t.after(ctx, cursor)
				switch {
				case err != nil:
					return nil, err
				case first == nil:
					at[cursor] = whole
				case at[first.GetCursor()] == 0: // the stream had not that event: the judge reports the cursor
				default:
					at[cursor] = at[first.GetCursor()] - 1
				}
			}
		}
	}
	return at, nil
}

// shown counts the project's jobs in each way that the service has.
func (t *telling) shown(ctx context.Context) (map[string]int, error) {
	out := make(map[string]int)
	err := t.campaign.fleet.Call(ctx, 0, func(ctx context.Context, api *fleet.API) error {
		stats, err := api.Stats.GetStats(ctx, &adminv1.GetStatsRequest{})
		if err != nil {
			return err
		}
		alive, atRest := counted(stats)
		out["GetStats"] = alive + atRest
		number, err := api.Stats.CountJobs(ctx, &adminv1.CountJobsRequest{})
		if err != nil {
			return err
		}
		if !number.GetCapped() {
			out["CountJobs"] = int(number.GetCount())
		}
		rows, err := api.Stats.QueryStats(ctx, &adminv1.QueryStatsRequest{
			Bucket: adminv1.StatsBucket_STATS_BUCKET_HOUR, StartTime: timestamppb.New(t.campaign.begun.Add(-time.Hour)),
		})
		if err != nil {
			return err
		}
		if out["QueryStats"] = 0; rows.GetAsOfTime().AsTime().Before(t.ended) {
			return fmt.Errorf("statistics are as of %v only", rows.GetAsOfTime().AsTime())
		}
		for _, r := range rows.GetRows() {
			out["QueryStats"] += int(r.GetScheduledCount())
		}
		for name, id := range t.conns {
			jobs, err := api.Jobs.ListJobs(ctx, &fireoncev1.ListJobsRequest{Filter: &fireoncev1.JobFilter{ConnectionIds: []string{id}}})
			if err != nil {
				return err
			}
			if n := len(jobs.GetJobs()); n > 0 {
				out["ListJobs of "+name] = n
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("count the project's jobs: %w", err)
	}
	return out, nil
}

// printTold prints what receivers of notices got.
func printTold(w io.Writer, out *judge.ToldReport) {
	fmt.Fprintf(w, "  notices: %d subscriptions select %s; %d notices in %d requests, %d of them repeats; %d events in full, %d in %d digests\n",
		out.Subscriptions, counts(out.By), out.Notices, out.Requests, out.Repeats, out.Told, out.Counted, out.Digests)
	fmt.Fprintf(w, "  notices that were asked for again: %d; pauses of subscriptions: %d\n", out.Again, out.Pauses)
	fmt.Fprintf(w, "  faults of notices: %s\n", counts(out.Faults))
	for _, v := range out.Violations {
		fmt.Fprintf(w, "  %s: %s: %s\n", v.Subject, v.Kind, v.Detail)
	}
	for _, k := range judge.ToldKinds {
		if n := out.Kinds[k]; n > 0 {
			fmt.Fprintf(w, "  notices: %d × %s\n", n, k)
		}
	}
}

// wrongTold returns why the subscriptions fail the campaign; nothing: they do not.
func wrongTold(out *judge.ToldReport) []string {
	var why []string
	if out.Total > 0 {
		why = append(why, fmt.Sprintf("%d violations of subscriptions", out.Total))
	}
	// Zero violations prove nothing about what never happened.
	for what, n := range map[string]int{
		"event was told": out.Told, "notice came twice": out.Repeats, "event was counted": out.Counted, "notice met a fault": sum(out.Faults),
		"notice was asked for again": out.Again, "subscription was paused": out.Pauses,
	} {
		if n <= 0 {
			why = append(why, "no "+what)
		}
	}
	return why
}
