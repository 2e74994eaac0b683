package client

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	fireoncev1 "github.com/fireonce/fireonce/gen/fireonce/v1"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/terminal"
)

// printer writes results, for people or as JSON. What fails to be written to a
// closed pipe is nobody's loss, so errors of plain lines are not looked at.
type printer struct {
	w    io.Writer
	json bool
}

type message = proto.Message

// message prints one message as indented JSON.
func (p *printer) message(m message) error {
	return p.writeJSON(m, func(dst *bytes.Buffer, src []byte) error { return json.Indent(dst, src, "", "  ") })
}

// PrintJSON prints a message as --json does.
func PrintJSON(w io.Writer, m proto.Message) error { return (&printer{w: w}).message(m) }

// compact prints one message as one line.
func (p *printer) compact(m message) error { return p.writeJSON(m, json.Compact) }

// messages prints several, one line each.
func (p *printer) messages(list []message) error {
	for _, m := range list {
		if err := p.compact(m); err != nil {
			return err
		}
	}
	return nil
}

// writeJSON formats by itself: protojson varies its spaces on purpose. Like the server it
// writes false and 0.
func (p *printer) writeJSON(m message, format func(*bytes.Buffer, []byte) error) error {
	raw, err := protojson.MarshalOptions{EmitDefaultValues: true}.Marshal(m)
	if err != nil {
		return fmt.Errorf("print: %w", err)
	}
	var out bytes.Buffer
	if err := format(&out, raw); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	out.WriteByte('\n')
	_, err = p.w.Write(out.Bytes())
	return err
}

func (p *printer) line(format string, args ...any) { fmt.Fprintf(p.w, format+"\n", args...) }

func (p *printer) heading(text string) { p.line("%s", text) }

// table writes rows in columns. Cells lose control characters: they come from
// other people. Empty last cells count for the columns, but end no line in blanks.
func (p *printer) table(rows [][]string) {
	var out bytes.Buffer
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		for i, cell := range row {
			row[i] = plain(cell)
		}
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	_ = w.Flush()
	for line := range strings.Lines(out.String()) {
		p.line("%s", strings.TrimRight(line, " \n"))
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
	p.table(rows)
}

// plain takes out what could drive a terminal.
func plain(s string) string { return terminal.Plain(s) }

func short(s string, n int) string { return terminal.Short(s, n) }

// stamp shows a time in the reader's own zone.
func stamp(t *timestamppb.Timestamp) string {
	if t == nil {
		return ""
	}
	return t.AsTime().Local().Format("2006-01-02 15:04:05.000 -07:00")
}

// clock shows the time of day, for lines that belong to one history.
func clock(t *timestamppb.Timestamp) string {
	if t == nil {
		return ""
	}
	return t.AsTime().Local().Format("15:04:05.000000")
}

// away says how far a time is from now.
func away(t *timestamppb.Timestamp) string {
	if t == nil {
		return ""
	}
	d := time.Until(t.AsTime()).Round(time.Second)
	switch {
	case d == 0:
		return " (now)"
	case d > 0:
		return " (in " + d.String() + ")"
	default:
		return " (" + (-d).String() + " ago)"
	}
}

func stateName(s fireoncev1.JobState) string {
	return strings.TrimPrefix(s.String(), "JOB_STATE_")
}

// words turns an enum's value into what people read.
func words(name, prefix string) string {
	name = strings.TrimPrefix(name, prefix)
	if name == "UNSPECIFIED" {
		return ""
	}
	return name
}
