package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
)

// declarations are what a file of Go declares, as text.
type declarations struct {
	packageEnd int // offset, after the package's name
	imports    []string
	functions  []function
	others     []string // the file's begin up to the package's name, variables, constants and types
}

// function is a declared function, or a method.
type function struct {
	key       string // its name, with the receiver's
	decl      *ast.FuncDecl
	signature string // up to the body's brace
	text      string
	body      int // offset of the body's brace
	line      int
	names     []insertion // names for the receiver and for parameters that have none
	receiver  string
	arguments []string
}

func parseDeclarations(text string) (declarations, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, "", text, parser.SkipObjectResolution)
	if err != nil {
		return declarations{}, err
	}
	offset := func(at token.Pos) int { return files.PositionFor(at, false).Offset }
	d := declarations{packageEnd: offset(file.Name.End())}
	d.others = append(d.others, text[:d.packageEnd])
	for _, spec := range file.Imports {
		d.imports = append(d.imports, text[offset(spec.Pos()):offset(spec.End())])
	}
	for _, decl := range file.Decls {
		from, to := offset(decl.Pos()), offset(decl.End())
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			fn := function{decl: decl, text: text[from:to], body: to}
			fn.line = files.PositionFor(decl.Pos(), false).Line
			if decl.Body != nil {
				fn.body = offset(decl.Body.Lbrace)
			}
			fn.signature = text[from:fn.body]
			fn.key = decl.Name.Name
			if decl.Recv != nil {
				fn.key = text[offset(decl.Recv.Pos()):offset(decl.Recv.End())] + fn.key
			}
			fn.nameParameters(offset)
			d.functions = append(d.functions, fn)
		case *ast.GenDecl:
			if decl.Tok != token.IMPORT {
				d.others = append(d.others, text[from:to])
			}
		}
	}
	return d, nil
}

// nameParameters notes what the receiver and the parameters are called, and makes names where
// there are none.
func (f *function) nameParameters(offset func(token.Pos) int) {
	named := func(field *ast.Field) []string {
		made := func() string { return ownPrefix + "p" + strconv.Itoa(len(f.names)) }
		if len(field.Names) == 0 {
			name := made()
			at := offset(field.Type.Pos())
			f.names = append(f.names, insertion{at, at, name + " "})
			return []string{name}
		}
		var names []string
		for _, ident := range field.Names {
			name := ident.Name
			if name == "_" {
				name = made()
				f.names = append(f.names, insertion{offset(ident.Pos()), offset(ident.End()), name})
			}
			names = append(names, name)
		}
		return names
	}
	if f.decl.Recv != nil {
		f.receiver = named(f.decl.Recv.List[0])[0]
	}
	for _, field := range f.decl.Type.Params.List {
		names := named(field)
		if _, variadic := field.Type.(*ast.Ellipsis); variadic {
			names[len(names)-1] += "..."
		}
		f.arguments = append(f.arguments, names...)
	}
}

// callable returns an error if a call of the function is not the same as its body.
func (f *function) callable() error {
	name := f.decl.Name.Name
	if f.decl.Body == nil || name == "_" || name == "init" && f.decl.Recv == nil {
		return fmt.Errorf("%w: %s cannot be called", errNoSwitch, f.key)
	}
	if types := f.decl.Type.TypeParams; types != nil {
		for _, field := range types.List {
			for _, ident := range field.Names {
				if ident.Name == "_" {
					return fmt.Errorf("%w: a type of %s has no name", errNoSwitch, f.key)
				}
			}
		}
	}
	recovers := false
	ast.Inspect(f.decl.Body, func(n ast.Node) bool {
		if ident, ok := n.(*ast.Ident); ok && ident.Name == "recover" {
			recovers = true
		}
		_, inner := n.(*ast.FuncLit)
		return !inner
	})
	if recovers {
		return fmt.Errorf("%w: %s recovers, which only the deferred function itself can", errNoSwitch, f.key)
	}
	return nil
}

// call is a call of a function that differs from this one in its name.
func (f *function) call(name string) string {
	if f.receiver != "" {
		name = f.receiver + "." + name
	}
	if types := f.decl.Type.TypeParams; types != nil {
		var names []string
		for _, field := range types.List {
			for _, ident := range field.Names {
				names = append(names, ident.Name)
			}
		}
		name += "[" + strings.Join(names, ", ") + "]"
	}
	return name + "(" + strings.Join(f.arguments, ", ") + ")"
}

// renamed is the function's text with another name.
func (f *function) renamed(name string) string {
	at := int(f.decl.Name.Pos() - f.decl.Pos())
	return f.text[:at] + name + f.text[at+len(f.decl.Name.Name):]
}
