package client

import "github.com/urfave/cli/v3"

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
