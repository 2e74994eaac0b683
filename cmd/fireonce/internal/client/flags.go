package client

import (
	"unicode/utf8"

	"github.com/urfave/cli/v3"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/exit"
)

// textFlag is a flag with a text, textsFlag one that may be repeated, and boolFlag one without a
// value.
func textFlag(name, usage string) cli.Flag { return &cli.StringFlag{Name: name, Usage: usage} }

func textsFlag(name, usage string) cli.Flag { return &cli.StringSliceFlag{Name: name, Usage: usage} }

func boolFlag(name, usage string) cli.Flag { return &cli.BoolFlag{Name: name, Usage: usage} }

// inCategory puts flags under a heading of help texts.
func inCategory(category string, flags ...cli.Flag) []cli.Flag {
	for _, f := range flags {
		if c, ok := f.(cli.CategorizableFlag); ok {
			c.SetCategory(category)
		}
	}
	return flags
}

// utf8Only refuses arguments and values of flags that are not UTF-8, as a shell in another
// encoding passes them: no message of the contract can hold them.
func utf8Only(cmd *cli.Command) error {
	for _, arg := range cmd.Args().Slice() {
		if !utf8.ValidString(arg) {
			return exit.Usagef("the argument %q is not UTF-8", arg)
		}
	}
	for _, name := range cmd.FlagNames() {
		for _, value := range append(cmd.StringSlice(name), cmd.String(name)) {
			if !utf8.ValidString(value) {
				return exit.Usagef("--%s: the value %q is not UTF-8", name, value)
			}
		}
	}
	return nil
}
