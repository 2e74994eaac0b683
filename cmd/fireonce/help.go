package main

import (
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/urfave/cli/v3"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/terminal"
)

// Rules of this file: help pages fit the terminal. The text of a flag or a command goes on below its
// beginning, and paragraphs are filled. Examples, which are indented further, stay as they are.

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
		if r, ok := f.(cli.RequiredFlag); ok && r.IsRequired() {
			text += " (required)"
		}
		return text
	}
	cli.HelpPrinter = func(out io.Writer, page string, data any) {
		var text strings.Builder
		cli.DefaultPrintHelp(&text, page, data)
		width := min(max(terminal.Width(out, mostHelpWidth), leastHelpWidth), mostHelpWidth)
		fmt.Fprint(out, fit(text.String(), width))
	}
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
