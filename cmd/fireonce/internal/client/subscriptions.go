package client

import (
	"cmp"
	"context"
	"strconv"

	"github.com/urfave/cli/v3"

	"github.com/fireonce/fireonce/clients/go/subscriptionsv1"
	"github.com/fireonce/fireonce/clients/go/subscriptionsv1/subscriptionsv1connect"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/exit"
)

func subscriptionsCommand() *cli.Command {
	type service = subscriptionsv1connect.SubscriptionServiceClient
	const one = "subscription"
	return &cli.Command{
		Name: "subscriptions", Usage: "tell a person or a program what becomes of jobs",
		Description: "SUBSCRIPTION is its id, or the key under which it was created. What is sent for it are notices: no\n" +
			"command for jobs shows them, and their failure is the subscription's own.",
		Commands: []*cli.Command{
			asks("", newSubscription, &cli.Command{
				Name: "create", Usage: "tell of events from now on, by a connection of the project",
				Description: "Without --state and --phase it reports what went wrong: FAILED, EXPIRED, NEEDS_RESOLUTION.\n" +
					"A webhook connection needs --callback-url; slack takes --channel, and e-mail needs --sender and --to.",
				Flags: []cli.Flag{
					&cli.StringFlag{Name: "key", Usage: "`KEY` the subscription's key, by which a repeat of this call finds it", DefaultText: "a new one"},
				},
			}, createSubscription),
			lists("", "subscriptions", "", service.ListSubscriptions,
				func(c *call, page *subscriptionsv1.ListSubscriptionsResponse) {
					c.out.subscriptions(page.GetSubscriptions())
				},
				&cli.Command{Name: "list", Usage: "list subscriptions, newest first"}),
			on(one, "", service.GetSubscription, showSubscription, &cli.Command{Name: "get", Usage: "show a subscription, and how its notices go"}),
			lists(one, "notices", "", service.ListNotices, showNotices, &cli.Command{Name: "notices", Usage: "list what was sent, newest first"}),
			{
				Name: "update", Usage: "change a subscription: the parts that flags name", ArgsUsage: "SUBSCRIPTION",
				Description: "Flags that select events replace all that do. Rules and addresses without a flag stay.",
				Flags:       flags(append(changedSubscription.flags(), keyFlag(one), etagFlag(one))...),
				Action:      action(updateSubscription),
			},
			on(one, "note:TEXT=note", service.PauseSubscription, showSubscription, &cli.Command{Name: "pause", Usage: "tell nothing until it is resumed"}),
			on(one, "skip_to_now", service.ResumeSubscription, showSubscription, &cli.Command{Name: "resume", Usage: "go on where it stopped"}),
			on(one, "", service.DeleteSubscription, showSubscription, &cli.Command{Name: "delete", Usage: "end a subscription permanently"}),
			on(one, "", service.TestSubscription, showSubscription, &cli.Command{
				Name: "test", Usage: "send a notice that only says that it is a test",
				Description: "It is sent once the notice under way has ended: fireonce subscriptions notices shows how it goes.",
			}),
			asks(one, fieldsOf(&subscriptionsv1.RedeliverNoticesRequest{}, "notice:NUMBER=number after_cursor"), &cli.Command{
				Name: "redeliver", Usage: "send one notice again, or go back in the log",
			}, func(ctx context.Context, c *call, req *subscriptionsv1.RedeliverNoticesRequest) error {
				if c.cmd.IsSet("notice") == c.cmd.IsSet("after-cursor") {
					return exit.Usagef("give --notice or --after-cursor")
				}
				return callAndPrint(ctx, c, c.Subscriptions.RedeliverNotices, req, showSubscription)
			}),
		},
	}
}

// The words of a subscription's flags: what it reports, when, and where.
var (
	noticeFilterFields = below("filter", "states phases labels connection=connection_ids schedule=schedule_ids holds")
	noticeRuleFields   = below("rules", "collect quiet threshold threshold_window recovered silence digest")
	noticeTargetFields = below("target", "channel=slack_channel sender:ADDRESS=email.sender to:ADDRESS=email.to")

	newSubscription = fieldsOf(&subscriptionsv1.CreateSubscriptionRequest{}, "by:CONNECTION=connection_id!", noticeFilterFields, noticeRuleFields,
		noticeTargetFields, "name=display_name include_content validate_only")
	changedFilter       = fieldsOf(&subscriptionsv1.UpdateSubscriptionRequest{}, noticeFilterFields)
	changedSubscription = fieldsOf(&subscriptionsv1.UpdateSubscriptionRequest{}, noticeFilterFields, noticeRuleFields,
		noticeTargetFields, "name=display_name include_content").otherwise("as it was")
)

func createSubscription(ctx context.Context, c *call, req *subscriptionsv1.CreateSubscriptionRequest) (err error) {
	if err := oneTarget(c.cmd); err != nil {
		return err
	}
	if req.IdempotencyKey, err = keyOrNew(c.cmd, "key"); err != nil {
		return err
	}
	resp, err := Ask(ctx, c.Subscriptions.CreateSubscription, req)
	if err != nil {
		return c.tellRepeat(err, "subscription", "key", req.GetIdempotencyKey())
	}
	return printAnswer(c, resp, nil, func(c *call, resp *subscriptionsv1.CreateSubscriptionResponse) {
		if req.GetValidateOnly() {
			c.out.line("The request is valid. Nothing was stored.")
			return
		}
		showSubscription(c, resp)
	})
}

// oneTarget refuses targets of two connectors.
func oneTarget(cmd *cli.Command) error {
	if cmd.IsSet("channel") && (cmd.IsSet("sender") || cmd.IsSet("to")) {
		return exit.Usagef("give --channel, or --sender and --to: the one is of Slack, the others are of e-mail")
	}
	return nil
}

func updateSubscription(ctx context.Context, c *call) error {
	if !changedSubscription.given(c.cmd) {
		return exit.Usagef("name what to change: events, rules, a target, --name or --include-content")
	}
	if err := oneTarget(c.cmd); err != nil {
		return err
	}
	get := &subscriptionsv1.GetSubscriptionRequest{}
	if err := c.setName("subscription", get); err != nil {
		return err
	}
	resp, err := Ask(ctx, c.Subscriptions.GetSubscription, get)
	if err != nil {
		return err
	}
	seen := resp.GetSubscription()
	req := named(&subscriptionsv1.UpdateSubscriptionRequest{
		Etag: cmp.Or(c.cmd.String("etag"), seen.GetEtag()), Filter: seen.GetFilter(), Rules: seen.GetRules(), Target: seen.GetTarget(),
	}, "subscription_id", seen.GetSubscriptionId(), "")
	if changedFilter.given(c.cmd) {
		req.Filter = nil
	}
	if err := changedSubscription.set(c.cmd, req); err != nil {
		return err
	}
	return callAndPrint(ctx, c, c.Subscriptions.UpdateSubscription, req, showSubscription)
}

func showNotices(c *call, page *subscriptionsv1.ListNoticesResponse) {
	rows := [][]string{{"NOTICE", "KIND", "EVENTS", "TRIES", "OUTCOME", "MADE", "ENDED"}}
	for _, n := range page.GetNotices() {
		rows = append(rows, []string{
			strconv.FormatInt(n.GetNumber(), 10), word(n.GetKind()), strconv.FormatInt(n.GetEventCount(), 10),
			strconv.Itoa(int(n.GetTryCount())), cmp.Or(word(n.GetOutcome()), "under way"), stamp(n.GetCreateTime()), stamp(n.GetEndTime()),
		})
	}
	c.out.table(rows)
}
