package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/fireonce/fireonce/internal/vault"
	"github.com/fireonce/fireonce/store"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/exit"
)

// Rules of this file: the keys that seal credentials. What these commands print is
// ids, but for the new key that `generate` prints because it was asked to.

func keyFileFlag(usage string) cli.Flag {
	return &cli.StringFlag{Name: "key-file", Usage: usage, Sources: cli.EnvVars("FIREONCE_KEY_FILE")}
}

func keysCommand() *cli.Command {
	const file = "the key `FILE`; default PATH.key beside an SQLite file"
	return &cli.Command{
		Name:  "keys",
		Usage: "the keys that seal credentials: make, replace, list",
		Description: "A key file has a line for each key. The first one seals, all of them open. To replace a key: `generate --key-file`\n" +
			"on one machine, copy the file to every server, restart them one by one, `rotate`, and when `list` says that the\n" +
			"old key seals nothing any more, `remove` it. Keep it for as long as there are backups that it seals.\n\n" +
			"`list`, `rotate` and `remove` open the database. Servers on PostgreSQL go on meanwhile; an SQLite file must not be\n" +
			"in use.",
		Commands: []*cli.Command{
			{
				Name: "generate", Usage: "make a key, and print it or put it into a key file",
				Description: "Without --key-file the line of a new key is printed, for a file or for " + keysVariable + ". With it the key is added to\n" +
					"the file, which is made if there is none: as the one that seals from the next start of a server on, or\n" +
					"with --standby as one that only opens. One command at a time.",
				Flags: []cli.Flag{
					// No variable: without the flag nothing is written.
					&cli.StringFlag{Name: "key-file", Usage: "the key `FILE` to add it to"},
					&cli.BoolFlag{Name: "standby", Usage: "add it as a key that only opens; `keys use` lets it seal"},
				},
				Action: generateKey,
			},
			{
				Name: "use", Usage: "let a key of a key file seal, from the next start of a server on", ArgsUsage: "KEY-ID",
				Flags: operatorFlags(keyFileFlag(file)), Action: useKey,
			},
			{
				Name: "remove", Usage: "take a key that seals nothing any more out of a key file", ArgsUsage: "KEY-ID",
				Flags: operatorFlags(keyFileFlag(file)), Action: removeKey,
			},
			{
				Name: "list", Aliases: []string{"status"}, Usage: "which keys there are, and how many credentials each seals",
				Flags: operatorFlags(keyFileFlag(file)), Action: listKeys,
			},
			{
				Name: "rotate", Usage: "seal every credential with the first key",
				Description: "Every server must have that key already, or it cannot open what is sealed anew: its jobs wait until it has.\n" +
					"Works beside running servers on PostgreSQL. It may be stopped and run again at any time.",
				Flags: operatorFlags(keyFileFlag(file)), Action: rotateKeys,
			},
		},
	}
}

func generateKey(_ context.Context, cmd *cli.Command) error {
	if err := noArgs(cmd); err != nil {
		return err
	}
	out, file, standby := cmd.Root().Writer, cmd.String("key-file"), cmd.Bool("standby")
	if file == "" {
		if standby {
			return exit.Usagef("--standby needs --key-file")
		}
		line, err := vault.GenerateKey()
		if err != nil {
			return err
		}
		fmt.Fprintln(out, line)
		return nil
	}
	v, err := vault.AddKey(file, !standby)
	if err != nil {
		return err
	}
	ids := v.KeyIDs()
	if standby && len(ids) > 1 {
		fmt.Fprintf(out, "key %s is in %s and opens; `fireonce keys use %[1]s` lets it seal\n", ids[len(ids)-1], file)
		return nil
	}
	fmt.Fprintf(out, "key %s is the first one of %s: servers seal with it from their next start on\n", ids[0], file)
	return nil
}

// keyFileOf gives the key file that a command changes, and the key it names.
func keyFileOf(cmd *cli.Command) (d Database, file, id string, err error) {
	if cmd.Args().Len() != 1 {
		return d, "", "", exit.Usagef("one key id is needed; see `fireonce keys list`")
	}
	if d, err = operated(cmd); err != nil {
		return d, "", "", err
	}
	source, err := d.keys("", cmd.String("key-file"))
	return d, source.file, cmd.Args().First(), err
}

func useKey(_ context.Context, cmd *cli.Command) error {
	_, file, id, err := keyFileOf(cmd)
	if err != nil {
		return err
	}
	if _, err := vault.UseKey(file, id); err != nil {
		return noSuchKey(err, file, id)
	}
	fmt.Fprintf(cmd.Root().Writer, "key %s is the first one of %s: servers seal with it from their next start on\n", id, file)
	return nil
}

func noSuchKey(err error, file, id string) error {
	if errors.Is(err, vault.ErrKeyID) {
		return exit.Usagef("key file %s has no key %s; see `fireonce keys list`", file, id)
	}
	return err
}

func removeKey(ctx context.Context, cmd *cli.Command) error {
	d, file, id, err := keyFileOf(cmd)
	if err != nil {
		return err
	}
	return d.with(ctx, func(db store.Store) error {
		used, err := db.CredentialKeys(ctx)
		if err != nil {
			return err
		}
		if slices.Contains(used, id) {
			return exit.Usagef("key %s still seals credentials of this database: run `fireonce keys rotate` first", id)
		}
		if _, err := vault.RemoveKey(file, id); err != nil {
			return noSuchKey(err, file, id)
		}
		fmt.Fprintf(cmd.Root().Writer, "key %s is no longer in %s; backups that it seals cannot be opened without it\n", id, file)
		return nil
	})
}

// withKeys runs fn with a database that exists and its keys, whatever is missing of
// them.
func withKeys(ctx context.Context, cmd *cli.Command, fn func(store.Store, *vault.Vault) error) error {
	if err := noArgs(cmd); err != nil {
		return err
	}
	d, err := operated(cmd)
	if err != nil {
		return err
	}
	source, err := d.keys(os.Getenv(keysVariable), cmd.String("key-file"))
	if err != nil {
		return err
	}
	keys, err := source.load()
	if err != nil {
		return err
	}
	return d.with(ctx, func(db store.Store) error { return fn(db, keys) })
}

// operatorFlags puts the flags of a command that opens a database beside running
// servers before its own.
func operatorFlags(own ...cli.Flag) []cli.Flag {
	return append([]cli.Flag{databaseFlag(), standbyFlag()}, own...)
}

// operated is the database that they name. A start that does not say what the
// servers say of failovers would quarantine it.
func operated(cmd *cli.Command) (Database, error) {
	d, err := ParseDatabase(cmd.String("database"))
	d.synchronousStandby = cmd.Bool("synchronous-standby")
	return d, err
}

func noArgs(cmd *cli.Command) error {
	if cmd.Args().Present() {
		return exit.Usagef("unexpected argument %q", cmd.Args().First())
	}
	return nil
}

// with runs fn with a database that exists, and closes it.
func (d Database) with(ctx context.Context, fn func(store.Store) error) (err error) {
	if err := d.exists(); err != nil {
		return err
	}
	db, err := d.open(ctx, false)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := db.Close(); err == nil {
			err = cerr
		}
	}()
	return fn(db)
}

func listKeys(ctx context.Context, cmd *cli.Command) error {
	return withKeys(ctx, cmd, func(db store.Store, keys *vault.Vault) error {
		return printKeys(ctx, cmd.Root().Writer, db, keys)
	})
}

func printKeys(ctx context.Context, out io.Writer, db store.Store, keys *vault.Vault) error {
	use, err := db.KeyUse(ctx)
	if err != nil {
		return err
	}
	counts := make(map[string]int64)
	var ids []string
	for _, u := range use {
		counts[u.KeyID] = u.Credentials
		ids = append(ids, u.KeyID)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "KEY\tCREDENTIALS\tROLE")
	for i, id := range keys.KeyIDs() {
		role := "opens"
		if i == 0 {
			role = "seals"
		}
		fmt.Fprintf(w, "%s\t%d\t%s\n", id, counts[id], role)
	}
	missing := keys.Missing(ids)
	for _, id := range missing {
		fmt.Fprintf(w, "%s\t%d\tMISSING\n", id, counts[id])
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if len(missing) > 0 {
		return fmt.Errorf("%d keys are missing: servers do not start without them", len(missing))
	}
	return nil
}

const (
	// resealBatch bounds one transaction, and what of the secrets' seals is in memory.
	resealBatch = 100
	// resealPasses bounds how often what changed meanwhile is tried again.
	resealPasses = 10
)

// resealed is what a rotation has done.
type resealed struct {
	done, changed int
	failed        []store.SealedPlace
}

func rotateKeys(ctx context.Context, cmd *cli.Command) error {
	return withKeys(ctx, cmd, func(db store.Store, keys *vault.Vault) error {
		out, begun := cmd.Root().Writer, time.Now()
		r, err := reseal(ctx, db, keys)
		fmt.Fprintf(out, "sealed %d credentials with key %s in %v\n", r.done, keys.KeyID(), time.Since(begun).Round(time.Millisecond))
		if err != nil {
			return fmt.Errorf("the same command goes on: %w", err)
		}
		if err := printKeys(ctx, out, db, keys); err != nil {
			return err
		}
		switch {
		case len(r.failed) > 0:
			return fmt.Errorf("%d credentials cannot be opened with their key, the first one that of connection %s: give each a new credential",
				len(r.failed), r.failed[0].Connection)
		case r.changed > 0:
			return fmt.Errorf("%d credentials kept changing: run the same command again", r.changed)
		}
		return nil
	})
}

// reseal seals what other keys seal with the first one, place by place, and tries
// again what others have changed meanwhile. It stops when its context ends, with
// whole batches done.
func reseal(ctx context.Context, db store.Store, keys *vault.Vault) (resealed, error) {
	var r resealed
	for range resealPasses {
		r.changed, r.failed = 0, nil
		var after store.SealedPlace
		for {
			page, err := db.CredentialsOfOthers(ctx, keys.KeyID(), after, resealBatch)
			if err != nil {
				return r, err
			}
			if len(page) == 0 {
				break
			}
			after = page[len(page)-1].SealedPlace
			if err := r.page(ctx, db, keys, page); err != nil {
				return r, err
			}
		}
		if r.changed == 0 {
			break
		}
	}
	return r, nil
}

// page seals one page.
func (r *resealed) page(ctx context.Context, db store.Store, keys *vault.Vault, page []store.SealedAt) error {
	items := make([]store.Reseal, 0, len(page))
	for _, old := range page {
		data, err := keys.Rewrap(old.Data, old.KeyID, vault.Place{
			Project: old.Project, Connection: old.Connection, Version: old.Version,
		})
		if err != nil {
			r.failed = append(r.failed, old.SealedPlace)
			continue
		}
		items = append(items, store.Reseal{Old: old, KeyID: keys.KeyID(), Data: data})
	}
	done, err := db.Reseal(ctx, items)
	if err != nil {
		return err
	}
	for _, ok := range done {
		if ok {
			r.done++
		} else {
			r.changed++
		}
	}
	return nil
}
