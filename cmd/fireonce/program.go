package main

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/client"
	"github.com/fireonce/fireonce/cmd/fireonce/internal/demo"
	"github.com/fireonce/fireonce/cmd/fireonce/internal/exit"
	"github.com/fireonce/fireonce/cmd/fireonce/internal/listen"
	"github.com/fireonce/fireonce/cmd/fireonce/internal/node"
	"github.com/fireonce/fireonce/cmd/fireonce/internal/sandbox"
)

// Run runs one command line and returns the exit code.
func (p Program) Run(ctx context.Context, args []string) int {
	started := false
	root := p.command(&started)
	given := args // moveFlags may drop flags of a command that does not exist
	if words := wordsToComplete(root, args); words != nil {
		fmt.Fprintln(p.Stdout, strings.Join(words, "\n"))
		return exit.OK
	}
	err := root.Run(ctx, moveFlags(root, client.CommonFlags(), args))
	if err == nil {
		return exit.OK
	}
	// An error before a command's own code runs is an error of the command line.
	if !started {
		err = exit.AsUsage(err)
	}
	if wantsJSON(given) {
		exit.PrintJSON(p.Stderr, err)
		return exit.Code(err)
	}
	exit.Print(p.Stderr, err)
	if exit.IsUsage(err) {
		_, name := commandIn(root, given)
		fmt.Fprintf(p.Stderr, "  see `%s --help`\n", name)
	}
	return exit.Code(err)
}

// wordsToComplete returns the words that the value of the last flag may have, if a shell asks for them;
// nil: it does not, or the library knows what to propose.
func wordsToComplete(root *cli.Command, args []string) []string {
	n := len(args)
	if n < 3 || args[n-1] != "--generate-shell-completion" {
		return nil
	}
	at, _ := commandIn(root, args[:n-1])
	for _, f := range at.Flags {
		if slices.Contains(f.Names(), strings.TrimLeft(args[n-2], "-")) {
			return client.Words(f)
		}
	}
	return nil
}

// commandIn returns the command that a command line names, as far as it exists, and its whole name.
func commandIn(at *cli.Command, args []string) (*cli.Command, string) {
	name := at.Name
	for _, arg := range args[min(1, len(args)):] {
		if strings.HasPrefix(arg, "-") {
			continue
		}
		sub := at.Command(arg)
		if sub == nil {
			if len(at.Commands) == 0 {
				break
			}
			continue // the value of a flag
		}
		at = sub
		name += " " + sub.Name
	}
	return at, name
}

// wantsJSON reports whether a command line asks for JSON, even if it does not parse.
func wantsJSON(args []string) bool {
	if i := slices.Index(args, "--"); i >= 0 {
		args = args[:i]
	}
	for i, arg := range args {
		name, value, valued := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(arg, "-"), "-"), "=")
		if !strings.HasPrefix(arg, "-") {
			continue
		}
		if !valued && i+1 < len(args) {
			value = args[i+1]
		}
		if name == "json" && (!valued || value == "true") || (name == "output" || name == "o") && strings.HasPrefix(value, "json") {
			return true
		}
	}
	return false
}

// command returns the tree of commands. started is set when a command's own code
// begins.
func (p Program) command(started *bool) *cli.Command {
	root := &cli.Command{
		Name:  "fireonce",
		Usage: "schedule a side effect; it takes effect once",
		Description: "Client commands call the server at --server (FIREONCE_SERVER) with FIREONCE_API_KEY, or the one that\n" +
			"`fireonce login` stored. Their common flags, such as --server and --json, may stand before the command too.\n\n" +
			"Commands on jobs have short forms: `fireonce schedule` is `fireonce jobs create`, and `fireonce list` is\n" +
			"`fireonce jobs list`. Recurring ones are `fireonce schedules`.\n\n" +
			"Exit codes: 0 OK, 1 error, 2 usage or invalid request, 3 conflict, 4 not found, 5 unavailable (may be\n" +
			"repeated unchanged), 6 access denied. With --json an error is one JSON object, the last line on standard error.",
		Version: p.Version,
		Reader:  p.Stdin, Writer: p.Stdout, ErrWriter: p.Stderr,
		ExitErrHandler: func(context.Context, *cli.Command, error) {},
		Action: func(_ context.Context, cmd *cli.Command) error {
			if cmd.Args().Present() {
				return noCommand(cmd)
			}
			return cli.ShowRootCommandHelp(cmd)
		},
		EnableShellCompletion: true,
		ConfigureShellCompletionCommand: func(completion *cli.Command) {
			completion.Hidden, completion.Usage = false, "print what makes a shell complete commands: bash, zsh, fish or pwsh"
		},
	}
	root.Commands = append(root.Commands, node.Commands(p.Version)...)
	root.Commands = append(root.Commands, client.Commands()...)
	root.Commands = append(root.Commands, listen.Command(), demo.Command(), sandbox.Command(p.Version), p.versionCommand())
	for _, cmd := range root.Commands {
		cmd.Category = categoryOf(cmd.Name)
	}
	track(root, started)
	return root
}

// categories group the commands in the help text; the others are general.
var categories = map[string]string{
	"To try":                             "demo listen sandbox",
	"Jobs":                               "jobs incidents schedules run-due",
	"Accounts, and access to the server": "connections connectors login logout profiles apikeys projects health",
	"The server":                         "serve migrate recover namespace keys doctor servers",
}

func categoryOf(name string) string {
	for category, names := range categories {
		if slices.Contains(strings.Fields(names), name) {
			return category
		}
	}
	return ""
}

// track makes every command set started when its own code begins, and refuse arguments that its
// help does not name. It leaves the printing of errors to Run.
func track(cmd *cli.Command, started *bool) {
	cmd.DisableSliceFlagSeparator = true // values such as headers contain commas
	cmd.OnUsageError = func(_ context.Context, cmd *cli.Command, err error, _ bool) error { return noFlag(cmd, err) }
	if run, group := cmd.Action, len(cmd.Commands) > 0; run != nil {
		cmd.Action = func(ctx context.Context, cmd *cli.Command) error {
			*started = true
			if cmd.Args().Present() && group && cmd != cmd.Root() {
				return noCommand(cmd)
			}
			if cmd.Args().Present() && cmd.ArgsUsage == "" && cmd != cmd.Root() {
				return exit.Usagef("unexpected argument %q", cmd.Args().First())
			}
			return run(ctx, cmd)
		}
	} else {
		cmd.Action = func(_ context.Context, cmd *cli.Command) error {
			if cmd.Args().Present() {
				return noCommand(cmd)
			}
			return cli.ShowSubcommandHelp(cmd)
		}
	}
	for _, sub := range cmd.Commands {
		track(sub, started)
	}
}

// noCommand returns an error if a command's first argument names no command below it, and
// suggests one. The first letter of a mistyped name is nearly always right.
func noCommand(cmd *cli.Command) error {
	name := cmd.Args().First()
	if near := cli.SuggestCommand(cmd.Commands, name); near != "" && name != "" && near[0] == name[0] {
		return exit.Usagef("no command %q; did you mean %q?", name, near)
	}
	return exit.Usagef("no command %q", name)
}

// noFlag adds a suggestion, by the same rule, to the error about a flag that a command does not
// have. The library has no type for that error.
func noFlag(cmd *cli.Command, err error) error {
	if text, found := strings.CutPrefix(err.Error(), "invalid value "); found {
		// The library writes: invalid value "3days" for flag -in: "3days" is not a duration.
		if value, rest, found := strings.Cut(text, " for flag -"); found {
			flag, why, _ := strings.Cut(rest, ": ")
			if rest, repeats := strings.CutPrefix(why, value+" "); repeats {
				return exit.Usagef("--%s %s %s", strings.TrimLeft(flag, "-"), value, rest)
			}
			return exit.Usagef("--%s %s: %s", strings.TrimLeft(flag, "-"), value, why)
		}
	}
	if strings.HasPrefix(err.Error(), "Required flag") {
		return exit.Usagef("%s", client.Missing(cmd))
	}
	name, found := strings.CutPrefix(err.Error(), "flag provided but not defined: -")
	if !found {
		return err
	}
	// A flag after a mistyped command is read as one of the command above.
	group := slices.ContainsFunc(cmd.VisibleCommands(), func(c *cli.Command) bool { return c.Name != "help" })
	if group && cmd.Args().Present() && cmd.Command(cmd.Args().First()) == nil {
		return noCommand(cmd)
	}
	name, _, _ = strings.Cut(strings.TrimLeft(name, "-"), "=")
	near := strings.TrimLeft(cli.SuggestFlag(cmd.Flags, name, false), "-")
	if near == "" || name == "" || near[0] != name[0] {
		return exit.Usagef("no flag --%s", name)
	}
	return exit.Usagef("no flag --%s; did you mean --%s?", name, near)
}

func (p Program) versionCommand() *cli.Command {
	return &cli.Command{
		Name: "version", Usage: "print the version", Flags: client.OutputFlags(),
		Action: func(_ context.Context, cmd *cli.Command) error {
			if err := client.CheckOutput(cmd); err != nil {
				return err
			}
			if client.WantsJSON(cmd) {
				return json.NewEncoder(cmd.Root().Writer).Encode(map[string]string{
					"version": p.Version, "os": runtime.GOOS, "arch": runtime.GOARCH, "go": runtime.Version(),
				})
			}
			fmt.Fprintf(cmd.Root().Writer, "fireonce %s %s/%s %s\n", p.Version, runtime.GOOS, runtime.GOARCH, runtime.Version())
			return nil
		},
	}
}
