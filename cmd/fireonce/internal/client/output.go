package client

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/urfave/cli/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/exit"
	"github.com/fireonce/fireonce/cmd/fireonce/internal/progress"
	"github.com/fireonce/fireonce/cmd/fireonce/internal/terminal"
)

// Rules of this file: standard output has results in the form that --output names. json is one
// document for each answer, jsonl one line for each object. Commands that run for some time (watch,
// batch, bulk) print one line for each object in both.

// printer writes results, for people or as JSON. A closed pipe has no reader, so errors of plain
// lines are ignored.
type printer struct {
	w io.Writer
	// json: JSON of any form; lines: one line for each object; color: it is a terminal that shows colors.
	json, lines, color bool
	// progress is cleared before something is printed.
	progress *progress.Line
	// headless omits the headings of tables.
	headless bool
}

type message = proto.Message

// OutputFlags select the form of results.
func OutputFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "`FORM` table for people, json as the API's contract names it, or jsonl, one object a line", DefaultText: "table"},
		boolFlag("json", "the same as --output json"),
		boolFlag("no-color", "no colors, which a terminal gets unless NO_COLOR is set"),
	}
}

// printerFor reads OutputFlags.
func printerFor(cmd *cli.Command) (*printer, error) {
	p := &printer{w: cmd.Root().Writer, progress: progress.New(cmd.Root().ErrWriter)}
	p.color = terminal.Is(p.w) && os.Getenv("NO_COLOR") == "" && !cmd.Bool("no-color")
	switch form := cmd.String("output"); {
	case cmd.Bool("json") && form != "" && form != "json":
		return nil, exit.Usagef("--json is --output json; leave one of the two out")
	case form == "json", cmd.Bool("json"):
		p.json = true
	case form == "jsonl":
		p.json, p.lines = true, true
	case form != "" && form != "table":
		return nil, exit.Usagef("--output %q: must be table, json or jsonl", form)
	}
	return p, nil
}

// Print prints a message in the JSON that the flags ask for. It reports false if they ask
// for a table: then nothing is printed.
func Print(cmd *cli.Command, m proto.Message) (printed bool, err error) {
	p, err := printerFor(cmd)
	if err != nil || !p.json {
		return false, err
	}
	return true, p.message(m)
}

// PrintTable prints rows in columns below the first row, which has their names.
func PrintTable(cmd *cli.Command, rows [][]string) error {
	p, err := printerFor(cmd)
	if err != nil {
		return err
	}
	p.table(rows)
	return nil
}

// PrintList prints a list of what is no message of the contract: as JSON, or as a table.
func PrintList[T any](cmd *cli.Command, list []T, rows [][]string) error {
	p, err := printerFor(cmd)
	if err != nil {
		return err
	}
	e := json.NewEncoder(p.w)
	switch {
	case p.lines:
		for _, one := range list {
			if err := e.Encode(one); err != nil {
				return err
			}
		}
		return nil
	case p.json:
		e.SetIndent("", "  ")
		return e.Encode(list)
	default:
		p.table(rows)
		return nil
	}
}

// WantsJSON reports whether the flags ask for JSON.
func WantsJSON(cmd *cli.Command) bool {
	p, err := printerFor(cmd)
	return err == nil && p.json
}

// CheckOutput fails if the flags of the output make no sense. Commands that change something call it first.
func CheckOutput(cmd *cli.Command) error {
	_, err := printerFor(cmd)
	return err
}

// message prints one message as indented JSON; as lines if that is asked for: a list one
// line for each element.
func (p *printer) message(m message) error {
	if !p.lines {
		return p.writeJSON(m, func(dst *bytes.Buffer, src []byte) error { return json.Indent(dst, src, "", "  ") })
	}
	list := elements(m)
	if list == nil {
		return p.compact(m)
	}
	for i := range list.Len() {
		if err := p.compact(list.Get(i).Message().Interface()); err != nil {
			return err
		}
	}
	return nil
}

// elements returns the one list of messages of an answer that has pages; nil: it is none.
func elements(m message) protoreflect.List {
	r := m.ProtoReflect()
	if r.Descriptor().Fields().ByName("next_page_token") == nil {
		return nil
	}
	for i := range r.Descriptor().Fields().Len() {
		if f := r.Descriptor().Fields().Get(i); f.IsList() && f.Message() != nil {
			return r.Get(f).List()
		}
	}
	return nil
}

// compact prints one message as one line.
func (p *printer) compact(m message) error { return p.writeJSON(m, json.Compact) }

// merged prints the fields of several messages as one document; as lines, one message each.
func (p *printer) merged(list ...message) error {
	fields := make(map[string]json.RawMessage)
	for _, m := range list {
		if p.lines {
			if err := p.compact(m); err != nil {
				return err
			}
			continue
		}
		raw, err := protojson.MarshalOptions{EmitDefaultValues: true}.Marshal(m)
		if err != nil {
			return fmt.Errorf("print: %w", err)
		}
		if err := json.Unmarshal(raw, &fields); err != nil {
			return fmt.Errorf("print: %w", err)
		}
	}
	if p.lines {
		return nil
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(fields); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	p.progress.Clear()
	_, err := p.w.Write(terminal.JSON(out.Bytes()))
	return err
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
	p.progress.Clear()
	_, err = p.w.Write(terminal.JSON(out.Bytes()))
	return err
}
