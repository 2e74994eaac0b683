package main

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v3"
)

// Rules of this file: a flag that every client command has may come before the command's
// name, or between the names of a group and its command. It is moved behind them, so that
// only the command parses it, and a command without such a flag refuses it.

// moveFlags moves flags of a list that come before the name of a command behind it.
func moveFlags(root *cli.Command, early []cli.Flag, args []string) []string {
	if len(args) == 0 {
		return args
	}
	out, moved := args[:1:1], []string(nil)
	at, rest := root, args[1:]
	for len(rest) > 0 {
		if n := length(early, rest); n > 0 {
			moved, rest = append(moved, rest[:n]...), rest[n:]
			continue
		}
		sub := at.Command(rest[0])
		if sub == nil {
			break
		}
		at, out, rest = sub, append(out, rest[0]), rest[1:]
	}
	if len(at.Commands) > 0 { // no command: a help text, an error, or a shell's completion
		moved = nil
	}
	return append(append(out, moved...), rest...)
}

// length returns how many arguments the flag at the beginning of args takes, with its value;
// 0: the first argument is not a flag of the list.
func length(flags []cli.Flag, args []string) int {
	name, found := strings.CutPrefix(args[0], "-")
	if !found || args[0] == "--" {
		return 0
	}
	name, _, valued := strings.Cut(strings.TrimPrefix(name, "-"), "=")
	for _, f := range flags {
		if !slices.Contains(f.Names(), name) {
			continue
		}
		if doc, ok := f.(cli.DocGenerationFlag); valued || ok && !doc.TakesValue() {
			return 1
		}
		return min(2, len(args))
	}
	return 0
}
