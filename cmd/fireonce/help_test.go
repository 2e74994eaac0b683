package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/urfave/cli/v3"
)

var (
	backticks   = regexp.MustCompile("`([^`]*)`")
	placeholder = regexp.MustCompile(`^[A-Z][A-Z0-9_]*(=[A-Z]+|:[A-Z]+|,…)?$`)
)

// noHelp matches a help text that does not explain its flag: one that is made of a field without a
// comment, or of a comment that begins with a limit or a default.
var noHelp = regexp.MustCompile(`^(?i:[^a-z0-9-]|unset|empty|unspecified|0 means|at most [0-9]|one line|required)|^$`)

// TestPlaceholders checks that a help text names a flag's value by its meaning (NAME, DURATION),
// not by its type or one of its values, in front of a text that explains the flag.
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
			text := doc.GetUsage()
			if strings.HasPrefix(text, "`") {
				text = strings.TrimPrefix(text, found[0]+" ")
			}
			switch {
			case noHelp.MatchString(text):
				t.Errorf("%s --%s: %q", path, f.Names()[0], text)
			case !doc.TakesValue() && found != nil:
				t.Errorf("%s --%s takes no value, and its usage has one: %s", path, f.Names()[0], doc.GetUsage())
			case doc.TakesValue() && (found == nil || text == doc.GetUsage() || !placeholder.MatchString(found[1])):
				t.Errorf("%s --%s VALUE: %s", path, f.Names()[0], doc.GetUsage())
			}
		}
		for _, sub := range cmd.Commands {
			walk(sub, strings.TrimSpace(path+" "+sub.Name))
		}
	}
	walk(Program{}.command(&started), "")
}

var namedCommand = regexp.MustCompile("(?m)(?:`|^ +)fireonce ([^`\n]+)")

// TestHelpNames checks that each command line in a help text, even in the middle of a sentence,
// names an existing command, and flags that the command has.
func TestHelpNames(t *testing.T) {
	if crashRun {
		t.Skip("needs no failpoints")
	}
	t.Parallel()
	var started bool
	root := Program{Version: "test"}.command(&started)
	checked := 0
	var walk func(cmd *cli.Command, path string)
	walk = func(cmd *cli.Command, path string) {
		texts := []string{cmd.Usage, cmd.UsageText, cmd.Description}
		for _, f := range cmd.Flags {
			if documented, ok := f.(cli.DocGenerationFlag); ok {
				texts = append(texts, documented.GetUsage())
			}
		}
		for _, text := range texts {
			for _, found := range namedCommand.FindAllStringSubmatch(text, -1) {
				checked++
				if wrong := wrongWord(root, strings.Fields(found[1])); wrong != "" {
					t.Errorf("%s --help: in %q there is no %s", path, "fireonce "+found[1], wrong)
				}
			}
		}
		for _, sub := range cmd.Commands {
			walk(sub, path+" "+sub.Name)
		}
	}
	walk(root, "fireonce")
	if checked < 5 {
		t.Errorf("%d command lines", checked)
	}
}

// wrongWord returns the first word of a command line that should be a command or a flag and is
// neither.
func wrongWord(root *cli.Command, words []string) string {
	cmd := root
	for i, word := range words {
		if name, isFlag := strings.CutPrefix(word, "--"); isFlag {
			name, _, _ = strings.Cut(name, "=")
			if name != "help" && !hasFlag(cmd, name) && !hasFlag(root, name) {
				return word
			}
			continue
		}
		if sub := cmd.Command(word); sub != nil {
			cmd = sub
		} else if i == 0 {
			return word
		}
	}
	return ""
}

func hasFlag(cmd *cli.Command, name string) bool {
	return slices.ContainsFunc(cmd.Flags, func(f cli.Flag) bool { return slices.Contains(f.Names(), name) })
}

// TestServeHelp checks that the page of `serve` begins with what most servers need, in lines that
// fit a terminal, and that a flag's text continues below its beginning.
func TestServeHelp(t *testing.T) {
	t.Parallel()
	var started bool
	serve := Program{Version: "test"}.command(&started).Command("serve")
	var page strings.Builder
	cli.DefaultPrintHelp(&page, serve.CustomHelpTemplate, serve)
	for _, width := range []int{80, 120} {
		_, options, _ := strings.Cut(fit(page.String(), width), "\nOPTIONS:\n")
		lines := strings.Split(options, "\n")
		if len(lines) < 50 || lines[1] != "   What most servers need" || !strings.HasPrefix(lines[2], "     --listen ADDRESS ") {
			t.Errorf("the options begin with %q", lines[:min(3, len(lines))])
		}
		for _, line := range lines {
			if n := utf8.RuneCountInString(line); n > width {
				t.Errorf("%d columns, more than %d: %s", n, width, line)
			}
		}
	}
	const text = "OPTIONS:\n   --listen ADDRESS  where it serves the API\n"
	if got, want := fit(text, 32), "OPTIONS:\n   --listen ADDRESS  where it\n                     serves the\n                     API\n"; got != want {
		t.Errorf("%s, want\n%s", got, want)
	}
	const example = "DESCRIPTION:\n   One two\n   three.\n\n      fireonce list --state failed\n"
	if got, want := fit(example, 12), "DESCRIPTION:\n   One two\n   three.\n\n      fireonce list --state failed\n"; got != want {
		t.Errorf("%s, want\n%s", got, want)
	}
}
