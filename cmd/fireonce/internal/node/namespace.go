package node

import (
	"context"
	"errors"
	"fmt"

	"github.com/urfave/cli/v3"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/sqlite"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/client"
	"github.com/fireonce/fireonce/cmd/fireonce/internal/exit"
)

// Rules of this file: the namespace is a part of every effect key, so that a new database with the
// namespace of a lost one continues its keys. It belongs to the installation, is made once, and is
// kept apart from the database.

func namespaceCommand() *cli.Command {
	return &cli.Command{
		Name:  "namespace",
		Usage: "print the installation's namespace, a part of every effect key",
		Description: "Keep it apart from the database. If the database is lost, start the new one with `serve --namespace NAME`: a client\n" +
			"that repeats a request with its key then reaches a receiver that dedupes under the same effect key, and one effect\n" +
			"stands. Give no two installations the same one: they would swallow each other's effects. `serve` logs it, too.\n\n" +
			"With --server a running server is asked, with FIREONCE_API_KEY if it requires one: the operator's key, or one with\n" +
			"the scope admin. Without it the database is opened; an SQLite file must not be in use then.",
		Flags: append(client.ServerFlags(), databaseFlag()),
		Action: func(ctx context.Context, cmd *cli.Command) error {
			name, err := readNamespace(ctx, cmd)
			if err == nil {
				fmt.Fprintln(cmd.Root().Writer, name)
			}
			return err
		},
	}
}

// readNamespace reads the namespace from the server or the database that the flags name.
func readNamespace(ctx context.Context, cmd *cli.Command) (name string, err error) {
	if cmd.IsSet("server") || cmd.IsSet("profile") {
		api, err := client.DialFor(cmd)
		if err != nil {
			return "", err
		}
		return api.Namespace(ctx)
	}
	d, err := databaseOf(cmd)
	if err != nil {
		return "", err
	}
	err = d.with(ctx, func(s store.Store) error {
		meta, err := s.Meta(ctx)
		name = meta.Namespace
		return err
	})
	if errors.Is(err, sqlite.ErrLocked) {
		err = fmt.Errorf("%w: ask the server that uses it, with --server", err)
	}
	return name, err
}

// checkNamespace refuses a value that is no namespace. Empty: there is none.
func checkNamespace(text string) error {
	if text == "" {
		return nil
	}
	if err := job.CheckNamespace(text); err != nil {
		return exit.Usagef("--namespace %q: %w", text, err)
	}
	return nil
}

// takeNamespace sets the database's namespace to the operator's.
func (n *Node) takeNamespace(ctx context.Context) error {
	want := n.cfg.Namespace
	if want == "" || want == n.meta.Namespace {
		return nil
	}
	err := n.store.SetNamespace(ctx, want, false)
	if errors.Is(err, store.ErrNamespaceFixed) {
		return fmt.Errorf("--namespace %s: the database has the namespace %s, and has sent under it: changing it would let a repeat "+
			"take effect twice; leave the flag out, or name another --database: %w", want, n.meta.Namespace, err)
	}
	if err == nil {
		n.meta.Namespace = want
	}
	return err
}
