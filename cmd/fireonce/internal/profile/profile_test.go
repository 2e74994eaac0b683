package profile

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func TestSaveAndLoad(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	t.Setenv("HOME", t.TempDir())
	f, err := Load()
	if err != nil || len(f.Profiles) != 0 {
		t.Fatalf("without a file: %v, %v", f, err)
	}
	f.Current = "prod"
	f.Profiles["prod"] = Profile{Server: "https://fireonce.example.org", APIKey: "key"}
	if err := f.Save(); err != nil {
		t.Fatal(err)
	}
	path, err := Path()
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	got, err := Load()
	if err != nil || got.Current != "prod" || !maps.Equal(got.Profiles, f.Profiles) {
		t.Errorf("%v, %v", got, err)
	}
	for _, mode := range []os.FileMode{0o640, 0o604, 0o602} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(); !errors.Is(err, ErrReadable) {
			t.Errorf("mode %o: %v", mode, err)
		}
	}
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(left) != 1 {
		t.Errorf("%v, %v", left, err)
	}
}

func TestLoadRefusesWhatItWouldLose(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	if err := new(File).Save(); err != nil {
		t.Fatal(err)
	}
	path, err := Path()
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"{", `{"profiles": {"a": {"server": "b", "secondKey": "hunter2"}}}`, strings.Repeat(" ", maxFile+1)} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%.60q: %v", text, err)
		}
	}
}

// TestUpdatesAreNotLost checks that the file has each of many concurrent updates.
func TestUpdatesAreNotLost(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	t.Setenv("HOME", t.TempDir())
	const updates = 32
	var group sync.WaitGroup
	for i := range updates {
		group.Go(func() {
			err := Update(func(f *File) error {
				f.Profiles[fmt.Sprint(i)] = Profile{Server: "https://fireonce.example.org"}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if f, err := Load(); err != nil || len(f.Profiles) != updates {
		t.Errorf("%v, %v", f, err)
	}
	failed := errors.New("no")
	err := Update(func(f *File) error {
		clear(f.Profiles)
		return failed
	})
	if !errors.Is(err, failed) {
		t.Error(err)
	}
	if f, err := Load(); err != nil || len(f.Profiles) != updates {
		t.Errorf("after an update that failed: %v, %v", f, err)
	}
}

func TestSaveKeepsALink(t *testing.T) {
	dir, elsewhere := t.TempDir(), filepath.Join(t.TempDir(), "real.json")
	t.Setenv("XDG_CONFIG_HOME", dir)
	path, err := Path()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(elsewhere, []byte(`{}`), 0o600), os.Symlink(elsewhere, path)); err != nil {
		t.Fatal(err)
	}
	if err := (&File{Current: "a"}).Save(); err != nil {
		t.Fatal(err)
	}
	if got, err := os.Readlink(path); err != nil || got != elsewhere {
		t.Errorf("%q, %v", got, err)
	}
	if f, err := Load(); err != nil || f.Current != "a" {
		t.Errorf("%v, %v", f, err)
	}
}

func TestSameServer(t *testing.T) {
	const server = "https://fireonce.example.org"
	for other, want := range map[string]bool{
		server: true, server + "/": true, server + ":443": true, "https://FIREONCE.example.org.": true,
		"http://fireonce.example.org": false, "http://fireonce.example.org:443": false, server + ":8443": false,
		server + "/other": false, "https://fireonce.example.org.evil.example": false, "https://fireonce.example.org@evil.example": false,
		"": false, "fireonce.example.org": false,
	} {
		if got := SameServer(server, other); got != want {
			t.Errorf("%s: %v", other, got)
		}
	}
	if SameServer("", "") {
		t.Error("nothing is a server")
	}
}
