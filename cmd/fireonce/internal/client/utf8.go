package client

import (
	"unicode/utf8"

	"github.com/urfave/cli/v3"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/exit"
)

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
