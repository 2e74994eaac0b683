package client

import (
	"context"
	"strconv"

	"github.com/urfave/cli/v3"

	"github.com/fireonce/fireonce/clients/go/subscriptionsv1"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/duration"
	"github.com/fireonce/fireonce/cmd/fireonce/internal/exit"
)

func subscriptionsCommand() *cli.Command {
	about := func(own ...cli.Flag) []cli.Flag {
		return flags(append(own, keyFlag("subscription"))...)
	}
	return &cli.Command{
		Name: "subscriptions", Usage: "tell a person or a program what becomes of jobs",
		Description: "SUBSCRIPTION is its id, or the key under which it was created. What is sent for it are notices: no\n" +
			"command for jobs shows them, and their failure is the subscription's own.",
		Commands: []*cli.Command{
			{
				Name: "create", Usage: "tell of events from now on, by a connection of the project",
				Description: "Without --state and --phase it reports what went wrong: FAILED, EXPIRED, NEEDS_RESOLUTION.\n" +
					"A webhook connection needs --callback-url; slack takes --channel, and e-mail needs --sender and --to.",
				Flags: flags(append(subscriptionFlags(),
					&cli.StringFlag{Name: "by", Usage: "the connection that notices are sent by: its `ID` or key", Required: true},
					textFlag("key", "the `KEY` of the subscription, by which a repeat of this call finds it; default: a new one"),
					boolFlag("validate-only", "check the request, store nothing"),
				)...),
				Action: action(createSubscription),
			},
			{
				Name: "list", Usage: "list subscriptions, newest first", Flags: flags(pageFlags("subscriptions")...),
				Action: action(func(ctx context.Context, c *call) error {
					return pages(ctx, c, c.Subscriptions.ListSubscriptions, &subscriptionsv1.ListSubscriptionsRequest{},
						func(page *subscriptionsv1.ListSubscriptionsResponse) { c.out.subscriptions(page.GetSubscriptions()) })
				}),
			},
			{
				Name: "get", Usage: "show a subscription, and how its notices go", ArgsUsage: "SUBSCRIPTION",
				Flags: about(),
				Action: action(func(ctx context.Context, c *call) error {
					return callOn(ctx, c, "subscription", c.Subscriptions.GetSubscription, &subscriptionsv1.GetSubscriptionRequest{}, showSubscription)
				}),
			},
			{
				Name: "notices", Usage: "list what was sent, newest first", ArgsUsage: "SUBSCRIPTION",
				Flags: about(pageFlags("notices")...), Action: action(listNotices),
			},
			{
				Name: "update", Usage: "change a subscription: the parts that flags name, each as a whole", ArgsUsage: "SUBSCRIPTION",
				Flags: about(append(subscriptionFlags(), etagFlag("subscription"))...), Action: action(updateSubscription),
			},
			{
				Name: "pause", Usage: "tell nothing until it is resumed", ArgsUsage: "SUBSCRIPTION",
				Flags: about(etagFlag("subscription"), noteFlag()),
				Action: action(func(ctx context.Context, c *call) error {
					return callOn(ctx, c, "subscription", c.Subscriptions.PauseSubscription, &subscriptionsv1.PauseSubscriptionRequest{}, showSubscription)
				}),
			},
			{
				Name: "resume", Usage: "go on where it stopped", ArgsUsage: "SUBSCRIPTION",
				Flags: about(etagFlag("subscription"), boolFlag("skip-to-now", "tell nothing that happened until now")),
				Action: action(func(ctx context.Context, c *call) error {
					return callOn(ctx, c, "subscription", c.Subscriptions.ResumeSubscription, &subscriptionsv1.ResumeSubscriptionRequest{}, showSubscription)
				}),
			},
			{
				Name: "delete", Usage: "end a subscription permanently", ArgsUsage: "SUBSCRIPTION",
				Flags: about(etagFlag("subscription")),
				Action: action(func(ctx context.Context, c *call) error {
					return callOn(ctx, c, "subscription", c.Subscriptions.DeleteSubscription, &subscriptionsv1.DeleteSubscriptionRequest{}, showSubscription)
				}),
			},
			{
				Name: "test", Usage: "send a notice that only says that it is a test", ArgsUsage: "SUBSCRIPTION",
				Description: "It is sent once the notice under way has ended: fireonce subscriptions notices shows how it goes.",
				Flags:       about(),
				Action: action(func(ctx context.Context, c *call) error {
					return callOn(ctx, c, "subscription", c.Subscriptions.TestSubscription, &subscriptionsv1.TestSubscriptionRequest{}, showSubscription)
				}),
			},
			{
				Name: "redeliver", Usage: "send one notice again, or go back in the log", ArgsUsage: "SUBSCRIPTION",
				Flags: about(
					&cli.IntFlag{Name: "notice", Usage: "the `NUMBER` of the notice to send again", HideDefault: true},
					textFlag("after-cursor", "tell all events after this `CURSOR` again"),
				),
				Action: action(redeliverNotices),
			},
		},
	}
}

// subscriptionFlags say what a subscription reports, when and where.
func subscriptionFlags() []cli.Flag {
	return []cli.Flag{
		textFlag("name", "the `NAME` that people read"),
		textsFlag("state", "of jobs that enter this `STATE`, e.g. succeeded; several with commas, or repeated"),
		textsFlag("phase", "of jobs that enter this `PHASE`: waiting, running, unknown or ended; may be repeated"),
		textsFlag("label", "only of jobs with `NAME=VALUE`; may be repeated, all must match"),
		textsFlag("connection", "only of jobs of the connection with this `ID` or key; may be repeated"),
		textsFlag("schedule", "only of jobs of the schedule with this `ID` or key; may be repeated"),
		&duration.Flag{Name: "collect", HideDefault: true, Usage: "wait for this `DURATION` after the first event, and tell of all together"},
		&duration.Flag{Name: "quiet", HideDefault: true, Usage: "wait until no event has come for this `DURATION`"},
		&cli.IntFlag{Name: "threshold", HideDefault: true, Usage: "tell only of at least this `NUMBER` of events within --threshold-window"},
		&duration.Flag{Name: "threshold-window", HideDefault: true, Usage: "the `DURATION` of --threshold"},
		boolFlag("recovered", "also tell when what failed succeeds again"),
		&duration.Flag{Name: "silence", HideDefault: true, Usage: "also tell when no job has SUCCEEDED for this `DURATION`, e.g. 1d"},
		boolFlag("digest", "count events instead of listing each"),
		textFlag("channel", "the Slack `CHANNEL`, by its id"),
		textFlag("sender", "the `ADDRESS` from which e-mails come"),
		textsFlag("to", "the `ADDRESS` of an e-mail; may be repeated"),
		boolFlag("include-content", "quote content; needs the scope payloads:read"),
	}
}

// Flags of the parts of a subscription.
var (
	noticeFilterFlags = []string{"state", "phase", "label", "connection", "schedule"}
	noticeRuleFlags   = []string{"collect", "quiet", "threshold", "threshold-window", "recovered", "silence", "digest"}
)

func anyGiven(cmd *cli.Command, names []string) bool {
	for _, name := range names {
		if cmd.IsSet(name) {
			return true
		}
	}
	return false
}

func (c *call) noticeFilter() (*subscriptionsv1.NoticeFilter, error) {
	if !anyGiven(c.cmd, noticeFilterFlags) {
		return nil, nil
	}
	f := &subscriptionsv1.NoticeFilter{}
	f.ConnectionIds, f.ConnectionKeys = idsAndKeys(c.cmd.StringSlice("connection"))
	f.ScheduleIds, f.ScheduleKeys = idsAndKeys(c.cmd.StringSlice("schedule"))
	return f, setFromFlags(c.cmd, f, "state", "states", "phase", "phases", "label", "labels")
}

func (c *call) noticeRules() (*subscriptionsv1.NoticeRules, error) {
	if !anyGiven(c.cmd, noticeRuleFlags) {
		return nil, nil
	}
	r := &subscriptionsv1.NoticeRules{}
	return r, setFromFlags(c.cmd, r)
}

func (c *call) noticeTarget() *subscriptionsv1.NoticeTarget {
	switch {
	case c.cmd.IsSet("sender") || c.cmd.IsSet("to"):
		return &subscriptionsv1.NoticeTarget{Kind: &subscriptionsv1.NoticeTarget_Email{Email: &subscriptionsv1.EmailTarget{
			Sender: c.cmd.String("sender"), To: c.cmd.StringSlice("to"),
		}}}
	case c.cmd.IsSet("channel"):
		return &subscriptionsv1.NoticeTarget{Kind: &subscriptionsv1.NoticeTarget_SlackChannel{SlackChannel: c.cmd.String("channel")}}
	default:
		return nil
	}
}

func createSubscription(ctx context.Context, c *call) error {
	req := &subscriptionsv1.CreateSubscriptionRequest{Target: c.noticeTarget()}
	var err error
	if req.Filter, err = c.noticeFilter(); err != nil {
		return err
	}
	if req.Rules, err = c.noticeRules(); err != nil {
		return err
	}
	if err := setFromFlags(c.cmd, req, "name", "display_name"); err != nil {
		return err
	}
	if req.IdempotencyKey, err = keyOrNew(c.cmd, "key"); err != nil {
		return err
	}
	id, key := idOrKey(c.cmd.String("by"))
	setName(req, "connection_id", "connection_key", id, key)
	return callAndPrint(ctx, c, c.Subscriptions.CreateSubscription, req, showSubscription)
}

func updateSubscription(ctx context.Context, c *call) error {
	get, err := withName(c, "subscription", &subscriptionsv1.GetSubscriptionRequest{})
	if err != nil {
		return err
	}
	seen, err := Ask(ctx, c.Subscriptions.GetSubscription, get)
	if err != nil {
		return err
	}
	req := named(&subscriptionsv1.UpdateSubscriptionRequest{Etag: seen.GetSubscription().GetEtag(), UpdateMask: mask()},
		"subscription_id", seen.GetSubscription().GetSubscriptionId(), "")
	change := func(field string, given bool) {
		if given {
			req.UpdateMask.Paths = append(req.UpdateMask.Paths, field)
		}
	}
	if req.Filter, err = c.noticeFilter(); err != nil {
		return err
	}
	if req.Rules, err = c.noticeRules(); err != nil {
		return err
	}
	req.Target = c.noticeTarget()
	req.DisplayName, req.IncludeContent = c.cmd.String("name"), c.cmd.Bool("include-content")
	if etag := c.cmd.String("etag"); etag != "" {
		req.Etag = etag
	}
	change("filter", req.GetFilter() != nil)
	change("rules", req.GetRules() != nil)
	change("target", req.GetTarget() != nil)
	change("display_name", c.cmd.IsSet("name"))
	change("include_content", c.cmd.IsSet("include-content"))
	if len(req.GetUpdateMask().GetPaths()) == 0 {
		return exit.Usagef("name what to change: events, rules, a target, --name or --include-content")
	}
	return callAndPrint(ctx, c, c.Subscriptions.UpdateSubscription, req, showSubscription)
}

func redeliverNotices(ctx context.Context, c *call) error {
	req, err := withName(c, "subscription", &subscriptionsv1.RedeliverNoticesRequest{})
	if err != nil {
		return err
	}
	number, cursor := c.cmd.Int("notice"), c.cmd.String("after-cursor")
	switch {
	case (number > 0) == (cursor != ""):
		return exit.Usagef("give --notice or --after-cursor")
	case number > 0:
		req.From = &subscriptionsv1.RedeliverNoticesRequest_Number{Number: int64(number)}
	default:
		req.From = &subscriptionsv1.RedeliverNoticesRequest_AfterCursor{AfterCursor: cursor}
	}
	return callAndPrint(ctx, c, c.Subscriptions.RedeliverNotices, req, showSubscription)
}

func listNotices(ctx context.Context, c *call) error {
	req, err := withName(c, "subscription", &subscriptionsv1.ListNoticesRequest{})
	if err != nil {
		return err
	}
	return pages(ctx, c, c.Subscriptions.ListNotices, req, func(page *subscriptionsv1.ListNoticesResponse) {
		rows := [][]string{{"NOTICE", "KIND", "EVENTS", "TRIES", "OUTCOME", "MADE", "ENDED"}}
		for _, n := range page.GetNotices() {
			outcome := word(n.GetOutcome())
			if outcome == "" {
				outcome = "under way"
			}
			rows = append(rows, []string{
				strconv.FormatInt(n.GetNumber(), 10), word(n.GetKind()), strconv.FormatInt(n.GetEventCount(), 10),
				strconv.Itoa(int(n.GetTryCount())), outcome, stamp(n.GetCreateTime()), stamp(n.GetEndTime()),
			})
		}
		c.out.table(rows)
	})
}
