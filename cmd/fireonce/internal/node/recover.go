package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/exit"
)

// What recover does with jobs that the lost state may have sent.
const (
	asHold  = "hold"
	asRetry = "retry"
)

func recoverCommand() *cli.Command {
	return &cli.Command{
		Name:  "recover",
		Usage: "release a quarantined database",
		Description: "A database that looks like a copy, or like an older state of itself, is quarantined: what it believes\n" +
			"to be due may have been sent already. Without --as this says why, and changes nothing.\n\n" +
			"--since is the time of the state that was restored: the backup's. Every job that could have started\n" +
			"between then and now is in doubt. --as hold puts each before a person (NEEDS_RESOLUTION); --as retry\n" +
			"lets them start, which is safe where the receiver dedupes and still remembers, and may DUPLICATE\n" +
			"elsewhere. Jobs that were submitted since the backup are lost: clients that repeat them with their keys\n" +
			"schedule them anew.\n\n" +
			"The namespace of effect keys stays what it was, so receivers that dedupe go on to know what was sent. A copy that\n" +
			"becomes another installation needs --new-namespace: or the two would swallow each other's effects.\n\n" +
			"A state that was put back with everything beside it (a disk's image) is not always noticed. After such a restore\n" +
			"run this before the servers start, or start one with `serve --quarantined`: --as hold works on a database that\n" +
			"is not quarantined, too.\n\n" +
			"Do this only when no other copy of this database is at work. Servers on PostgreSQL go on by themselves;\n" +
			"an SQLite file must not be in use.",
		Flags: []cli.Flag{
			databaseFlag(),
			standbyFlag(),
			&cli.StringFlag{Name: "state-dir", Usage: stateDirUsage + ": none", Sources: cli.EnvVars("FIREONCE_STATE_DIR")},
			&cli.StringFlag{Name: "since", Usage: "`TIME` when the restored state is of, e.g. 2030-01-31T09:00:00+01:00"},
			&cli.StringFlag{Name: "as", Usage: "`RULING` hold or retry"},
			&cli.BoolFlag{
				Name:  "new-namespace",
				Usage: "the copy becomes an installation of its own, such as staging: its effect keys are new ones; stop its servers first",
			},
		},
		Action: recoverDatabase,
	}
}

func recoverDatabase(ctx context.Context, cmd *cli.Command) error {
	since, as, err := recoverFlags(cmd, time.Now())
	if err != nil {
		return err
	}
	d, err := databaseOf(cmd)
	if err != nil {
		return err
	}
	d.synchronousStandby, d.stateDir = cmd.Bool("synchronous-standby"), cmd.String("state-dir")
	return stopFirst(d.with(ctx, func(s store.Store) error { return release(ctx, cmd, d, s, since, as) }))
}

// release ends the quarantine of a database, as the flags say.
func release(ctx context.Context, cmd *cli.Command, d Database, s store.Store, since time.Time, as string) error {
	meta, err := s.Meta(ctx)
	if err != nil {
		return err
	}
	out := cmd.Root().Writer
	switch {
	case meta.Quarantined == "" && as != asHold:
		fmt.Fprintf(out, "%s is not quarantined\n", d)
		return nil
	case meta.Quarantined == "":
		// The operator knows of a restore that left no trace. The quarantine stops workers
		// meanwhile.
		if err := s.Quarantine(ctx, "an operator says that it was restored"); err != nil {
			return err
		}
	case as == "":
		fmt.Fprintf(out, "%s is quarantined: %s\n", d, meta.Quarantined)
		return errors.New("nothing was changed; release it with --since TIME --as hold or --as retry")
	}
	if cmd.Bool("new-namespace") {
		if err := s.SetNamespace(ctx, job.NewNamespace(), true); err != nil {
			return err
		}
	}
	held := 0
	if as == asHold {
		if held, err = holdDoubtful(ctx, s, since); err != nil {
			return fmt.Errorf("%d jobs were held before this failed; the database is still quarantined, and the same command goes on: %w", held, err)
		}
	}
	if err := s.Release(ctx); err != nil {
		return err
	}
	if as == asHold {
		need := "jobs need"
		if held == 1 {
			need = "job needs"
		}
		fmt.Fprintf(out, "%d %s a person's decision; see `fireonce list --state needs-resolution`\n", held, need)
	}
	if meta, err = s.Meta(ctx); err != nil {
		return err
	}
	fmt.Fprintf(out, "%s is released, in namespace %s; what is due is sent again\n", d, meta.Namespace)
	return nil
}

func recoverFlags(cmd *cli.Command, now time.Time) (since time.Time, as string, err error) {
	as = cmd.String("as")
	switch {
	case as == "" && cmd.Bool("new-namespace"):
		return since, as, exit.Usagef("--new-namespace needs --since and --as")
	case as == "" && !cmd.IsSet("since"):
		return since, as, nil
	case as != asHold && as != asRetry:
		return since, as, exit.Usagef("--as must be hold or retry")
	case !cmd.IsSet("since"):
		return since, as, exit.Usagef("--as needs --since: the time of the restored state")
	}
	since, err = time.Parse(time.RFC3339Nano, cmd.String("since"))
	switch {
	case err != nil:
		return since, as, exit.Usagef("--since %q is not an RFC 3339 time, e.g. 2030-01-31T09:00:00+01:00", cmd.String("since"))
	case since.After(now):
		return since, as, exit.Usagef("--since %s has not come yet", cmd.String("since"))
	}
	return since, as, nil
}

// takeQuarantine stops sending before the engine runs, if the operator requests that.
func (n *Node) takeQuarantine(ctx context.Context) error {
	if !n.cfg.Quarantined || n.meta.Quarantined != "" {
		return nil
	}
	if err := n.store.Quarantine(ctx, "an operator started a server with --quarantined"); err != nil {
		return err
	}
	meta, err := n.store.Meta(ctx)
	if err != nil {
		return fmt.Errorf("open the database: %w", err)
	}
	n.meta = meta
	return nil
}

// recovered is the part of a store that recover needs.
type recovered interface {
	Doubtful(ctx context.Context, since time.Time, limit int) ([]job.Snapshot, error)
	Apply(ctx context.Context, items []store.Change) ([]store.Applied, error)
}

// holdDoubtful holds for a decision every job that may have been started since. The quarantine
// stops workers meanwhile. A client may still change a job, which is then read and decided again.
func holdDoubtful(ctx context.Context, s recovered, since time.Time) (int, error) {
	held := 0
	err := store.DecidePages(ctx, s,
		func() ([]job.Snapshot, error) { return s.Doubtful(ctx, since, store.MaxBatch) },
		func(j job.Snapshot, c *store.Change) (bool, error) {
			c.Actor = "fireonce recover"
			write, err := c.Decide(&j, job.Traits{Class: j.Class}, 0, job.Restored{Since: since})
			if err == nil && !write {
				// It would stay on the page of jobs in doubt, and hide those after it.
				err = errors.New("it may have been sent since, and cannot be held")
			}
			if err != nil {
				err = fmt.Errorf("job %s: %w", j.ID, err)
			}
			return write, err
		},
		func(j job.Snapshot, _ *store.Change, a *store.Applied) error {
			if a.Err != nil {
				return fmt.Errorf("job %s: %w", j.ID, a.Err)
			}
			held++
			return nil
		})
	return held, err
}
