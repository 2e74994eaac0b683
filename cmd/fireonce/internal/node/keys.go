package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/fireonce/fireonce/clients/go/adminv1"
	"github.com/fireonce/fireonce/internal/vault"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/client"
	"github.com/fireonce/fireonce/cmd/fireonce/internal/exit"
	"github.com/fireonce/fireonce/cmd/fireonce/internal/terminal"
)

// Rules of this file: the keys that seal credentials. These commands print ids only. `generate`
// prints a new key on request.

func keyFileFlag() cli.Flag {
	const usage = "`FILE` the key file; default: PATH.key beside an SQLite file"
	return &cli.StringFlag{Name: "key-file", Usage: usage, Sources: cli.EnvVars("FIREONCE_KEY_FILE")}
}

func keysCommand() *cli.Command {
	return &cli.Command{
		Name:  "keys",
		Usage: "the keys that seal credentials: make, replace, list",
		Description: "A key file has a line for each key. The first one seals, all of them open. To replace a key: `generate --key-file`\n" +
			"on one machine, copy the file to every server, restart them one by one, `rotate`, and when `list` says that the\n" +
			"old key seals nothing any more, `remove` it. Keep it for as long as there are backups that it seals.\n\n" +
			"`list`, `rotate` and `remove` ask the server at --server, with the operator's key in FIREONCE_API_KEY, while it serves.\n" +
			"With --database no server is asked: the database is opened, with the keys of --key-file.",
		Commands: []*cli.Command{
			{
				Name: "generate", Usage: "make a key, and print it or put it into a key file",
				Description: "Without --key-file the line of a new key is printed, for a file or for " + keysVariable + ". With it the key is added to\n" +
					"the file, which is made if there is none: as the one that seals from the next start of a server on, or\n" +
					"with --standby as one that only opens. One command at a time.",
				Flags: []cli.Flag{
					// No variable: without the flag nothing is written.
					&cli.StringFlag{Name: "key-file", Usage: "`FILE` the key file to add it to"},
					&cli.BoolFlag{Name: "standby", Usage: "add it as a key that only opens; fireonce keys use lets it seal"},
				},
				Action: generateKey,
			},
			{
				Name: "use", Usage: "let a key of a key file seal, from the next start of a server on", ArgsUsage: "KEY-ID",
				Flags: []cli.Flag{databaseFlag(), keyFileFlag()}, Action: useKey,
			},
			{
				Name: "remove", Usage: "take a key that seals nothing any more out of a key file", ArgsUsage: "KEY-ID",
				Flags: accessFlags(keyFileFlag()), Action: removeKey,
			},
			{
				Name: "list", Aliases: []string{"status"}, Usage: "which keys there are, and how many credentials each seals",
				Description: "LOGINS were begun and have not come back; they are not sealed anew, and end within 10 minutes.",
				Flags:       accessFlags(keyFileFlag()), Action: listKeys,
			},
			{
				Name: "rotate", Usage: "seal every credential with the first key",
				Description: "That is the one that the server seals with since its start. Every other server must have it already, or it\n" +
					"cannot open what is sealed anew: its jobs wait until it has. It may be stopped and run again at any time.",
				Flags: accessFlags(keyFileFlag()), Action: rotateKeys,
			},
		},
	}
}

func generateKey(_ context.Context, cmd *cli.Command) error {
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

// keyFileOf returns the key file that a command changes, and the key that it names.
func keyFileOf(cmd *cli.Command) (file, id string, err error) {
	if cmd.Args().Len() != 1 {
		return "", "", exit.Usagef("one key id is needed; see `fireonce keys list`")
	}
	d, err := namedDatabase(cmd)
	if err != nil {
		return "", "", err
	}
	source, err := d.keys("", cmd.String("key-file"))
	return source.file, cmd.Args().First(), err
}

func useKey(_ context.Context, cmd *cli.Command) error {
	file, id, err := keyFileOf(cmd)
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
	file, id, err := keyFileOf(cmd)
	if err != nil {
		return err
	}
	load := func(Database) (*vault.Vault, error) { return vault.LoadKeyFile(file) }
	return withAccess(ctx, cmd, load, func(a access) error {
		known, err := client.Ask(ctx, a.ListSealingKeys, &adminv1.ListSealingKeysRequest{})
		if err != nil {
			return err
		}
		for _, k := range known.GetSealingKeys() {
			if k.GetSealingKeyId() != id {
				continue
			}
			if err := removable(k); err != nil {
				return err
			}
		}
		if _, err := vault.RemoveKey(file, id); err != nil {
			return noSuchKey(err, file, id)
		}
		fmt.Fprintf(cmd.Root().Writer, "key %s is no longer in %s; backups that it seals cannot be opened without it\n", id, file)
		return nil
	})
}

// removable returns why a key is still needed.
func removable(k *adminv1.SealingKey) error {
	switch {
	case k.GetCredentialCount() > 0:
		return exit.Usagef("key %s still seals %d credentials: run `fireonce keys rotate` first", k.GetSealingKeyId(), k.GetCredentialCount())
	case k.GetRole() == adminv1.SealingKeyRole_SEALING_KEY_ROLE_SEALS:
		return exit.Usagef("key %s is the one that seals: let another one seal first, and restart the servers", k.GetSealingKeyId())
	case k.GetLoginCount() > 0:
		return exit.Usagef("key %s still seals %d logins under way, which could not be completed without it: they end within 10 minutes",
			k.GetSealingKeyId(), k.GetLoginCount())
	}
	return nil
}

// withSealing runs fn with a running server, or with a database and its keys, also if one of them
// is missing.
func withSealing(ctx context.Context, cmd *cli.Command, fn func(access) error) error {
	return withAccess(ctx, cmd, func(d Database) (*vault.Vault, error) {
		source, err := d.keys(os.Getenv(keysVariable), cmd.String("key-file"))
		if err != nil {
			return nil, err
		}
		return source.load()
	}, fn)
}

func listKeys(ctx context.Context, cmd *cli.Command) error {
	return withSealing(ctx, cmd, func(a access) error {
		return printKeys(ctx, cmd, a)
	})
}

func printKeys(ctx context.Context, cmd *cli.Command, a access) error {
	known, err := client.Ask(ctx, a.ListSealingKeys, &adminv1.ListSealingKeysRequest{})
	if err != nil {
		return err
	}
	missing, rows := 0, [][]string{{"KEY", "CREDENTIALS", "ROLE", "LOGINS"}}
	for _, k := range known.GetSealingKeys() {
		role := strings.ToLower(strings.TrimPrefix(k.GetRole().String(), "SEALING_KEY_ROLE_"))
		if k.GetRole() == adminv1.SealingKeyRole_SEALING_KEY_ROLE_MISSING {
			role = strings.ToUpper(role)
			missing++
		}
		rows = append(rows, []string{k.GetSealingKeyId(), fmt.Sprint(k.GetCredentialCount()), role, fmt.Sprint(k.GetLoginCount())})
	}
	printed, err := client.Print(cmd, known)
	if err == nil && !printed {
		err = client.PrintTable(cmd, rows)
	}
	if err != nil {
		return err
	}
	if next := known.GetNextSealingKeyId(); next != "" && !printed {
		fmt.Fprintf(cmd.Root().Writer, "key %s is the first one of the server's key file by now: it seals from the server's next start on\n", terminal.Plain(next))
	}
	if missing > 0 {
		return fmt.Errorf("%d keys are missing: servers do not start without them", missing)
	}
	return nil
}

// resealPasses bounds the passes over credentials that changed meanwhile.
const resealPasses = 10

// resealed is the result of a rotation.
type resealed struct {
	key           string
	done, changed int
	failed        []string // connections
}

func rotateKeys(ctx context.Context, cmd *cli.Command) error {
	return withSealing(ctx, cmd, func(a access) error {
		out, begun := cmd.Root().Writer, time.Now()
		if client.WantsJSON(cmd) {
			out = cmd.Root().ErrWriter
		}
		r, err := reseal(ctx, a)
		if r.key != "" {
			fmt.Fprintf(out, "sealed %d credentials with key %s in %v\n", r.done, r.key, time.Since(begun).Round(time.Millisecond))
		}
		if err != nil {
			// A repeat would be refused again.
			if r.key != "" || exit.Code(err) == exit.Unavailable {
				fmt.Fprintln(cmd.Root().ErrWriter, "fireonce: the same command goes on where this one ended")
			}
			return err
		}
		if err := printKeys(ctx, cmd, a); err != nil {
			return err
		}
		switch {
		case len(r.failed) > 0:
			return fmt.Errorf("%d credentials cannot be opened with their key, the first one that of connection %s: give each a new credential",
				len(r.failed), r.failed[0])
		case r.changed > 0:
			return fmt.Errorf("%d credentials kept changing: run the same command again", r.changed)
		}
		return nil
	})
}

// reseal seals with the first key what other keys seal, page by page. It repeats what other
// processes changed meanwhile. It stops between two pages when its context ends.
func reseal(ctx context.Context, a access) (resealed, error) {
	var r resealed
	for range resealPasses {
		r.changed, r.failed = 0, nil
		req := &adminv1.RotateSealingKeyRequest{}
		for page, err := range client.Pages(ctx, a.RotateSealingKey, req) {
			if err != nil {
				return r, err
			}
			r.key = cmp.Or(page.GetSealingKeyId(), r.key)
			r.done += int(page.GetResealedCount())
			r.changed += int(page.GetChangedCount())
			r.failed = append(r.failed, page.GetFailedConnectionIds()...)
		}
		if r.changed == 0 {
			break
		}
	}
	return r, nil
}
