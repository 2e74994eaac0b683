package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/urfave/cli/v3"
)

var (
	backticks   = regexp.MustCompile("`([^`]*)`")
	placeholder = regexp.MustCompile(`^[A-Z][A-Z0-9_]*(=[A-Z]+|:[A-Z]+|,…)?$`)
)

// TestPlaceholders: in a help text a flag's value reads as what it is (NAME, DURATION), and
// not as the type that it has, or as one of its values.
func TestPlaceholders(t *testing.T) {
	started := false
	var walk func(cmd *cli.Command, path string)
	walk = func(cmd *cli.Command, path string) {
		for _, f := range cmd.Flags {
			doc, ok := f.(cli.DocGenerationFlag)
			if !ok {
				t.Errorf("%s --%s has no usage", path, f.Names()[0])
				continue
			}
			found := backticks.FindStringSubmatch(doc.GetUsage())
			switch {
			case !doc.TakesValue() && found != nil:
				t.Errorf("%s --%s takes no value, and its usage has one: %s", path, f.Names()[0], doc.GetUsage())
			case doc.TakesValue() && (found == nil || !placeholder.MatchString(found[1])):
				t.Errorf("%s --%s VALUE: %s", path, f.Names()[0], doc.GetUsage())
			}
		}
		for _, sub := range cmd.Commands {
			walk(sub, strings.TrimSpace(path+" "+sub.Name))
		}
	}
	walk(Program{}.command(&started), "")
}
