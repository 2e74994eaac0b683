package demo

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/urfave/cli/v3"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/terminal"
)

// Command returns the subcommand.
func Command() *cli.Command {
	return &cli.Command{
		Name:  "demo",
		Usage: "see it survive lost answers and a crash, beside a client that retries",
		Description: "Starts a server of its own on a temporary database, and receivers that act and then lose answers.\n" +
			"Takes about half a minute, leaves nothing behind, and exits with 1 if Fireonce made a duplicate or\n" +
			"lost a job.",
		Flags: []cli.Flag{
			&cli.IntFlag{Name: "jobs", Usage: "`NUMBER` how many jobs", Value: 100},
			&cli.FloatFlag{Name: "loss", Usage: "`SHARE` how many of the answers get lost, 0 to 1", Value: 1.0 / 3, DefaultText: "1/3"},
			&cli.Uint64Flag{Name: "seed", Usage: "`NUMBER` what decides which answers", Value: 1},
		},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			binary, err := os.Executable()
			if err != nil {
				return fmt.Errorf("find this program: %w", err)
			}
			ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
			defer stop()
			out := cmd.Root().Writer
			return Run(ctx, Options{
				Jobs: cmd.Int("jobs"), Loss: cmd.Float("loss"), Seed: cmd.Uint64("seed"),
				Out: out, Terminal: terminal.Is(out), Binary: binary,
			})
		},
	}
}
