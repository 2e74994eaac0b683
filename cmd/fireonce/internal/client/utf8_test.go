package client

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/urfave/cli/v3"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/exit"
)

// TestTextsAreUTF8: a text that no message can hold is an error of usage, which names its flag or
// argument, before anything is sent.
func TestTextsAreUTF8(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	file := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(file, []byte("gr\xfc\xdfe"), 0o600); err != nil {
		t.Fatal(err)
	}
	for named, args := range map[string][]string{
		"--text:":      {"schedule", "--connection", "x", "--text", "gr\xfc\xdfe"},
		"--text-file:": {"schedule", "--connection", "x", "--text-file", file},
		"--label:":     {"schedule", "--connection", "x", "--text", "a", "--label", "a=\xff"},
		"argument":     {"get", "order-\xff"},
	} {
		root := &cli.Command{Name: "fireonce", Commands: Commands(), ExitErrHandler: func(context.Context, *cli.Command, error) {}}
		err := root.Run(t.Context(), append([]string{"fireonce"}, append(args, "--server", "http://127.0.0.1:1")...))
		if !exit.IsUsage(err) || !strings.Contains(err.Error(), named) || !strings.Contains(err.Error(), "not UTF-8") {
			t.Errorf("%q: %v", args, err)
		}
	}
}
