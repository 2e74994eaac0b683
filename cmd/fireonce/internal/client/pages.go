package client

import (
	"context"
	"iter"

	"github.com/urfave/cli/v3"
	"google.golang.org/protobuf/proto"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/exit"
)

// maxPage is the most elements that the contract has in one page.
const maxPage = 500

// pageFlags are the flags of a list of things.
func pageFlags(things string) []cli.Flag {
	return []cli.Flag{
		&cli.IntFlag{Name: "page-size", Usage: "`NUMBER` how many " + things + " a page has, up to 500", DefaultText: "50, with --all 500"},
		textFlag("page-token", "`TOKEN` go on where a page with the same filter ended"),
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

// Pages makes a call that is no stream for each page of an answer, from the page that the request
// names on. It ends after an error.
func Pages[Q proto.Message, R interface{ GetNextPageToken() string }](
	ctx context.Context, method func(context.Context, Q) (R, error), req Q,
) iter.Seq2[R, error] {
	return func(yield func(R, error) bool) {
		for {
			page, err := Ask(ctx, method, req)
			if !yield(page, err) || err != nil || page.GetNextPageToken() == "" {
				return
			}
			set(req, "page_token", page.GetNextPageToken())
		}
	}
}

// lists makes a command that lists things, of the object that its argument names or of the project. Words
// are the fields that flags set.
func lists[S any, Q message, R interface {
	message
	GetNextPageToken() string
}](noun, things, words string, method func(S, context.Context, Q) (R, error), show func(*call, R), cmd *cli.Command) *cli.Command {
	cmd.Flags = append(pageFlags(things), cmd.Flags...)
	return asks(noun, fieldsOf(newOf[Q](), words), cmd, func(ctx context.Context, c *call, req Q) error {
		return pages(ctx, c, bound(c, method), req, func(page R) { show(c, page) })
	})
}

// pages prints the page at --page-token, and with --all those after it.
func pages[Q proto.Message, R interface {
	message
	GetNextPageToken() string
}](ctx context.Context, c *call, method func(context.Context, Q) (R, error), req Q, show func(R)) error {
	all, token := c.cmd.Bool("all"), ""
	if all && c.out.json && !c.out.lines {
		return exit.Usagef("--all goes with --output table or jsonl: json is one document for each page")
	}
	if n := c.cmd.Int("page-size"); c.cmd.IsSet("page-size") && (n < 1 || n > maxPage) {
		return exit.Usagef("--page-size %d: must be 1 to %d", n, maxPage)
	}
	set(req, "page_size", pageSize(c.cmd))
	set(req, "page_token", c.cmd.String("page-token"))
	for page, err := range Pages(ctx, method, req) {
		if err != nil {
			return err
		}
		if !c.out.json {
			show(page)
		} else if err := c.out.message(page); err != nil {
			return err
		}
		token, c.out.headless = page.GetNextPageToken(), true
		if !all {
			break
		}
	}
	switch {
	case token == "" || c.out.json && !c.out.lines:
	case c.out.lines:
		c.tell("there are more: --all, or --page-token %s", plain(token))
	default:
		c.out.line("\nThere are more: --all, or --page-token %s", plain(token))
	}
	return nil
}
