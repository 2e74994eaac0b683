package sqlstore_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestEveryQueryIsCalled: a query that nothing calls is a rule that nothing keeps.
func TestEveryQueryIsCalled(t *testing.T) {
	t.Parallel()
	named := regexp.MustCompile(`(?m)^-- name: (\w+) `)
	where := make(map[string]string)
	var code strings.Builder
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		ext := filepath.Ext(path)
		if ext != ".sql" && ext != ".go" || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if ext == ".go" {
			code.Write(text)
			return err
		}
		for _, m := range named.FindAllSubmatch(text, -1) {
			where[string(m[1])] = path
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(where) < 100 {
		t.Fatalf("only %d queries were found", len(where))
	}
	called := make(map[string]bool)
	for _, m := range regexp.MustCompile(`\.(\w+)`).FindAllStringSubmatch(code.String(), -1) {
		called[m[1]] = true
	}
	for name, path := range where {
		if !called[name] {
			t.Errorf("%s: nothing calls %s", path, name)
		}
	}
}
