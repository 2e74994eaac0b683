package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestSecurityNamesWhatThereIs checks that each test and each path that SECURITY.md names exists.
func TestSecurityNamesWhatThereIs(t *testing.T) {
	const root = "../.."
	text, err := os.ReadFile(filepath.Join(root, "SECURITY.md"))
	if err != nil {
		t.Fatal(err)
	}
	tests := allTests(t, root)
	named := 0
	for _, found := range regexp.MustCompile("`([A-Za-z]+(?:/[a-z0-9_./]+)?)`").FindAllStringSubmatch(string(text), -1) {
		name := found[1]
		switch {
		case strings.HasPrefix(name, "Test"):
			if named++; !tests[name] {
				t.Errorf("there is no test %s", name)
			}
		case strings.Contains(name, "/"):
			if _, err := os.Stat(filepath.Join(root, name)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if named < 10 {
		t.Errorf("only %d tests are named", named)
	}
}

// allTests lists the tests of the module.
func allTests(t *testing.T, root string) map[string]bool {
	t.Helper()
	test := regexp.MustCompile(`(?m)^func (Test[A-Za-z0-9_]+)\(`)
	all := make(map[string]bool)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "node_modules" || strings.HasPrefix(d.Name(), ".") && path != root):
			return fs.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		for _, found := range test.FindAllSubmatch(text, -1) {
			all[string(found[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
