package node

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"
	"github.com/urfave/cli/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/fireonce/fireonce/clients/go/adminv1"
	"github.com/fireonce/fireonce/internal/apikey"
	"github.com/fireonce/fireonce/server"
	"github.com/fireonce/fireonce/store"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/client"
	"github.com/fireonce/fireonce/cmd/fireonce/internal/duration"
	"github.com/fireonce/fireonce/cmd/fireonce/internal/exit"
	"github.com/fireonce/fireonce/cmd/fireonce/internal/terminal"
)

// Rules of this file: the keys of clients. A key is printed once, when it is made. Only its hash is
// stored.

func apiKeysCommand() *cli.Command {
	return &cli.Command{
		Name:  "apikeys",
		Usage: "the keys of clients: make, list, revoke",
		Description: "A key belongs to one project: all that its holder makes is that project's, and it sees nothing else. Two keys of one\n" +
			"client may live at the same time, so that one replaces the other. Running servers know a new key immediately and\n" +
			"refuse a revoked one within 5 seconds.\n\n" +
			"The server at --server is asked, with FIREONCE_API_KEY: the operator's key, or for keys of its own project one with the\n" +
			"scope admin. With --database no server is asked, and the database is opened instead: for the first key of a\n" +
			"server that requires one.",
		Commands: []*cli.Command{
			{
				Name: "create", Usage: "make a key and print it, once",
				Description: "The key alone goes to standard output. Scopes: " + strings.Join(server.Scopes(), ", ") + "; or all.\n" +
					"None includes another one. A caller can only give scopes of their own. If the answer is lost, the key that\n" +
					"nobody has is in `list`, never used: revoke it.",
				Flags: accessFlags(
					&cli.StringFlag{Name: "project", Usage: "`PROJECT` the project that the key's holder works in", DefaultText: "the caller's own"},
					&cli.BoolFlag{Name: "new-project", Usage: "make the project, if it does not exist"},
					&cli.StringFlag{Name: "scopes", Usage: "`SCOPE,…` what it may do", Required: true},
					&cli.StringFlag{Name: "name", Usage: "`NAME` the holder's name in events"},
					&cli.StringFlag{Name: "expires", Usage: "`DURATION` how long it is good for, e.g. 90d or 12h", DefaultText: "until it is revoked"},
				),
				Action: createAPIKey,
			},
			{
				Name: "list", Usage: "list the keys, without their secrets",
				Flags:  accessFlags(&cli.StringFlag{Name: "project", Usage: "`PROJECT` keys of this project only"}),
				Action: listAPIKeys,
			},
			{
				Name: "revoke", Usage: "end a key, permanently", ArgsUsage: "ID",
				Flags: accessFlags(), Action: revokeAPIKey,
			},
		},
	}
}

func createAPIKey(ctx context.Context, cmd *cli.Command) error {
	req, err := newAPIKey(cmd)
	if err != nil {
		return err
	}
	return withAccess(ctx, cmd, nil, func(a access) error {
		made, err := client.Ask(ctx, a.CreateApiKey, req)
		if connect.CodeOf(err) == connect.CodeNotFound && !req.GetCreateProject() {
			fmt.Fprintln(cmd.Root().ErrWriter, "fireonce: add --new-project to create it")
		}
		if exit.Code(err) == exit.Unavailable {
			fmt.Fprintln(cmd.Root().ErrWriter, "fireonce: a key that nobody has may have been made: see `fireonce apikeys list`, and revoke it")
		}
		if err != nil {
			return err
		}
		if printed, err := client.Print(cmd, made); printed || err != nil {
			return err
		}
		k, until := made.GetApiKey(), "never"
		if k.GetExpireTime() != nil {
			until = k.GetExpireTime().AsTime().Format(time.RFC3339)
		}
		fmt.Fprintf(cmd.Root().ErrWriter, "API key %s of project %s; scopes: %s; expires: %s. It is shown this once.\n",
			terminal.Plain(k.GetApiKeyId()), terminal.Plain(k.GetProjectId()), terminal.Plain(strings.Join(k.GetScopes(), ", ")), until)
		fmt.Fprintln(cmd.Root().Writer, terminal.Plain(made.GetSecret()))
		return nil
	})
}

// newAPIKey reads the flags of a new key.
func newAPIKey(cmd *cli.Command) (*adminv1.CreateApiKeyRequest, error) {
	scopes, err := server.ParseScopes(cmd.String("scopes"))
	if err != nil {
		return nil, exit.Usagef("--scopes: %w", err)
	}
	req := &adminv1.CreateApiKeyRequest{
		ProjectId: cmd.String("project"), CreateProject: cmd.Bool("new-project"), Name: cmd.String("name"), Scopes: scopes,
	}
	if text := cmd.String("expires"); text != "" {
		d, err := parseLifetime(text)
		if err != nil {
			return nil, err
		}
		req.Lifetime = durationpb.New(d)
	}
	return req, nil
}

// parseLifetime reads a duration; days too.
func parseLifetime(text string) (time.Duration, error) {
	const most = 100 * 365 * 24 * time.Hour
	d, err := duration.Parse(text)
	if err != nil || d < time.Second || d > most {
		return 0, exit.Usagef("--expires %q: must be a time such as 90d or 12h", text)
	}
	return d, nil
}

func listAPIKeys(ctx context.Context, cmd *cli.Command) error {
	return withAccess(ctx, cmd, nil, func(a access) error {
		all := &adminv1.ListApiKeysResponse{}
		req := &adminv1.ListApiKeysRequest{ProjectId: cmd.String("project"), PageSize: store.MaxBatch}
		for page, err := range client.Pages(ctx, a.ListApiKeys, req) {
			if err != nil {
				return err
			}
			all.ApiKeys = append(all.ApiKeys, page.GetApiKeys()...)
		}
		slices.SortFunc(all.GetApiKeys(), func(a, b *adminv1.ApiKey) int {
			return cmp.Or(cmp.Compare(a.GetProjectId(), b.GetProjectId()),
				a.GetCreateTime().AsTime().Compare(b.GetCreateTime().AsTime()), cmp.Compare(a.GetApiKeyId(), b.GetApiKeyId()))
		})
		if printed, err := client.Print(cmd, all); printed || err != nil {
			return err
		}
		rows := [][]string{{"ID", "PROJECT", "NAME", "STATE", "SCOPES", "CREATED", "EXPIRES", "LAST USED"}}
		for _, k := range all.GetApiKeys() {
			rows = append(rows, []string{
				k.GetApiKeyId(), k.GetProjectId(), cmp.Or(k.GetName(), "-"), stateOf(k), strings.Join(k.GetScopes(), ","),
				day(k.GetCreateTime()), day(k.GetExpireTime()), day(k.GetLastUseTime()),
			})
		}
		return client.PrintTable(cmd, rows)
	})
}

func stateOf(k *adminv1.ApiKey) string {
	switch {
	case k.GetRevokeTime() != nil:
		return "revoked"
	case !k.GetActive():
		return "over"
	default:
		return "live"
	}
}

func day(t *timestamppb.Timestamp) string {
	if t == nil {
		return "-"
	}
	return t.AsTime().Format("2006-01-02T15:04Z")
}

func revokeAPIKey(ctx context.Context, cmd *cli.Command) error {
	if cmd.Args().Len() != 1 {
		return exit.Usagef("one key id is needed; see `fireonce apikeys list`")
	}
	id := cmd.Args().First()
	if apikey.Looks(id) {
		return exit.Usagef("name the key by its id: the 16 digits after fo_")
	}
	return withAccess(ctx, cmd, nil, func(a access) error {
		res, err := client.Ask(ctx, a.RevokeApiKey, &adminv1.RevokeApiKeyRequest{ApiKeyId: id})
		if err != nil {
			return err
		}
		if printed, err := client.Print(cmd, res); printed || err != nil {
			return err
		}
		k := res.GetApiKey()
		fmt.Fprintf(cmd.Root().Writer, "key %s of project %s is revoked since %s; servers refuse it within 5 seconds\n",
			terminal.Plain(k.GetApiKeyId()), terminal.Plain(k.GetProjectId()), day(k.GetRevokeTime()))
		return nil
	})
}
