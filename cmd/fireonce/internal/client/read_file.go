package client

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"

	"github.com/urfave/cli/v3"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/exit"
)

// jsonPlace is the position in the error of the parser of JSON, unknownField the unknown field in
// it.
var (
	jsonPlace    = regexp.MustCompile(`line \d+:\d+`)
	unknownField = regexp.MustCompile(`unknown field "([^"]{1,64})"`)
)

// readJSON reads a message of the contract from the file that a flag names. like is an
// example of such a message.
func readJSON(cmd *cli.Command, flag string, limit int64, m message, like string) error {
	data, err := readFile(cmd, cmd.String(flag), limit)
	if err != nil {
		return fmt.Errorf("--%s: %w", flag, err)
	}
	if err := protojson.Unmarshal(data, m); err != nil {
		// The parser's error quotes the file, which may hold a secret. The message has the position
		// only, and for content, which holds no secret, the name of a field.
		where := ""
		if found := jsonPlace.FindString(err.Error()); found != "" {
			where = ", from " + found + " on"
		}
		if flag != "credential-file" {
			where += fieldUnknown(err)
		}
		return exit.Usagef("--%s: not a %s of the contract in JSON%s; one looks like %s", flag, m.ProtoReflect().Descriptor().Name(), where, like)
	}
	return nil
}

// fieldUnknown returns the field that the parser of JSON does not know; empty: another error.
func fieldUnknown(err error) string {
	if found := unknownField.FindStringSubmatch(err.Error()); found != nil {
		return ", where " + strconv.Quote(found[1]) + " is no field"
	}
	return ""
}

// secretText reads a secret from the file that a flag names, or else from an
// environment variable.
func secretText(cmd *cli.Command, flag, variable string) (string, error) {
	name := cmd.String(flag)
	if name == "" {
		return os.Getenv(variable), nil
	}
	data, err := readFile(cmd, name, maxSecrets)
	if err != nil {
		return "", fmt.Errorf("--%s: %w", flag, err)
	}
	if strings.TrimSpace(string(data)) == "" {
		return "", exit.Usagef("--%s: no secret in it", flag)
	}
	return string(data), nil
}
