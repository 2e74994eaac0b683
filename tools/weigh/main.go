// Command weigh counts the project's code: what is written by hand for production, what is
// generated, and what proves and tests it.
//
//	go run ./tools/weigh [-C checkout] [folder ...]
//	go run ./tools/weigh [-C checkout] -contract
//
// It counts the files that git tracks, all of them or those in the folders. A line of code is
// one that has something besides comments and blanks; it counts once for each 120 columns that
// it takes, so that longer lines do not make less code. A statement is one of Go's, blocks
// apart, or the declaration of a name.
//
// With -contract it counts what each package of the contract has, and what a program needs of it
// that schedules jobs.
package main

import (
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"text/tabwriter"
	"unicode/utf8"
)

// columns is the width that code is kept to.
const columns = 120

func main() {
	checkout := flag.String("C", ".", "the checkout to count")
	ofContract := flag.Bool("contract", false, "count the contract's RPCs, messages, enums and fields")
	flag.Parse()
	count := func() error { return run(os.Stdout, *checkout, flag.Args()) }
	if *ofContract {
		count = func() error { return weighContract(os.Stdout, *checkout) }
	}
	if err := count(); err != nil {
		fmt.Fprintln(os.Stderr, "weigh:", err)
		os.Exit(1)
	}
}

// A weight is what files of one kind weigh.
type weight struct {
	files, code, comments, blank, statements int
}

func (w *weight) add(o weight) {
	w.files += o.files
	w.code += o.code
	w.comments += o.comments
	w.blank += o.blank
	w.statements += o.statements
}

// A kind is a row of the table.
type kind string

// The kinds, in the table's order.
const (
	productionGo  kind = "production, Go"
	productionSQL kind = "production, SQL"
	contract      kind = "production, Protocol Buffers"
	generated     kind = "generated"
	proof         kind = "proof, fakes and conformance"
	tests         kind = "tests"
	examples      kind = "examples and tools"
)

var kinds = []kind{productionGo, productionSQL, contract, generated, proof, tests, examples}

func run(out io.Writer, checkout string, folders []string) error {
	names, err := tracked(checkout, folders)
	if err != nil {
		return err
	}
	sums := map[kind]*weight{}
	for _, k := range kinds {
		sums[k] = &weight{}
	}
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(checkout, name))
		if errors.Is(err, os.ErrNotExist) {
			continue // deleted, and not committed
		}
		if err != nil {
			return err
		}
		k := kindOf(name, text)
		if k == "" {
			continue
		}
		w, err := weigh(name, text)
		if err != nil {
			return err
		}
		sums[k].add(w)
	}
	return table(out, sums)
}

func table(out io.Writer, sums map[kind]*weight) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(name string, s weight) {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t\n", name, s.files, s.code, s.statements, s.comments, s.blank)
	}
	fmt.Fprintln(w, "\tfiles\tcode\tstatements\tcomments\tblank\t")
	var production weight
	for _, k := range kinds {
		row(string(k), *sums[k])
		if k == contract {
			for _, part := range []kind{productionGo, productionSQL, contract} {
				production.add(*sums[part])
			}
			row("production", production)
		}
	}
	return w.Flush()
}

func tracked(checkout string, folders []string) ([]string, error) {
	cmd := exec.Command("git", append([]string{"-C", checkout, "ls-files", "-z", "--"}, folders...)...) //nolint:gosec,noctx // the folders are the caller's own
	cmd.Stderr = os.Stderr
	text, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("git ls-files: %w", err)
	}
	return strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00"), nil
}

var (
	generatedLine = regexp.MustCompile(`(?m)^(//|--) Code generated .* DO NOT EDIT\.$`)
	// Folders of code that judges the product, or is in the place of something real.
	proofFolder = regexp.MustCompile(`^(internal/proof|store/storetest|store/memory)/|(^|/)(fake|fakes|[a-z]+test)/`)
	// Folders of .proto files of others.
	othersFolder = regexp.MustCompile(`^(gen/)?proto/(buf|google)/`)
)

// kindOf is empty for what is no code.
func kindOf(name string, text []byte) kind {
	switch ext := path.Ext(name); {
	case ext != ".go" && ext != ".sql" && ext != ".proto", othersFolder.MatchString(name):
		return ""
	case generatedLine.Match(text[:min(len(text), 2048)]):
		return generated
	case strings.HasSuffix(name, "_test.go"), strings.Contains(name, "/testdata/"):
		return tests
	case proofFolder.MatchString(name):
		return proof
	case strings.HasPrefix(name, "examples/"), strings.HasPrefix(name, "tools/"), strings.HasPrefix(name, "deploy/"):
		return examples
	case ext == ".sql":
		return productionSQL
	case ext == ".proto":
		return contract
	default:
		return productionGo
	}
}

func weigh(name string, text []byte) (weight, error) {
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	isCode := make([]bool, len(lines))
	statements := 0
	if path.Ext(name) == ".go" {
		file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
		if err != nil {
			return weight{}, err
		}
		statements = statementsOf(file)
		markGo(text, isCode)
	} else {
		markOther(lines, isCode)
	}
	w := weight{files: 1, statements: statements}
	for i, line := range lines {
		switch {
		case isCode[i]:
			w.code += 1 + max(0, utf8.RuneCountInString(line)-1)/columns
		case strings.TrimSpace(line) == "":
			w.blank++
		default:
			w.comments++
		}
	}
	return w, nil
}

// markGo marks the lines that tokens stand on, each line of a text of many lines too.
func markGo(text []byte, isCode []bool) {
	set := token.NewFileSet()
	file := set.AddFile("", set.Base(), len(text))
	var s scanner.Scanner
	s.Init(file, text, nil, 0)
	for {
		pos, tok, literal := s.Scan()
		if tok == token.EOF {
			return
		}
		if tok == token.SEMICOLON && literal == "\n" {
			continue // the scanner's own
		}
		first := file.Line(pos)
		for i := range strings.Count(literal, "\n") + 1 {
			isCode[first-1+i] = true
		}
	}
}

// markOther marks lines of SQL and of Protocol Buffers, whose comments begin a line and take it
// whole.
func markOther(lines []string, isCode []bool) {
	inComment := false
	for i, line := range lines {
		line = strings.TrimSpace(line)
		inComment = inComment || strings.HasPrefix(line, "/*")
		isCode[i] = line != "" && !inComment && !strings.HasPrefix(line, "--") && !strings.HasPrefix(line, "//")
		inComment = inComment && !strings.Contains(line, "*/")
	}
}

func statementsOf(file *ast.File) int {
	n := 0
	ast.Inspect(file, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.BlockStmt, *ast.EmptyStmt, *ast.LabeledStmt, *ast.DeclStmt:
		case ast.Stmt:
			n++
		case *ast.ValueSpec:
			n += len(node.Names)
		case *ast.TypeSpec, *ast.FuncDecl:
			n++
		}
		return true
	})
	return n
}
