package client

import (
	"fmt"
	"os"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/fireonce/fireonce/internal/contract"
	"github.com/fireonce/fireonce/internal/textfile"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/exit"
)

// readJSON reads a message of the contract from the file that a flag names. like is an
// example of such a message.
func readJSON(cmd *cli.Command, flag string, limit int64, m message, like string) error {
	data, err := readText(cmd, cmd.String(flag), limit)
	if err != nil {
		return fmt.Errorf("--%s: %w", flag, err)
	}
	// The error has no value of the file, which may hold a secret.
	if wrong := contract.ReadJSON(data, m); wrong != nil {
		what := string(m.ProtoReflect().Descriptor().Name())
		return exit.Usagef("--%s: %s, line %d, column %d: %s; one looks like %s",
			flag, cmd.String(flag), max(wrong.Line, 1), max(wrong.Column, 1), wrong.Text("the "+what), like)
	}
	return nil
}

// readText reads a text from a file, without its byte order mark.
func readText(cmd *cli.Command, name string, limit int64) ([]byte, error) {
	data, err := readFile(cmd, name, limit)
	if err != nil {
		return nil, err
	}
	data, err = textfile.Lines(data)
	return data, exit.AsUsage(err)
}

// secretText reads a secret from the file that a flag names, or else from an
// environment variable.
func secretText(cmd *cli.Command, flag, variable string) (string, error) {
	name := cmd.String(flag)
	if name == "" {
		return os.Getenv(variable), nil
	}
	data, err := readText(cmd, name, maxSecrets)
	if err != nil {
		return "", fmt.Errorf("--%s: %w", flag, err)
	}
	if strings.TrimSpace(string(data)) == "" {
		return "", exit.Usagef("--%s: no secret in it", flag)
	}
	return string(data), nil
}
