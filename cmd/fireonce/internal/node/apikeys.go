package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/fireonce/fireonce/internal/apikey"
	"github.com/fireonce/fireonce/server"
	"github.com/fireonce/fireonce/store"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/exit"
)

// Rules of this file: the keys of clients. A key is printed once, when it is made,
// and nothing of it but its hash is kept.

var (
	projectForm = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,62}$`)
	keyNameForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)
)

// operatorName is how events name the operator's key.
const operatorName = "key"

func apiKeysCommand() *cli.Command {
	return &cli.Command{
		Name:  "apikeys",
		Usage: "the keys of clients: make, list, revoke",
		Description: "A key belongs to one project: all that its holder makes is that project's, and it sees nothing else. Two keys of one\n" +
			"client may live at the same time, so that one replaces the other. Running servers on PostgreSQL know a new key at\n" +
			"once and refuse a revoked one within 5 seconds; an SQLite file must not be in use.",
		Commands: []*cli.Command{
			{
				Name: "create", Usage: "make a key and print it, once",
				Description: "The key alone goes to standard output. Scopes: " + strings.Join(server.Scopes(), ", ") + "; or all.\n" +
					"None includes another one.",
				Flags: operatorFlags(
					&cli.StringFlag{Name: "project", Usage: "the `PROJECT` that the key's holder works in", Value: server.DefaultProject},
					&cli.BoolFlag{Name: "new-project", Usage: "make the project, if it does not exist"},
					&cli.StringFlag{Name: "scopes", Usage: "what it may do, `SCOPE,…`", Required: true},
					&cli.StringFlag{Name: "name", Usage: "what events call its holder: api:`NAME`"},
					&cli.StringFlag{Name: "expires", Usage: "how long it is good for, such as `90d` or 12h; default: until it is revoked"},
				),
				Action: createAPIKey,
			},
			{
				Name: "list", Usage: "what is known of the keys; never a key itself",
				Flags:  operatorFlags(&cli.StringFlag{Name: "project", Usage: "of one `PROJECT` only"}),
				Action: listAPIKeys,
			},
			{
				Name: "revoke", Usage: "end a key, for ever", ArgsUsage: "ID",
				Flags: operatorFlags(), Action: revokeAPIKey,
			},
		},
	}
}

func createAPIKey(ctx context.Context, cmd *cli.Command) error {
	if err := noArgs(cmd); err != nil {
		return err
	}
	d, err := operated(cmd)
	if err != nil {
		return err
	}
	k, err := newAPIKey(cmd)
	if err != nil {
		return err
	}
	key, err := apikey.New()
	if err != nil {
		return err
	}
	hash := key.Hash()
	k.ID, k.Hash = key.ID, hash[:]
	return d.with(ctx, func(db store.Store) error {
		made, err := db.CreateAPIKey(ctx, k)
		if errors.Is(err, store.ErrNotFound) {
			return exit.Usagef("no project %s; --new-project makes it", k.Project)
		}
		if err != nil {
			return err
		}
		until := "until it is revoked"
		if !made.Expires.IsZero() {
			until = "until " + made.Expires.Format(time.RFC3339)
		}
		fmt.Fprintf(cmd.Root().ErrWriter, "key %s of project %s may %s, %s; it is shown now and never again\n",
			made.ID, made.Project, strings.Join(made.Scopes, ", "), until)
		fmt.Fprintln(cmd.Root().Writer, key.Reveal())
		return nil
	})
}

// newAPIKey reads what a key is to be.
func newAPIKey(cmd *cli.Command) (store.NewAPIKey, error) {
	k := store.NewAPIKey{Project: cmd.String("project"), NewProject: cmd.Bool("new-project"), Name: cmd.String("name")}
	var err error
	if k.Scopes, err = server.ParseScopes(cmd.String("scopes")); err != nil {
		return k, exit.Usagef("--scopes: %w", err)
	}
	switch {
	case !projectForm.MatchString(k.Project):
		return k, exit.Usagef("--project %q: must be of a-z, 0-9, _ and -, at most 63", k.Project)
	case k.Name != "" && (!keyNameForm.MatchString(k.Name) || k.Name == operatorName):
		return k, exit.Usagef("--name %q: must be of letters, digits, '.', _ and -, at most 63, and not %q", k.Name, operatorName)
	}
	if text := cmd.String("expires"); text != "" {
		if k.Lifetime, err = parseLifetime(text); err != nil {
			return k, err
		}
	}
	return k, nil
}

// parseLifetime reads a duration; days too.
func parseLifetime(text string) (time.Duration, error) {
	const most = 100 * 365 * 24 * time.Hour
	d, err := time.ParseDuration(text)
	if days, found := strings.CutSuffix(text, "d"); found {
		var n int
		if n, err = strconv.Atoi(days); err == nil && n <= int(most/(24*time.Hour)) {
			d = time.Duration(n) * 24 * time.Hour
		}
	}
	if err != nil || d < time.Second || d > most {
		return 0, exit.Usagef("--expires %q: must be a time such as 90d or 12h", text)
	}
	return d, nil
}

func listAPIKeys(ctx context.Context, cmd *cli.Command) error {
	if err := noArgs(cmd); err != nil {
		return err
	}
	d, err := operated(cmd)
	if err != nil {
		return err
	}
	return d.with(ctx, func(db store.Store) error {
		var all []store.APIKey
		for after := ""; ; after = all[len(all)-1].ID {
			page, err := db.ListAPIKeys(ctx, cmd.String("project"), after, store.MaxBatch)
			if err != nil {
				return err
			}
			if len(page) == 0 {
				break
			}
			all = append(all, page...)
		}
		slices.SortFunc(all, func(a, b store.APIKey) int {
			return cmp.Or(cmp.Compare(a.Project, b.Project), a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
		})
		w := tabwriter.NewWriter(cmd.Root().Writer, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "ID\tPROJECT\tNAME\tSTATE\tSCOPES\tCREATED\tEXPIRES\tLAST USED")
		for _, k := range all {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", k.ID, k.Project, cmp.Or(k.Name, "-"), stateOf(k),
				strings.Join(k.Scopes, ","), day(k.Created), day(k.Expires), day(k.LastUsed))
		}
		return w.Flush()
	})
}

func stateOf(k store.APIKey) string {
	switch {
	case !k.Revoked.IsZero():
		return "revoked"
	case !k.Live():
		return "over"
	default:
		return "live"
	}
}

func day(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Format("2006-01-02T15:04Z")
}

func revokeAPIKey(ctx context.Context, cmd *cli.Command) error {
	if cmd.Args().Len() != 1 {
		return exit.Usagef("one key id is needed; see `fireonce apikeys list`")
	}
	d, err := operated(cmd)
	if err != nil {
		return err
	}
	id := cmd.Args().First()
	if apikey.Looks(id) {
		return exit.Usagef("name the key by its id: the 16 digits after fo_")
	}
	return d.with(ctx, func(db store.Store) error {
		k, err := db.RevokeAPIKey(ctx, id)
		if err != nil {
			return fmt.Errorf("API key %s: %w", id, err)
		}
		fmt.Fprintf(cmd.Root().Writer, "key %s of project %s is revoked since %s; servers refuse it within 5 seconds\n", k.ID, k.Project, day(k.Revoked))
		return nil
	})
}
