package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// named matches a first word that can only be a name: a sentence begins with a capital letter,
// and a word has none inside. Names such as SQLite and OAuth do not match.
var named = regexp.MustCompile(`^(?:[a-z]\w*|[A-Z][a-z0-9]+[A-Z]\w*)$`)

// place is a line of a file, and what is wrong there.
type place struct {
	number int
	text   string
}

// staleNames finds the comments of a Go file that begin with a name, and whose declaration
// declares another one: it was renamed.
func staleNames(path, content string) (out []place, err error) {
	if filepath.Ext(path) != ".go" {
		return nil, nil
	}
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, content, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	check := func(doc *ast.CommentGroup, names []string) {
		first, _, _ := strings.Cut(doc.Text(), " ")
		first = strings.TrimRight(first, ",:;.\n")
		if named.MatchString(first) && !slices.Contains(names, first) && !slices.Contains(names, strings.TrimSuffix(first, "s")) {
			out = append(out, place{set.Position(doc.Pos()).Line, fmt.Sprintf("%q begins a comment of %s", first, strings.Join(names, ", "))})
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			check(n.Doc, []string{n.Name.Name})
		case *ast.GenDecl:
			check(n.Doc, namesOf(n.Specs...))
			for _, s := range n.Specs {
				check(docOf(s), namesOf(n.Specs...))
			}
		case *ast.StructType:
			for _, f := range n.Fields.List {
				check(f.Doc, fieldNames(n.Fields))
			}
		}
		return true
	})
	return out, nil
}

// namesOf returns what specifications declare. One comment may be about several of them.
func namesOf(specs ...ast.Spec) (out []string) {
	for _, s := range specs {
		switch s := s.(type) {
		case *ast.TypeSpec:
			out = append(out, s.Name.Name)
		case *ast.ValueSpec:
			for _, name := range s.Names {
				out = append(out, name.Name)
			}
		}
	}
	return out
}

func docOf(s ast.Spec) *ast.CommentGroup {
	switch s := s.(type) {
	case *ast.TypeSpec:
		return s.Doc
	case *ast.ValueSpec:
		return s.Doc
	default:
		return nil
	}
}

func fieldNames(fields *ast.FieldList) (out []string) {
	for _, f := range fields.List {
		for _, name := range f.Names {
			out = append(out, name.Name)
		}
		if name, ok := f.Type.(*ast.Ident); ok && len(f.Names) == 0 {
			out = append(out, name.Name) // embedded
		}
	}
	return out
}
