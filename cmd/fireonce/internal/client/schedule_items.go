package client

import (
	"context"
	"strconv"

	"github.com/urfave/cli/v3"
	"google.golang.org/protobuf/proto"

	"github.com/fireonce/fireonce/clients/go/schedulesv1"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/exit"
)

// itemsCommand is about the queue of a schedule that was created with --queue.
func itemsCommand() *cli.Command {
	item := func() cli.Flag {
		return &cli.StringFlag{Name: "item", Usage: "the item's `ID`", Required: true}
	}
	return &cli.Command{
		Name: "items", Usage: "fill and order the queue of a schedule with --queue",
		Commands: []*cli.Command{
			{
				Name: "add", Usage: "add content, which the next free firing takes", ArgsUsage: "SCHEDULE",
				Flags: flags(append(payloadFlags(),
					textFlag("key", "the item's `KEY`: the same call with it is the same item; default: a new one"),
					textsFlag("label", "a `NAME=VALUE` for its job; may be repeated"),
					boolFlag("front", "before all others"),
				)...),
				Action: action(addItem),
			},
			{
				Name: "list", Usage: "list items in the order in which they go out", ArgsUsage: "SCHEDULE",
				Flags: flags(append(pageFlags("items"),
					textsFlag("state", "only those in this `STATE`, e.g. waiting; may be repeated"),
				)...),
				Action: action(listItems),
			},
			{
				Name: "update", Usage: "replace the content of an item that has not gone out", ArgsUsage: "SCHEDULE",
				Flags: flags(append(payloadFlags(), item(), etagFlag("item"),
					textsFlag("label", "a `NAME=VALUE` for its job; may be repeated; replaces all"),
				)...),
				Action: action(updateItem),
			},
			{
				Name: "move", Usage: "change the place of an item", ArgsUsage: "SCHEDULE",
				Flags: flags(item(), etagFlag("item"),
					textFlag("before", "before the item with this `ID`"),
					boolFlag("front", "before all others"),
					boolFlag("end", "behind all others"),
				),
				Action: action(moveItem),
			},
			{
				Name: "remove", Usage: "take an item out", ArgsUsage: "SCHEDULE",
				Flags: flags(item(), etagFlag("item")),
				Action: action(func(ctx context.Context, c *call) error {
					req, err := queueOf(c, &schedulesv1.RemoveScheduleItemRequest{ItemId: c.cmd.String("item"), Etag: c.cmd.String("etag")})
					if err != nil {
						return err
					}
					return callAndPrint(ctx, c, c.Schedules.RemoveScheduleItem, req, showItem)
				}),
			},
		},
	}
}

// queueOf sets the schedule whose queue a call is about.
func queueOf[T proto.Message](c *call, req T) (T, error) {
	if c.cmd.Args().Len() != 1 || c.cmd.Args().First() == "" {
		return req, exit.Usagef("name one schedule, by its id or its key")
	}
	id, key := idOrKey(c.cmd.Args().First())
	setName(req, "schedule_id", "schedule_key", id, key)
	return req, nil
}

func addItem(ctx context.Context, c *call) error {
	req, err := queueOf(c, &schedulesv1.AddScheduleItemRequest{})
	if err != nil {
		return err
	}
	if req.IdempotencyKey, err = keyOrNew(c.cmd, "key"); err != nil {
		return err
	}
	if req.Payload, err = payload(c.cmd); err != nil {
		return err
	}
	if err := setFromFlags(c.cmd, req, "front", "at_front", "label", "labels"); err != nil {
		return err
	}
	resp, err := sendContent(ctx, c, req.GetPayload(), c.Schedules.AddScheduleItem, req)
	return printAnswer(c, resp, c.tellRepeat(err, "item", "key", req.GetIdempotencyKey()), showItem)
}

func listItems(ctx context.Context, c *call) error {
	req, err := queueOf(c, &schedulesv1.ListScheduleItemsRequest{IncludePayloads: true})
	if err != nil {
		return err
	}
	if err := setFromFlags(c.cmd, req, "state", "states"); err != nil {
		return err
	}
	return pages(ctx, c, c.Schedules.ListScheduleItems, req, func(page *schedulesv1.ListScheduleItemsResponse) {
		c.out.items(page.GetItems())
	})
}

func updateItem(ctx context.Context, c *call) error {
	req, err := queueOf(c, &schedulesv1.UpdateScheduleItemRequest{ItemId: c.cmd.String("item"), Etag: c.cmd.String("etag")})
	if err != nil {
		return err
	}
	if req.Payload, err = payload(c.cmd); err != nil {
		return err
	}
	if req.Labels, err = namedValues(c.cmd, "label"); err != nil {
		return err
	}
	resp, err := sendContent(ctx, c, req.GetPayload(), c.Schedules.UpdateScheduleItem, req)
	return printAnswer(c, resp, err, showItem)
}

func moveItem(ctx context.Context, c *call) error {
	req, err := queueOf(c, &schedulesv1.MoveScheduleItemRequest{ItemId: c.cmd.String("item"), Etag: c.cmd.String("etag")})
	if err != nil {
		return err
	}
	before, front, end := c.cmd.String("before"), c.cmd.Bool("front"), c.cmd.Bool("end")
	switch {
	case before != "" && !front && !end:
		req.To = &schedulesv1.MoveScheduleItemRequest_BeforeItemId{BeforeItemId: before}
	case front && before == "" && !end:
		req.To = &schedulesv1.MoveScheduleItemRequest_Front{Front: true}
	case end && before == "" && !front:
		req.To = &schedulesv1.MoveScheduleItemRequest_End{End: true}
	default:
		return exit.Usagef("say where to, with one of --before, --front and --end")
	}
	return callAndPrint(ctx, c, c.Schedules.MoveScheduleItem, req, showItem)
}

// showItem prints the item of an answer.
func showItem[R interface {
	GetItem() *schedulesv1.ScheduleItem
}](c *call, resp R) {
	c.out.items([]*schedulesv1.ScheduleItem{resp.GetItem()})
}

func (p *printer) items(list []*schedulesv1.ScheduleItem) {
	rows := [][]string{{"KEY", "PLACE", "STATE", "CONTENT", "NOTE", "JOB", "ITEM"}}
	for _, i := range list {
		place := ""
		if n := i.GetPosition(); n > 0 {
			place = strconv.Itoa(int(n))
		}
		rows = append(rows, []string{
			short(i.GetIdempotencyKey(), 40), place, word(i.GetState()),
			payloadLine(i.GetPayload()), short(i.GetRefuseReason(), 60), i.GetJobId(), i.GetItemId(),
		})
	}
	p.table(rows)
}
