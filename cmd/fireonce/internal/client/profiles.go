package client

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"

	"connectrpc.com/connect"
	"github.com/urfave/cli/v3"
	"golang.org/x/term"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/certs"
	"github.com/fireonce/fireonce/cmd/fireonce/internal/exit"
	"github.com/fireonce/fireonce/cmd/fireonce/internal/profile"
)

// maxKey bounds an API key that is read, in bytes.
const maxKey = 4 << 10

func keyLoginCommand() *cli.Command {
	return &cli.Command{
		Name: "login", Usage: "store a server and an API key for it as a profile",
		Description: "Asks for the API key without showing it, or reads it from standard input; checks it with a call; and stores both in\n" +
			"fireonce/config.json in your folder for configuration, which no other user may read. The profile is in use from then\n" +
			"on: commands without --server call its server. Its key is never sent to another one.\n\n" +
			"   fireonce login --server https://fireonce.example.org\n" +
			"   fireonce login --profile staging --server https://staging.example.org <staging.key",
		Flags:  loginFlags(),
		Action: keyLogin,
	}
}

func logoutCommand() *cli.Command {
	return &cli.Command{
		Name: "logout", Usage: "forget the API key of a profile",
		Description: "The key stays valid until it ends, or is revoked by `fireonce apikeys revoke`.",
		Flags:       []cli.Flag{profileFlag()},
		Action:      logout,
	}
}

// loginFlags are ServerFlags, whose --profile names the profile to store.
func loginFlags() []cli.Flag {
	flags := ServerFlags()
	for i, f := range flags {
		if f.Names()[0] == "profile" {
			flags[i] = &cli.StringFlag{Name: "profile", Usage: "`NAME` what to store it under [$" + profileVar + "]", DefaultText: profile.Default}
		}
	}
	return append(flags, boolFlag("no-key", "the server asks for no API key"))
}

func profileFlag() cli.Flag {
	return &cli.StringFlag{Name: "profile", Usage: "`NAME` the profile [$" + profileVar + "]", DefaultText: "the one in use"}
}

func profilesCommand() *cli.Command {
	return &cli.Command{
		Name: "profiles", Usage: "list, choose and remove what `fireonce login` stored",
		Commands: []*cli.Command{
			{Name: "list", Usage: "list profiles; never a key", Flags: OutputFlags(), Action: listProfiles},
			{Name: "use", Usage: "use a profile from now on", ArgsUsage: "NAME", Action: useProfile},
			{Name: "remove", Usage: "forget a profile and its key", ArgsUsage: "NAME", Action: removeProfile},
		},
	}
}

func keyLogin(ctx context.Context, cmd *cli.Command) error {
	name := cmp.Or(cmd.String("profile"), os.Getenv(profileVar), profile.Default)
	if !profile.Name.MatchString(name) {
		return exit.Usagef("--profile %q: must be letters, digits, dots, dashes and underscores, at most 64", name)
	}
	file, err := profile.Load()
	if err != nil {
		return err
	}
	// A profile that a flag names comes before the environment: its new key is for its server.
	before, variable := file.Profiles[name], os.Getenv
	if cmd.IsSet("profile") && before.Server != "" {
		variable = func(string) string { return "" }
	}
	p := profile.Profile{Server: cmp.Or(cmd.String("server"), variable(serverVar), before.Server, DefaultServer)}
	if before.Server != "" && profile.SameServer(p.Server, before.Server) {
		p.CAFile, p.ClientCert, p.ClientKey = before.CAFile, before.ClientCert, before.ClientKey
	}
	for path, given := range map[*string]string{
		&p.CAFile:     cmp.Or(cmd.String("ca-file"), variable(caFileVar)),
		&p.ClientCert: cmp.Or(cmd.String("client-cert"), variable(clientCertVar)),
		&p.ClientKey:  cmp.Or(cmd.String("client-key"), variable(clientKeyVar)),
	} {
		if given == "" {
			continue
		}
		if *path, err = filepath.Abs(given); err != nil {
			return err
		}
	}
	if !cmd.Bool("no-key") {
		if p.APIKey, err = askKey(cmd, p.Server); err != nil {
			return err
		}
	}
	if err := checkKey(ctx, cmd, p); err != nil {
		return err
	}
	// The file is read again: the key may have taken a while to type.
	err = profile.Update(func(file *profile.File) error {
		file.Profiles[name], file.Current = p, name
		return nil
	})
	if err != nil {
		return err
	}
	path, err := profile.Path()
	if err != nil {
		return err
	}
	fmt.Fprintf(cmd.Root().Writer, "Logged in to %s. Profile %s is in use, and stored in %s.\n", p.Server, name, path)
	return nil
}

// askKey reads an API key from a terminal, without showing it, or else the first line of
// standard input.
func askKey(cmd *cli.Command, server string) (string, error) {
	in, prompt := cmd.Root().Reader, cmd.Root().ErrWriter
	var text string
	if f, ok := in.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		fmt.Fprintf(prompt, "API key for %s (it is not shown): ", server)
		raw, err := readHidden(int(f.Fd()))
		fmt.Fprintln(prompt)
		if err != nil {
			return "", fmt.Errorf("read the API key: %w", err)
		}
		text = string(raw)
	} else {
		line, err := bufio.NewReader(io.LimitReader(in, maxKey)).ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return "", fmt.Errorf("read the API key: %w", err)
		}
		text = line
	}
	if text = strings.TrimSpace(text); text == "" {
		return "", exit.Usagef("no API key was given; --no-key is for a server that asks for none")
	}
	return text, nil
}

// readHidden reads a line from a terminal without showing it. Ctrl-C leaves the terminal as it was.
func readHidden(fd int) ([]byte, error) {
	before, err := term.GetState(fd)
	if err != nil {
		return nil, err
	}
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt)
	defer signal.Stop(interrupted)
	type line struct {
		text []byte
		err  error
	}
	read := make(chan line, 1)
	go func() { // a terminal cannot be given up; the program ends soon
		text, err := term.ReadPassword(fd)
		read <- line{text, err}
	}()
	select {
	case l := <-read:
		return l.text, l.err
	case <-interrupted:
		return nil, errors.Join(errors.New("interrupted"), term.Restore(fd, before))
	}
}

// checkKey makes a call with a profile. A key that may not list jobs is valid, too.
func checkKey(ctx context.Context, cmd *cli.Command, p profile.Profile) error {
	files := certs.Client{CA: p.CAFile, Pair: certs.Pair{Cert: p.ClientCert, Key: p.ClientKey}}
	api, err := target{server: p.Server, key: p.APIKey, files: files}.dial(cmd)
	if err != nil {
		return err
	}
	_, err = Ask(ctx, api.Jobs.ListJobs, &fireoncev1.ListJobsRequest{PageSize: 1})
	if connect.CodeOf(err) == connect.CodePermissionDenied {
		return nil
	}
	return err
}

func logout(_ context.Context, cmd *cli.Command) error {
	return changeProfile(cmd, cmp.Or(cmd.String("profile"), os.Getenv(profileVar)), func(file *profile.File, name string) string {
		p := file.Profiles[name]
		p.APIKey = ""
		file.Profiles[name] = p
		return fmt.Sprintf("Logged out of %s: profile %s has no API key now. The key is valid until it ends or is revoked.", p.Server, name)
	})
}

func useProfile(_ context.Context, cmd *cli.Command) error {
	return ofProfile(cmd, func(file *profile.File, name string) string {
		file.Current = name
		return fmt.Sprintf("Profile %s is in use: %s.", name, file.Profiles[name].Server)
	})
}

func removeProfile(_ context.Context, cmd *cli.Command) error {
	return ofProfile(cmd, func(file *profile.File, name string) string {
		delete(file.Profiles, name)
		if file.Current == name {
			file.Current = ""
		}
		return fmt.Sprintf("Profile %s was removed.", name)
	})
}

// ofProfile changes the profile that the one argument names.
func ofProfile(cmd *cli.Command, change func(*profile.File, string) string) error {
	if cmd.Args().Len() != 1 || cmd.Args().First() == "" {
		return exit.Usagef("name one profile")
	}
	return changeProfile(cmd, cmd.Args().First(), change)
}

// changeProfile changes the profile of a name, or the one in use, and prints what change
// returns.
func changeProfile(cmd *cli.Command, name string, change func(*profile.File, string) string) error {
	var said string
	err := profile.Update(func(file *profile.File) error {
		name, _, found := file.For(name)
		switch {
		case name == "":
			return exit.Usagef("no profile is in use; name one of those that `fireonce profiles list` shows")
		case !found:
			return exit.Usagef("no profile %q; `fireonce profiles list` shows those that there are", name)
		}
		said = change(file, name)
		return nil
	})
	if err != nil {
		return err
	}
	fmt.Fprintln(cmd.Root().Writer, said)
	return nil
}

// profileLine is a profile as --output json prints it: without the key.
type profileLine struct {
	Name   string `json:"name"`
	Server string `json:"server"`
	HasKey bool   `json:"hasKey"`
	InUse  bool   `json:"inUse"`
}

func listProfiles(_ context.Context, cmd *cli.Command) error {
	file, err := profile.Load()
	if err != nil {
		return err
	}
	lines, rows := []profileLine{}, [][]string{{"NAME", "SERVER", "API KEY", "IN USE"}}
	for _, name := range slices.Sorted(maps.Keys(file.Profiles)) {
		p := file.Profiles[name]
		line := profileLine{Name: name, Server: p.Server, HasKey: p.APIKey != "", InUse: name == file.Current}
		lines, rows = append(lines, line), append(rows, []string{name, p.Server, yesNo(line.HasKey), yesNo(line.InUse)})
	}
	return PrintList(cmd, lines, rows)
}

func yesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}
