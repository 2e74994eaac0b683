package platform_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fireonce/fireonce/internal/proof/chaos/platform"
)

const (
	firstLine  = `{"type":"request","n":1,"time":"2026-11-21T08:00:00Z","face":"opaque","subject":"a","fault":"drop"}` + "\n"
	secondLine = `{"type":"effect","n":1,"time":"2026-11-21T08:00:00.000001Z","face":"opaque","subject":"a","id":"effect-1"}` + "\n"
)

// read reads a log with this content.
func read(t *testing.T, text string) (records []platform.Record, err error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for r, e := range platform.ReadLog(path) {
		if e != nil {
			return records, e
		}
		records = append(records, r)
	}
	return records, nil
}

// TestReadLog: a log that was torn anywhere in its last line is read up to there;
// a line that is none in the middle is an error.
func TestReadLog(t *testing.T) {
	for end := range len(secondLine) {
		got, err := read(t, firstLine+secondLine[:end])
		if err != nil || len(got) != 1 || got[0].Fault != platform.Drop || got[0].Subject != "a" {
			t.Fatalf("torn at %d: %+v %v", end, got, err)
		}
	}
	if got, err := read(t, firstLine+secondLine); err != nil || len(got) != 2 || got[1].ID != "effect-1" || got[1].Type != platform.TypeEffect {
		t.Errorf("%+v %v", got, err)
	}
	if got, err := read(t, firstLine+"{\n"+secondLine); err == nil || !strings.Contains(err.Error(), "line 2") || len(got) != 1 {
		t.Errorf("%+v %v", got, err)
	}
	long := strings.Replace(firstLine, `"a"`, `"`+strings.Repeat("x", 200_000)+`"`, 1)
	if got, err := read(t, long+secondLine); err != nil || len(got) != 2 || len(got[0].Subject) != 200_000 {
		t.Errorf("a long line: %d %v", len(got), err)
	}
	for _, err := range platform.ReadLog(filepath.Join(t.TempDir(), "nonesuch")) {
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%v", err)
		}
	}
}

// TestLogOfAnother: a platform without memory does not go on with a log.
func TestLogOfAnother(t *testing.T) {
	w := start(t, platform.Options{})
	if other, err := platform.Start(platform.Options{Log: w.log}); !errors.Is(err, fs.ErrExist) {
		t.Errorf("%v %v", other, err)
	}
}

// TestCloseTwice also says that what happened is in the log of a closed platform.
func TestCloseTwice(t *testing.T) {
	w := start(t, platform.Options{})
	if _, _, err := w.ask(faces[1], "s"); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Close(), w.Close()); err != nil || w.effects("s") != 1 {
		t.Errorf("%v, %d effects", err, w.effects("s"))
	}
	if _, _, err := w.ask(faces[1], "s"); err == nil {
		t.Error("an answer of a closed platform")
	}
}
