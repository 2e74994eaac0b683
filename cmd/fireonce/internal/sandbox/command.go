package sandbox

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/urfave/cli/v3"

	"github.com/fireonce/fireonce/internal/connector/builtin/fakes"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/exit"
)

// Command returns the subcommand.
func Command(version string) *cli.Command {
	return &cli.Command{
		Name:  "sandbox",
		Usage: "try every platform without an account: fakes on this machine, and a page of what was really posted",
		Description: "Starts fakes of platforms (" + titles() + "),\n" +
			"and a server whose connections lead to them. Nothing leaves this machine. The page shows what the\n" +
			"platforms have beside what Fireonce believes; faults come by its buttons, or by words such as\n" +
			"[lose the answer] in a text. Ctrl-C ends it. See docs/accounts.md.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "dir", Usage: "`FOLDER` where to keep everything, and to go on from", DefaultText: "a temporary one, which is removed at the end"},
			&cli.IntFlag{Name: "server-port", Usage: "`PORT` where Fireonce is; 0: a free one", DefaultText: fmt.Sprint(ServerPort), Value: -1},
			&cli.IntFlag{Name: "port", Usage: "`PORT` where the page is; the platforms take the " + fmt.Sprint(len(fakes.Fakes)) + " after it; 0: free ones", DefaultText: fmt.Sprint(FirstPort), Value: -1},
		},
		Action: func(ctx context.Context, cmd *cli.Command) error { return run(ctx, cmd, version) },
	}
}

// titles names the fakes.
func titles() string {
	var out []string
	for _, f := range fakes.Fakes {
		out = append(out, f.Title)
	}
	return strings.Join(out, ", ")
}

func run(ctx context.Context, cmd *cli.Command, version string) (err error) {
	for _, name := range []string{"server-port", "port"} {
		most := 65535 - len(fakes.Fakes)
		if p := cmd.Int(name); cmd.IsSet(name) && (p < 0 || p > most) {
			return exit.Usagef("--%s must be 0 to %d", name, most)
		}
	}
	opts := Options{Dir: cmd.String("dir"), ServerPort: cmd.Int("server-port"), FirstPort: cmd.Int("port"), Version: version}
	if opts.Dir == "" {
		if opts.Dir, err = os.MkdirTemp("", "fireonce-sandbox-"); err != nil {
			return err
		}
		defer func() {
			if gone := os.RemoveAll(opts.Dir); err == nil {
				err = gone
			}
		}()
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	s, err := Start(ctx, opts)
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, stop) // a second signal ends immediately
	s.greet(cmd.Root().Writer, cmd.String("dir"))
	if err := s.Run(ctx); err != nil {
		return err
	}
	fmt.Fprintln(cmd.Root().Writer, "The sandbox has ended.")
	return nil
}

// greet prints the addresses, and a first example.
func (s *Sandbox) greet(w io.Writer, dir string) {
	fmt.Fprintf(w, "Fireonce sandbox ready. The platforms are simulated; nothing leaves this machine.\n\n")
	fmt.Fprintf(w, "  The page    %s\n  Fireonce    %s\n", s.Page(), s.Server())
	for _, one := range s.sites {
		fmt.Fprintf(w, "  %-11s %s, connection %s\n", one.Title, one.base, one.Name)
	}
	fmt.Fprintf(w, "\nOpen the page, and in another terminal lose an answer:\n\n")
	if s.Ports[nameServer] != ServerPort {
		fmt.Fprintf(w, "  export FIREONCE_SERVER=%s\n", s.Server())
	}
	fmt.Fprintf(w, "  fireonce schedule --connection x --text 'Hello once. [lose the answer]' --key hello-1 --watch\n\n")
	fmt.Fprintf(w, "or with curl:\n\n")
	fmt.Fprintf(w, "  curl -s %s/fireonce.v1.JobService/ScheduleJob -H 'Content-Type: application/json' -d '{\n", s.Server())
	fmt.Fprintf(w, "    \"idempotencyKey\": \"hello-2\", \"connectionKey\": \"x\", \"payload\": {\"socialPost\": {\"text\": \"Hello again. [lose the answer]\"}}}'\n\n")
	fmt.Fprintf(w, "docs/accounts.md has more. ")
	if dir == "" {
		fmt.Fprintf(w, "Nothing is kept: --dir FOLDER keeps it. ")
	}
	fmt.Fprintf(w, "Ctrl-C ends it.\n")
}
