package client

import (
	"context"
	"fmt"
	"strconv"

	"github.com/google/uuid"
	"github.com/urfave/cli/v3"
	"google.golang.org/protobuf/proto"

	fireoncev1 "github.com/fireonce/fireonce/gen/fireonce/v1"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/exit"
)

// itemsCommand is about the queue of a schedule that was created with --queue.
func itemsCommand() *cli.Command {
	item := func() cli.Flag {
		return &cli.StringFlag{Name: "item", Usage: "the item's `ID`", Required: true}
	}
	etag := func() cli.Flag {
		return &cli.StringFlag{Name: "etag", Usage: "the item as you saw it, by its `ETAG`; default: as it is now"}
	}
	return &cli.Command{
		Name: "items", Usage: "fill and order the queue of a schedule with --queue",
		Commands: []*cli.Command{
			{
				Name: "add", Usage: "add content, which the next free firing takes", ArgsUsage: "SCHEDULE",
				Flags: flags(append(payloadFlags(),
					&cli.StringFlag{Name: "key", Usage: "the item's `KEY`: the same call with it is the same item; default: a new one"},
					&cli.StringSliceFlag{Name: "label", Usage: "a `NAME=VALUE` for its job; may be repeated"},
					&cli.BoolFlag{Name: "front", Usage: "before all others"},
				)...),
				Action: action(addItem),
			},
			{
				Name: "list", Usage: "list items in the order in which they go out", ArgsUsage: "SCHEDULE",
				Flags: flags(append(pageFlags("items"),
					&cli.StringSliceFlag{Name: "state", Usage: "only those in this `STATE`, e.g. waiting; may be repeated"},
				)...),
				Action: action(listItems),
			},
			{
				Name: "update", Usage: "replace the content of an item that has not gone out", ArgsUsage: "SCHEDULE",
				Flags: flags(append(payloadFlags(), item(), etag(),
					&cli.StringSliceFlag{Name: "label", Usage: "a `NAME=VALUE` for its job; may be repeated; replaces all"},
				)...),
				Action: action(updateItem),
			},
			{
				Name: "move", Usage: "change the place of an item", ArgsUsage: "SCHEDULE",
				Flags: flags(item(), etag(),
					&cli.StringFlag{Name: "before", Usage: "before the item with this `ID`"},
					&cli.BoolFlag{Name: "front", Usage: "before all others"},
					&cli.BoolFlag{Name: "end", Usage: "behind all others"},
				),
				Action: action(moveItem),
			},
			{
				Name: "remove", Usage: "take an item out", ArgsUsage: "SCHEDULE",
				Flags: flags(item(), etag()), Action: action(removeItem),
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
	req, err := queueOf(c, &fireoncev1.AddScheduleItemRequest{IdempotencyKey: c.cmd.String("key"), AtFront: c.cmd.Bool("front")})
	if err != nil {
		return err
	}
	if req.GetIdempotencyKey() == "" {
		id, err := uuid.NewV7()
		if err != nil {
			return fmt.Errorf("make a key: %w", err)
		}
		req.IdempotencyKey = id.String()
	}
	if req.Payload, err = payload(c.cmd); err != nil {
		return err
	}
	if req.Labels, err = labels(c.cmd); err != nil {
		return err
	}
	ctx, cancel := unary(ctx)
	defer cancel()
	resp, err := sendContent(c, req.GetPayload(), func() (*fireoncev1.AddScheduleItemResponse, error) { return c.Schedules.AddScheduleItem(ctx, req) })
	if err != nil {
		if maybeStored(err) {
			fmt.Fprintf(c.cmd.Root().ErrWriter, "fireonce: the item may or may not be stored; repeat the call with --key %s\n", req.GetIdempotencyKey())
		}
		return err
	}
	return c.changedItem(resp, resp.GetItem())
}

func listItems(ctx context.Context, c *call) error {
	req, err := queueOf(c, &fireoncev1.ListScheduleItemsRequest{
		IncludePayloads: true, PageSize: pageSize(c.cmd),
	})
	if err != nil {
		return err
	}
	if req.States, err = enums[fireoncev1.ScheduleItemState](c.cmd, "state", "SCHEDULE_ITEM_STATE_", fireoncev1.ScheduleItemState_value); err != nil {
		return err
	}
	return pages(ctx, c, func(ctx context.Context, token string) (*fireoncev1.ListScheduleItemsResponse, error) {
		req.PageToken = token
		return c.Schedules.ListScheduleItems(ctx, req)
	}, func(page *fireoncev1.ListScheduleItemsResponse) { c.out.items(page.GetItems()) })
}

func updateItem(ctx context.Context, c *call) error {
	req, err := queueOf(c, &fireoncev1.UpdateScheduleItemRequest{ItemId: c.cmd.String("item"), Etag: c.cmd.String("etag")})
	if err != nil {
		return err
	}
	if req.Payload, err = payload(c.cmd); err != nil {
		return err
	}
	if req.Labels, err = labels(c.cmd); err != nil {
		return err
	}
	ctx, cancel := unary(ctx)
	defer cancel()
	resp, err := sendContent(c, req.GetPayload(), func() (*fireoncev1.UpdateScheduleItemResponse, error) {
		return c.Schedules.UpdateScheduleItem(ctx, req)
	})
	if err != nil {
		return err
	}
	return c.changedItem(resp, resp.GetItem())
}

func moveItem(ctx context.Context, c *call) error {
	req, err := queueOf(c, &fireoncev1.MoveScheduleItemRequest{ItemId: c.cmd.String("item"), Etag: c.cmd.String("etag")})
	if err != nil {
		return err
	}
	before, front, end := c.cmd.String("before"), c.cmd.Bool("front"), c.cmd.Bool("end")
	switch {
	case before != "" && !front && !end:
		req.To = &fireoncev1.MoveScheduleItemRequest_BeforeItemId{BeforeItemId: before}
	case front && before == "" && !end:
		req.To = &fireoncev1.MoveScheduleItemRequest_Front{Front: true}
	case end && before == "" && !front:
		req.To = &fireoncev1.MoveScheduleItemRequest_End{End: true}
	default:
		return exit.Usagef("say where to, with one of --before, --front and --end")
	}
	ctx, cancel := unary(ctx)
	defer cancel()
	resp, err := c.Schedules.MoveScheduleItem(ctx, req)
	if err != nil {
		return err
	}
	return c.changedItem(resp, resp.GetItem())
}

func removeItem(ctx context.Context, c *call) error {
	req, err := queueOf(c, &fireoncev1.RemoveScheduleItemRequest{ItemId: c.cmd.String("item"), Etag: c.cmd.String("etag")})
	if err != nil {
		return err
	}
	ctx, cancel := unary(ctx)
	defer cancel()
	resp, err := c.Schedules.RemoveScheduleItem(ctx, req)
	if err != nil {
		return err
	}
	return c.changedItem(resp, resp.GetItem())
}

// changedItem prints the answer of a call that changed one item.
func (c *call) changedItem(resp proto.Message, item *fireoncev1.ScheduleItem) error {
	if c.out.json {
		return c.out.message(resp)
	}
	c.out.items([]*fireoncev1.ScheduleItem{item})
	return nil
}

func (p *printer) items(list []*fireoncev1.ScheduleItem) {
	rows := [][]string{{"ITEM", "PLACE", "STATE", "KEY", "CONTENT", "JOB", "NOTE"}}
	for _, i := range list {
		place := ""
		if n := i.GetPosition(); n > 0 {
			place = strconv.Itoa(int(n))
		}
		content := ""
		if i.GetPayload() != nil {
			content = payloadLine(i.GetPayload())
		}
		rows = append(rows, []string{
			i.GetItemId(), place, words(i.GetState().String(), "SCHEDULE_ITEM_STATE_"), short(i.GetIdempotencyKey(), 40), content, i.GetJobId(),
			short(i.GetRefuseReason(), 60),
		})
	}
	p.table(rows)
}
