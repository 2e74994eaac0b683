package main

import (
	"cmp"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/urfave/cli/v3"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/terminal"
)

// Rules of this file: help pages fit the terminal. The text of a flag or a command goes on below its
// beginning, and paragraphs are filled. Examples, which are indented further, stay as they are. Flags
// come in the order of the command's list, required ones first, and the groups in their order; those
// of every client command are last.

const (
	leastHelpWidth = 60
	mostHelpWidth  = 120
)

var (
	// twice is what the library adds to a flag that may be repeated.
	twice = regexp.MustCompile(` \[ --[^]]* \]`)
	// named is the part of a line before the text of a flag or a command.
	named = regexp.MustCompile(`^ +\S.*?  +`)
)

func init() {
	name := cli.FlagStringer
	cli.FlagStringer = func(f cli.Flag) string {
		text := twice.ReplaceAllString(name(f), "")
		// A usage that begins with its placeholder shows it behind the flag alone.
		if doc, ok := f.(cli.DocGenerationFlag); ok && strings.HasPrefix(doc.GetUsage(), "`") {
			placeholder, _, _ := strings.Cut(doc.GetUsage()[1:], "`")
			text = strings.Replace(text, "\t"+placeholder+" ", "\t", 1)
		}
		if r, ok := f.(cli.RequiredFlag); ok && r.IsRequired() {
			text += " (required)"
		}
		return text
	}
	cli.CommandHelpTemplate = optionsOf(cli.CommandHelpTemplate)
	cli.HelpPrinter = func(out io.Writer, page string, data any) {
		var text strings.Builder
		cli.DefaultPrintHelpCustom(&text, page, data, map[string]any{"groups": groupsOf})
		width := min(max(terminal.Width(out, mostHelpWidth), leastHelpWidth), mostHelpWidth)
		fmt.Fprint(out, fit(text.String(), width))
	}
}

// optionsOf replaces the part of a template that lists flags.
func optionsOf(page string) string {
	head, _, _ := strings.Cut(page, "{{if .VisibleFlagCategories}}")
	return strings.Replace(head, "{{if .Category}}\n\nCATEGORY:\n   {{.Category}}{{end}}", "", 1) + `

OPTIONS:{{range groups .}}{{if .Name}}

   {{.Name}}
{{end}}{{range .Flags}}
   {{.}}{{end}}{{end}}
`
}

// group is flags below one heading.
type group struct {
	Name  string
	Flags []cli.Flag
}

// groupsOf returns the flags of a command as its help shows them.
func groupsOf(cmd *cli.Command) (groups []*group) {
	const last = "Server and output"
	for _, f := range cmd.VisibleFlags() {
		name := ""
		if c, ok := f.(cli.CategorizableFlag); ok {
			name = c.GetCategory()
		}
		if f.Names()[0] == "help" && slices.ContainsFunc(groups, func(g *group) bool { return g.Name == last }) {
			name = last
		}
		i := slices.IndexFunc(groups, func(g *group) bool { return g.Name == name })
		if i < 0 {
			i, groups = len(groups), append(groups, &group{Name: name})
		}
		groups[i].Flags = append(groups[i].Flags, f)
	}
	for _, g := range groups {
		slices.SortStableFunc(g.Flags, func(a, b cli.Flag) int { return cmp.Compare(rank(a), rank(b)) })
	}
	place := map[string]int{"": -1, last: 1}
	slices.SortStableFunc(groups, func(a, b *group) int { return cmp.Compare(place[a.Name], place[b.Name]) })
	return groups
}

// rank orders the flags of a group.
func rank(f cli.Flag) int {
	if r, ok := f.(cli.RequiredFlag); ok && r.IsRequired() {
		return 0
	}
	return 1
}

// fit breaks the lines of a help page at a width.
func fit(page string, width int) string {
	var out strings.Builder
	const margin = "   "
	var section string
	var paragraph []string
	for line := range strings.Lines(page) {
		line = strings.TrimRight(line, " \n")
		text := strings.TrimPrefix(line, margin)
		if section == "DESCRIPTION:" && text != "" && text[0] != ' ' && text != line {
			paragraph = append(paragraph, strings.Fields(text)...)
			continue
		}
		if len(paragraph) > 0 {
			fill(&out, margin, margin, paragraph, width)
			paragraph = nil
		}
		if line != "" && line == text {
			section = line
		}
		head := named.FindString(line)
		if head == "" || section == "DESCRIPTION:" {
			head = line
		}
		fill(&out, head, strings.Repeat(" ", utf8.RuneCountInString(head)), strings.Fields(line[len(head):]), width)
	}
	return out.String()
}

// fill writes words below each other, the first line of them behind first, others behind next.
func fill(out *strings.Builder, first, next string, words []string, width int) {
	out.WriteString(first)
	column := utf8.RuneCountInString(first)
	for i, word := range words {
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case column+1+n > width:
			out.WriteString("\n" + next)
			column = utf8.RuneCountInString(next)
		default:
			out.WriteByte(' ')
			column++
		}
		out.WriteString(word)
		column += n
	}
	out.WriteByte('\n')
}
