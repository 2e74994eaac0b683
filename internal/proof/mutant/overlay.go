package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// errStale means that a mutant's lines are no longer in the source as they were:
// the mutant must follow the code.
var errStale = errors.New("the mutant does not fit the source any more")

// likeSQLite is the test of the reference store that needs SQLite. Overlays take it out: a
// build takes a quarter of the time without it.
const likeSQLite = "store/memory/like_sqlite_test.go"

// writeOverlay writes the mutant's files under dir and an overlay that puts them
// in the place of the source's. It returns the overlay's path.
func (m mutant) writeOverlay(root, dir string) (string, error) {
	texts, err := m.mutated(root)
	if err != nil {
		return "", err
	}
	return writeReplacements(root, dir, texts)
}

// mutated returns the files that the mutant changes, as it has them.
func (m mutant) mutated(root string) (map[string]string, error) {
	texts := make(map[string]string)
	for _, e := range m.edits {
		text, known := texts[e.file]
		if !known {
			source, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(e.file)))
			if errors.Is(err, os.ErrNotExist) {
				return nil, fmt.Errorf("%w: %s is gone", errStale, e.file)
			}
			if err != nil {
				return nil, err
			}
			text = string(source)
		}
		changed, err := e.apply(text)
		if err != nil {
			return nil, err
		}
		texts[e.file] = changed
	}
	return texts, nil
}

// writeReplacements writes files under dir, and an overlay that puts them in the place of
// the source's. It returns the overlay's path.
func writeReplacements(root, dir string, texts map[string]string) (string, error) {
	replace := map[string]string{filepath.Join(root, filepath.FromSlash(likeSQLite)): ""} // no such file
	for file, text := range texts {
		// The file's own name is kept: the name makes a file a test for the compiler.
		mutated := filepath.Join(dir, strings.ReplaceAll(file, "/", "_"))
		if err := os.WriteFile(mutated, []byte(text), 0o600); err != nil {
			return "", err
		}
		replace[filepath.Join(root, filepath.FromSlash(file))] = mutated
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, overlay, 0o600)
}

// apply replaces the edit's lines, which must be in the text exactly once.
func (e edit) apply(text string) (string, error) {
	at, rest := -1, 0
	for {
		i := strings.Index(text[rest:], e.old)
		if i < 0 {
			break
		}
		i += rest
		rest = i + 1
		if i > 0 && text[i-1] != '\n' {
			continue // in mid-line
		}
		if at >= 0 {
			return "", fmt.Errorf("%w: %s has these lines more than once:\n%s", errStale, e.file, e.old)
		}
		at = i
	}
	if at < 0 {
		return "", fmt.Errorf("%w: %s has not these lines:\n%s", errStale, e.file, e.old)
	}
	return text[:at] + e.new + text[at+len(e.old):], nil
}

// writeOverlays writes the overlay of each mutant to a folder of its own.
func writeOverlays(root, dir string, mutants []mutant) error {
	for _, m := range mutants {
		own, err := filepath.Abs(filepath.Join(dir, m.name))
		if err != nil {
			return err
		}
		if err := os.MkdirAll(own, 0o750); err != nil {
			return err
		}
		if _, err := m.writeOverlay(root, own); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
	}
	return nil
}
