package client

import (
	"strings"

	"github.com/rivo/uniseg"
)

// columnGap separates two columns.
const columnGap = 2

// Codes of ECMA-48 that set a color, and end it.
const (
	bold   = "\x1b[1m"
	faint  = "\x1b[2m"
	red    = "\x1b[31m"
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	cyan   = "\x1b[36m"
	ended  = "\x1b[0m"
)

// colors are the colors of states: green is done, yellow may need a person, red failed, cyan is
// under way.
var colors = map[string]string{
	"SUCCEEDED": green, "ACTIVE": green, "FIRED": green, "LIVE": green,
	"AMBIGUOUS": yellow, "NEEDS_RESOLUTION": yellow, "RETRYING": yellow, "PAUSED": yellow, "RATE_LIMITED": yellow, "UNKNOWN": yellow, "HELD": yellow, "DRAINING": yellow,
	"FAILED": red, "EXPIRED": red, "AUTH_HOLD": red, "MISSED": red, "REFUSED": red, "GONE": red,
	"CLAIMED": cyan, "SENDING": cyan, "ACCEPTED": cyan,
	"CANCELED": faint, "DELETED": faint,
}

// paint colors the first word of a text, if it is a state.
func (p *printer) paint(text string) string {
	word := text
	if i := strings.IndexAny(text, " ,:"); i >= 0 {
		word = text[:i]
	}
	if color := colors[word]; p.color && color != "" {
		return color + word + ended + text[len(word):]
	}
	return text
}

// in colors a whole text.
func (p *printer) in(color, text string) string {
	if !p.color || text == "" {
		return text
	}
	return color + text + ended
}

// table writes rows in columns below the first row, which has their names. Cells lose control
// characters: they may come from others.
func (p *printer) table(rows [][]string) {
	widths := widthsOf(rows)
	if !p.headless {
		p.row(rows[0], widths, func(_ int, cell string) string { return p.in(bold, cell) })
	}
	p.body(rows[1:], widths)
}

// rows writes rows in columns that have no names.
func (p *printer) rows(rows [][]string) { p.body(rows, widthsOf(rows)) }

func (p *printer) body(rows [][]string, widths []int) {
	for _, row := range rows {
		p.row(row, widths, func(_ int, cell string) string { return p.paint(cell) })
	}
}

// fields writes name and value below each other, empty values left out.
func (p *printer) fields(pairs ...string) {
	var rows [][]string
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			rows = append(rows, []string{pairs[i], pairs[i+1]})
		}
	}
	widths := widthsOf(rows)
	for _, row := range rows {
		p.row(row, widths, func(column int, cell string) string {
			if column == 0 {
				return p.in(faint, cell)
			}
			return p.paint(cell)
		})
	}
}

// widthsOf returns the width of each column. It removes from the cells what could control a
// terminal.
func widthsOf(rows [][]string) (widths []int) {
	for _, row := range rows {
		for i, cell := range row {
			row[i] = plain(cell)
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], uniseg.StringWidth(row[i]))
		}
	}
	return widths
}

// row writes one line, without blanks at its end.
func (p *printer) row(cells []string, widths []int, color func(int, string) string) {
	var line strings.Builder
	blanks := 0
	for i, cell := range cells {
		if cell != "" {
			line.WriteString(strings.Repeat(" ", blanks))
			line.WriteString(color(i, cell))
			blanks = 0
		}
		blanks += widths[i] - uniseg.StringWidth(cell) + columnGap
	}
	p.line("%s", line.String())
}
