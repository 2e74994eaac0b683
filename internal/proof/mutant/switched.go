package main

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Rules of this file: one source holds many mutants, and an environment variable chooses one
// when the program starts. So a package is linked once, and not once for each mutant.
//   - A function that mutants change is there once for each of them, under a name of its own.
//     The true function begins with calls of these, on the line of its brace: its other lines
//     are as they were, and have their numbers.
//   - With no mutant chosen, the source is the true code.
//   - All that a mutant changes switches together, in all files.
//   - A mutant that changes anything but bodies of functions is built alone, as is one that
//     does not fit the source: that build says so.

const (
	// switchVariable names the environment variable that chooses a mutant by its name.
	switchVariable = "FIREONCE_MUTANT"
	// ownPrefix begins each name that is added to a source. A file that has it already is
	// left as it is.
	ownPrefix = "mutant__"
)

// errNoSwitch means that a mutant is built alone.
var errNoSwitch = errors.New("it cannot be switched")

// switched is a source with mutants in it.
type switched struct {
	root, dir string
	overlay   string
	// alone are the mutants that are not in it, each with the reason.
	alone map[string]error
}

// writeSwitched writes a source that holds the mutants, and its overlay, under dir.
func writeSwitched(root, dir string, mutants []mutant) (*switched, error) {
	s := &switched{root: root, dir: dir, alone: make(map[string]error)}
	files := make(map[string]*switchedFile)
	names := make(map[string]bool)
	for i, m := range mutants {
		if m.name == "" || names[m.name] {
			return nil, fmt.Errorf("two mutants have the name %q, or one has none", m.name)
		}
		names[m.name] = true
		if err := s.add(files, i, m); err != nil {
			s.alone[m.name] = err
		}
	}
	texts := make(map[string]string)
	for name, file := range files {
		if file.switched() {
			texts[name] = file.String()
		}
	}
	var err error
	s.overlay, err = writeReplacements(root, dir, texts)
	return s, err
}

// add puts a mutant into the files, or into none of them.
func (s *switched) add(files map[string]*switchedFile, number int, m mutant) error {
	mutated, err := m.mutated(s.root)
	if err != nil {
		return err
	}
	changes := make(map[string][]change)
	for name, text := range mutated {
		file := files[name]
		if file == nil {
			source, err := os.ReadFile(filepath.Join(s.root, filepath.FromSlash(name)))
			if err != nil {
				return err
			}
			if file, err = newSwitchedFile(name, string(source)); err != nil {
				return err
			}
			files[name] = file
		}
		if changes[name], err = file.changes(text); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	for name, list := range changes {
		files[name].add(number, m.name, list)
	}
	return nil
}

// switchedFile is one file of the source, with what mutants make of its functions.
type switchedFile struct {
	name, text string
	declared   declarations
	calls      map[string]string // by function: those at the begin of its body
	variables  strings.Builder
	copies     strings.Builder
}

func newSwitchedFile(name, text string) (*switchedFile, error) {
	if strings.Contains(text, ownPrefix) {
		return nil, fmt.Errorf("%w: %s has names with %s", errNoSwitch, name, ownPrefix)
	}
	declared, err := parseDeclarations(text)
	if err != nil {
		return nil, err
	}
	return &switchedFile{name: name, text: text, declared: declared, calls: make(map[string]string)}, nil
}

// switched reports whether a mutant changes the file.
func (f *switchedFile) switched() bool { return len(f.calls) > 0 }

// change is a function as a mutant has it.
type change struct{ was, is function }

// changes are the functions whose bodies differ in the mutated text; nothing else may.
func (f *switchedFile) changes(mutated string) ([]change, error) {
	is, err := parseDeclarations(mutated)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoSwitch, err)
	}
	if !slices.Equal(f.declared.others, is.others) {
		return nil, fmt.Errorf("%w: it changes a declaration that is no function", errNoSwitch)
	}
	for _, spec := range is.imports {
		if !slices.Contains(f.declared.imports, spec) {
			return nil, fmt.Errorf("%w: it imports %s", errNoSwitch, spec)
		}
	}
	if len(f.declared.functions) != len(is.functions) {
		return nil, fmt.Errorf("%w: it adds a function, or removes one", errNoSwitch)
	}
	var list []change
	for i, was := range f.declared.functions {
		now := is.functions[i]
		if was.signature != now.signature {
			return nil, fmt.Errorf("%w: it changes more of %s than its body", errNoSwitch, was.key)
		}
		if was.text == now.text {
			continue
		}
		if err := errors.Join(was.callable(), now.callable()); err != nil {
			return nil, err
		}
		list = append(list, change{was, now})
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%w: it changes no function", errNoSwitch)
	}
	return list, nil
}

// add puts the functions of a mutant into the file.
func (f *switchedFile) add(number int, mutant string, list []change) {
	// Files of one package have variables of their own.
	variable := ownPrefix + strconv.Itoa(number) + "_" + identifier(f.name)
	fmt.Fprintf(&f.variables, "var %s = %sos.Getenv(%q) == %q\n", variable, ownPrefix, switchVariable, mutant)
	for _, c := range list {
		name := ownPrefix + strconv.Itoa(number) + "_" + c.was.decl.Name.Name
		call := c.was.call(name)
		if c.was.decl.Type.Results != nil {
			call = "return " + call
		} else {
			call += "; return"
		}
		f.calls[c.was.key] += "if " + variable + " { " + call + " }; "
		// The compiler, and a panic, name the mutant.
		fmt.Fprintf(&f.copies, "\n//line %s/%s:%d\n%s\n", mutant, path.Base(f.name), c.is.line, c.is.renamed(name))
	}
}

// String is the file's new text.
func (f *switchedFile) String() string {
	var edits []insertion
	for _, fn := range f.declared.functions {
		if calls := f.calls[fn.key]; calls != "" {
			edits = append(edits, fn.names...)
			edits = append(edits, insertion{fn.body + 1, fn.body + 1, calls})
		}
	}
	edits = append(edits, insertion{f.declared.packageEnd, f.declared.packageEnd, "; import " + ownPrefix + `os "os"`})
	return insert(f.text, edits) + "\n" + f.variables.String() + f.copies.String()
}

// insertion puts a text in the place of some bytes, or of none.
type insertion struct {
	from, to int
	text     string
}

func insert(text string, edits []insertion) string {
	slices.SortFunc(edits, func(a, b insertion) int { return a.from - b.from })
	var out strings.Builder
	at := 0
	for _, e := range edits {
		out.WriteString(text[at:e.from] + e.text)
		at = e.to
	}
	return out.String() + text[at:]
}

// identifier is a file's name as a part of Go's.
func identifier(file string) string {
	return strings.Map(func(r rune) rune {
		if r == '/' || r == '.' || r == '-' {
			return '_'
		}
		return r
	}, file)
}
