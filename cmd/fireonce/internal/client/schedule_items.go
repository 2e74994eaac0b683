package client

import (
	"context"
	"slices"
	"strconv"

	"github.com/urfave/cli/v3"

	"github.com/fireonce/fireonce/clients/go/schedulesv1"
	"github.com/fireonce/fireonce/clients/go/schedulesv1/schedulesv1connect"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/exit"
)

// itemsCommand is about the queue of a schedule that was created with --queue.
func itemsCommand() *cli.Command {
	type service = schedulesv1connect.ScheduleServiceClient
	const item = "item:ID=item_id!"
	return &cli.Command{
		Name: "items", Usage: "fill and order the queue of a schedule with --queue",
		Commands: []*cli.Command{
			{
				Name: "add", Usage: "add content, which the next free firing takes", ArgsUsage: "SCHEDULE",
				Flags: flags(slices.Concat(newItem.flags(), []cli.Flag{
					&cli.StringFlag{Name: "key", Usage: "`KEY` the item's key: the same call with it is the same item", DefaultText: "a new one"},
				}, payloadFlags())...),
				Action: action(addItem),
			},
			asks("schedule", fieldsOf(&schedulesv1.ListScheduleItemsRequest{}, "states"), &cli.Command{
				Name: "list", Usage: "list items in the order in which they go out", Flags: pageFlags("items"),
			}, func(ctx context.Context, c *call, req *schedulesv1.ListScheduleItemsRequest) error {
				req.IncludePayloads = true
				return pages(ctx, c, c.Schedules.ListScheduleItems, req, func(page *schedulesv1.ListScheduleItemsResponse) { c.out.items(page.GetItems()) })
			}),
			asks("schedule", fieldsOf(&schedulesv1.UpdateScheduleItemRequest{}, item, "labels"), &cli.Command{
				Name: "update", Usage: "replace the content of an item that has not gone out", Flags: append(payloadFlags(), etagFlag("item")),
			}, updateItem),
			asks("schedule", fieldsOf(&schedulesv1.MoveScheduleItemRequest{}, item, "before:ITEM=before_item_id front end"), &cli.Command{
				Name: "move", Usage: "change the place of an item", Flags: []cli.Flag{etagFlag("item")},
			}, moveItem),
			on("schedule", item, service.RemoveScheduleItem, showItem, &cli.Command{Name: "remove", Usage: "take an item out", Flags: []cli.Flag{etagFlag("item")}}),
		},
	}
}

var newItem = fieldsOf(&schedulesv1.AddScheduleItemRequest{}, "labels front=at_front")

func moveItem(ctx context.Context, c *call, req *schedulesv1.MoveScheduleItemRequest) error {
	to := 0
	for _, name := range []string{"before", "front", "end"} {
		if c.cmd.IsSet(name) {
			to++
		}
	}
	if to != 1 {
		return exit.Usagef("say where to, with one of --before, --front and --end")
	}
	return callAndPrint(ctx, c, c.Schedules.MoveScheduleItem, req, showItem)
}

func updateItem(ctx context.Context, c *call, req *schedulesv1.UpdateScheduleItemRequest) (err error) {
	if req.Payload, err = payload(c.cmd); err != nil {
		return err
	}
	resp, err := sendContent(ctx, c, req.GetPayload(), c.Schedules.UpdateScheduleItem, req)
	return printAnswer(c, resp, err, showItem)
}

func addItem(ctx context.Context, c *call) error {
	if c.cmd.Args().Len() != 1 || c.cmd.Args().First() == "" {
		return exit.Usagef("name one schedule, by its id or its key")
	}
	id, key := idOrKey(c.cmd.Args().First())
	req := named(&schedulesv1.AddScheduleItemRequest{}, "schedule_id", id, key)
	var err error
	if req.IdempotencyKey, err = keyOrNew(c.cmd, "key"); err != nil {
		return err
	}
	if req.Payload, err = payload(c.cmd); err != nil {
		return err
	}
	if err := newItem.set(c.cmd, req); err != nil {
		return err
	}
	resp, err := sendContent(ctx, c, req.GetPayload(), c.Schedules.AddScheduleItem, req)
	return printAnswer(c, resp, c.tellRepeat(err, "item", "key", req.GetIdempotencyKey()), showItem)
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
