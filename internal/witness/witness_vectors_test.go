package witness

import (
	"os"
	"path/filepath"
	"testing"
)

// TestFileVector holds the format of the file: a server must read what an older one wrote.
func TestFileVector(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.seen")
	s := Seen{Era: 3, Position: 1 << 40}
	if err := Save(path, s); err != nil {
		t.Fatal(err)
	}
	const want = "fireonce-seen-1 3 1099511627776\n"
	if text, err := os.ReadFile(path); err != nil || string(text) != want {
		t.Errorf("%q, %v, want %q", text, err, want)
	}
	if got, err := Load(path); err != nil || got != s {
		t.Errorf("read back %+v, %v", got, err)
	}
}
