package recur_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/fireonce/fireonce/internal/recur"
)

// TestOpenZones checks that a directory that an operator names is read, and that one without zone
// data is refused instead of ignored.
func TestOpenZones(t *testing.T) {
	data := []byte("TZif2" + strings.Repeat("\x00", 15+16) + "\x00\x00\x00\x01\x00\x00\x00\x04" + "\x00\x00\x00\x00\x00\x00UTC\x00" +
		"TZif2" + strings.Repeat("\x00", 15+16) + "\x00\x00\x00\x01\x00\x00\x00\x04" + "\x00\x00\x00\x00\x00\x00UTC\x00\nUTC0\n")
	dir := t.TempDir()
	for _, name := range []string{"", "none", "file"} {
		at := filepath.Join(dir, name)
		if name == "file" {
			if err := os.WriteFile(at, data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := recur.OpenZones(at); err == nil || !strings.Contains(err.Error(), "time zone data") {
			t.Errorf("%s: %v", at, err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "UTC"), []byte("no data"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := recur.OpenZones(dir); err == nil {
		t.Error("a file UTC that is not a zone was accepted")
	}
	for name, text := range map[string]string{"UTC": string(data), "+VERSION": "2031a\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	z, err := recur.OpenZones(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := z.Version(), (recur.DataVersion{Source: dir, Version: "2031a"}); got != want {
		t.Errorf("version %+v, want %+v", got, want)
	}
	if z, err = recur.OpenZones(""); err != nil || z.Version().Source == "" {
		t.Errorf("without a folder on %s: %v", runtime.GOOS, err)
	}
}
