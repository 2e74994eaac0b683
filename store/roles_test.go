package store

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// mostMethods bounds the methods of a role.
const mostMethods = 9

// interfaces parses this package, and returns the methods and the embedded types of each
// exported interface.
func interfaces(t *testing.T) (methods, embedded map[string][]string) {
	t.Helper()
	methods, embedded = make(map[string][]string), make(map[string][]string)
	paths, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok || !spec.Name.IsExported() {
				return true
			}
			kind, ok := spec.Type.(*ast.InterfaceType)
			if !ok {
				return true
			}
			name := spec.Name.Name
			methods[name] = nil
			for _, field := range kind.Methods.List {
				for _, method := range field.Names {
					methods[name] = append(methods[name], method.Name)
				}
				if role, ok := field.Type.(*ast.Ident); ok {
					embedded[name] = append(embedded[name], role.Name)
				}
			}
			return true
		})
	}
	return methods, embedded
}

// TestStoreIsItsRoles: Store has no methods of its own, a role embeds no other and is
// small, and a method is in one role.
func TestStoreIsItsRoles(t *testing.T) {
	methods, embedded := interfaces(t)
	if own := methods["Store"]; len(own) != 0 {
		t.Errorf("Store has methods of its own: %v; give them to a role", own)
	}
	roles := embedded["Store"]
	if len(roles) == 0 {
		t.Fatal("Store has no roles")
	}
	in := make(map[string]string)
	for _, role := range roles {
		has, ok := methods[role]
		if n := len(has); !ok || n == 0 || n > mostMethods {
			t.Errorf("role %s has %d methods of its own, want 1 to %d", role, n, mostMethods)
		}
		if len(embedded[role]) != 0 {
			t.Errorf("role %s embeds %v", role, embedded[role])
		}
		for _, method := range has {
			if other, ok := in[method]; ok {
				t.Errorf("%s is in %s and in %s", method, other, role)
			}
			in[method] = role
		}
	}
	delete(methods, "Store")
	for _, name := range slices.Sorted(maps.Keys(methods)) {
		if !slices.Contains(roles, name) {
			t.Errorf("interface %s is no role of Store", name)
		}
	}
}

// TestEnginesHaveTheSameFiles: each method of Store is in a file of the same name in all engines,
// or in store/sqlstore, so that one who knows one engine finds their way in the others. What opens and closes a store
// is in the file that is named after the engine.
func TestEnginesHaveTheSameFiles(t *testing.T) {
	methods, embedded := interfaces(t)
	packages := map[string]string{"sqlite": "Store", "postgres": "Store", "memory": "Store", "sqlstore": "Roles"}
	where := make(map[string]map[string]string) // files by method, by package
	for pkg, of := range packages {
		paths, err := filepath.Glob(filepath.Join(pkg, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			name := strings.TrimSuffix(filepath.Base(path), ".go")
			if name == pkg {
				name = "the engine's own"
			}
			for _, d := range file.Decls {
				if f, ok := d.(*ast.FuncDecl); ok && receiver(f) == of && f.Name.IsExported() {
					if where[f.Name.Name] == nil {
						where[f.Name.Name] = make(map[string]string)
					}
					where[f.Name.Name][pkg] = name
				}
			}
		}
	}
	for _, role := range embedded["Store"] {
		for _, method := range methods[role] {
			files := where[method]
			_, shared := files["sqlstore"]
			_, lite := files["sqlite"]
			_, post := files["postgres"]
			names := make(map[string]bool)
			for _, name := range files {
				names[name] = true
			}
			if files["memory"] == "" || !shared && (!lite || !post) || len(names) != 1 {
				t.Errorf("%s is in these files, by package: %v", method, files)
			}
		}
	}
}

// receiver is the type that a function is a method of.
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil || len(f.Recv.List) != 1 {
		return ""
	}
	if star, ok := f.Recv.List[0].Type.(*ast.StarExpr); ok {
		if name, ok := star.X.(*ast.Ident); ok {
			return name.Name
		}
	}
	return ""
}
