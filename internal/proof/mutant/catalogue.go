package main

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

//go:embed mutants/*.diff
var mutantFiles embed.FS

// firedFiles drop the rules by which schedules fire.
//
//go:embed fired/*.diff
var firedFiles embed.FS

// testedFiles drop rules that no simulated platform asks for; those of notices are tried in the
// campaign, too.
//
//go:embed tested/*.diff
var testedFiles embed.FS

// mutant is one rule of the protocol, dropped.
type mutant struct {
	name string
	// rule is the rule that is dropped, in one sentence.
	rule string
	// expect names the violations that may be its end. Another one catches it too,
	// and is noted.
	expect []string
	// schedules is set if the rule is one of recurring worlds: it is tried in those alone.
	schedules bool
	// breakers is set if it is one of circuit breakers: it is tried in their worlds alone.
	breakers bool
	// conformance names the cases of the conformance suite that notice it too, each with
	// its group. A mutant of a rule that every engine asks for must have some.
	conformance []string
	// tests is the package whose tests must notice it, from the module's root; empty: the
	// simulator, or the suite, does.
	tests string
	edits []edit
}

// edit replaces lines of one file that occur there exactly once.
type edit struct {
	file     string // from the module's root, with slashes
	old, new string
}

// catalogue reads every mutant of a folder, in the order of their names.
func catalogue(files fs.FS, folder string) ([]mutant, error) {
	names, err := fs.Glob(files, folder+"/*.diff")
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, errors.New("the catalogue of mutants is empty")
	}
	slices.Sort(names)
	out := make([]mutant, 0, len(names))
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		m, err := parse(strings.TrimSuffix(path.Base(name), ".diff"), string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out = append(out, m)
	}
	return out, nil
}

// parse reads one mutant: lines "key: value" up to the first file, then for each
// "--- file" its hunks, each begun by "@@". A hunk is a diff without numbers:
// "-" lines go, "+" lines come, and others are there before and after. Lines
// that begin with "#" before the first file are remarks.
func parse(name, text string) (mutant, error) {
	m := mutant{name: name}
	head, body, found := strings.Cut("\n"+text, "\n--- ")
	if !found {
		return m, errors.New("it changes no file")
	}
	for line := range strings.Lines(head) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		key, value, _ := strings.Cut(line, ":")
		if err := m.field(key, strings.TrimSpace(value)); err != nil {
			return m, err
		}
	}
	if m.rule == "" || len(m.expect) == 0 {
		return m, errors.New("it must say which rule it drops, and what it expects")
	}
	for part := range strings.SplitSeq(body, "\n--- ") {
		file, hunks, _ := strings.Cut(part, "\n")
		edits, err := parseHunks(strings.TrimSpace(file), hunks)
		if err != nil {
			return m, fmt.Errorf("%s: %w", file, err)
		}
		m.edits = append(m.edits, edits...)
	}
	return m, nil
}

// breaksRules reports whether it breaks a rule that every engine asks for.
func (m mutant) breaksRules() bool {
	return slices.ContainsFunc(m.edits, func(e edit) bool { return strings.HasPrefix(e.file, "store/rules/") })
}

func (m *mutant) field(key, value string) error {
	switch key {
	case "rule":
		m.rule = value
	case "expect":
		m.expect = strings.Fields(value)
	case "package":
		m.tests = value
	case "conformance":
		m.conformance = strings.Fields(value)
	case "worlds":
		switch value {
		case "schedules":
			m.schedules = true
		case "breakers":
			m.breakers = true
		default:
			return fmt.Errorf("unknown worlds %q", value)
		}
	default:
		return fmt.Errorf("unknown field %q", key)
	}
	return nil
}

func parseHunks(file, text string) ([]edit, error) {
	var edits []edit
	var e *edit
	for line := range strings.Lines(strings.TrimRight(text, "\n") + "\n") {
		if strings.TrimSpace(line) == "@@" {
			edits = append(edits, edit{file: file})
			e = &edits[len(edits)-1]
			continue
		}
		if e == nil {
			return nil, errors.New(`a hunk begins with "@@"`)
		}
		switch line[0] {
		case '-':
			e.old += line[1:]
		case '+':
			e.new += line[1:]
		case ' ':
			e.old += line[1:]
			e.new += line[1:]
		case '\n': // editors cut off what an empty line begins with
			e.old += line
			e.new += line
		default:
			return nil, fmt.Errorf("line %q is of no kind", line)
		}
	}
	for _, e := range edits {
		if e.old == "" || e.old == e.new {
			return nil, errors.New("a hunk must have lines to find, and change them")
		}
	}
	if len(edits) == 0 {
		return nil, errors.New("no hunk")
	}
	return edits, nil
}
