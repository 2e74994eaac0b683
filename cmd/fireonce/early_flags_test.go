package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/client"
)

func TestFlagsBeforeTheCommand(t *testing.T) {
	for in, want := range map[string]string{
		"":                                 "",
		"list --server a":                  "list --server a",
		"--server a list":                  "list --server a",
		"--server=a list --json":           "list --server=a --json",
		"--json --server a list":           "list --json --server a",
		"--json connections -server a get": "connections get --json -server a",
		"--server list list":               "list --server list",
		"--server a get --server":          "get --server a --server",
		"--server a":                       "",
		"--server":                         "",
		"get -- --server a":                "get -- --server a",
		"-- --server a get":                "-- --server a get",
		"--nonsense list":                  "--nonsense list",
		"--server a nonsense":              "nonsense",
		"--server a li --generate-shell-completion": "li --generate-shell-completion",
		"--server a serve":                          "serve --server a", // which refuses it
	} {
		args := append([]string{"fireonce"}, strings.Fields(in)...)
		before := slices.Clone(args)
		started := false
		got := moveFlags(Program{}.command(&started), client.CommonFlags(), args)
		if !slices.Equal(got[1:], strings.Fields(want)) {
			t.Errorf("%s\nis  %q\nnot %s", in, got[1:], want)
		}
		if !slices.Equal(args, before) {
			t.Errorf("%s: the arguments were changed", in)
		}
	}
}
