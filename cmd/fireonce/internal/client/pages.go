package client

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v3"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/exit"
)

// maxPage is the most elements that the contract has in one page.
const maxPage = 500

// pageFlags are the flags of a list of things.
func pageFlags(things string) []cli.Flag {
	return []cli.Flag{
		&cli.IntFlag{Name: "page-size", Usage: things + " in one page, as a `NUMBER` up to 500", DefaultText: "50, with --all 500"},
		textFlag("page-token", "go on where a page with the same filter ended, at its `TOKEN`"),
		boolFlag("all", "every page, one after the other; with --output table or jsonl"),
	}
}

// pageSize reads --page-size.
func pageSize(cmd *cli.Command) int32 {
	switch {
	case cmd.IsSet("page-size"):
		return int32(cmd.Int("page-size"))
	case cmd.Bool("all"):
		return maxPage
	default:
		return 50
	}
}

// paged is an answer that has pages.
type paged interface {
	message
	GetNextPageToken() string
}

// pages prints the page at --page-token, and with --all those after it.
func pages[T paged](ctx context.Context, c *call, read func(ctx context.Context, token string) (T, error), show func(T)) error {
	all, token := c.cmd.Bool("all"), c.cmd.String("page-token")
	if all && c.out.json && !c.out.lines {
		return exit.Usagef("--all goes with --output table or jsonl: json is one document for each page")
	}
	if n := c.cmd.Int("page-size"); c.cmd.IsSet("page-size") && (n < 1 || n > maxPage) {
		return exit.Usagef("--page-size %d: must be 1 to %d", n, maxPage)
	}
	for {
		page, err := Ask(ctx, read, token)
		if err != nil {
			return err
		}
		if !c.out.json {
			show(page)
		} else if err := c.out.message(page); err != nil {
			return err
		}
		token, c.out.headless = page.GetNextPageToken(), true
		if token == "" || !all {
			break
		}
	}
	switch {
	case token == "" || c.out.json && !c.out.lines:
	case c.out.lines:
		fmt.Fprintf(c.cmd.Root().ErrWriter, "fireonce: there are more: --all, or --page-token %s\n", plain(token))
	default:
		c.out.line("\nThere are more: --all, or --page-token %s", plain(token))
	}
	return nil
}
