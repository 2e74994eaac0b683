package witness

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestSaveAndLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.seen")
	if s, err := Load(path); s != (Seen{}) || err != nil {
		t.Errorf("no file: %+v, %v", s, err)
	}
	for _, want := range []Seen{{1, 2}, {3, 1 << 62}, {2, 5}} {
		if err := Save(path, want); err != nil {
			t.Fatal(err)
		}
		if s, err := Load(path); s != want || err != nil {
			t.Errorf("%+v, %v, want %+v", s, err, want)
		}
	}
	if files, err := os.ReadDir(filepath.Dir(path)); err != nil || len(files) != 1 {
		t.Errorf("%d files, %v", len(files), err)
	}
}

func TestUnreadable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.seen")
	for _, text := range []string{"", "fireonce-seen-1 1", "fireonce-seen-1 1 2", "fireonce-seen-1 1 2\n3", "fireonce-seen-2 1 2\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if s, err := Load(path); !errors.Is(err, ErrUnreadable) {
			t.Errorf("%q: %+v, %v", text, s, err)
		}
	}
}

func TestFolders(t *testing.T) {
	gone := filepath.Join(t.TempDir(), "gone")
	if Writable(gone) || Save(filepath.Join(gone, "a"), Seen{}) == nil {
		t.Error("wrote into a folder that does not exist")
	}
	dir := t.TempDir()
	if !Writable(dir) {
		t.Error("cannot write into a temporary folder")
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 0 {
		t.Errorf("%d files, %v", len(files), err)
	}
}

func TestReporter(t *testing.T) {
	var got []error
	r := Reporter{Report: func(err error) { got = append(got, err) }}
	first, second := errors.New("first"), errors.New("second")
	for _, err := range []error{nil, nil, first, second, first, nil, nil, second, nil} {
		r.Noted(err)
	}
	if want := []error{first, nil, second, nil}; !slices.Equal(got, want) {
		t.Errorf("reported %v, want %v", got, want)
	}
	new(Reporter).Noted(first) // without a Report function
}

func TestNewer(t *testing.T) {
	order := []Seen{{}, {1, 0}, {1, 7}, {2, 3}, {2, 4}}
	for i, a := range order {
		for j, b := range order {
			if a.Newer(b) != (i > j) {
				t.Errorf("%+v newer than %+v: %v", a, b, a.Newer(b))
			}
		}
	}
}
