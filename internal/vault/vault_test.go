package vault

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

const ownerOnly = 0o600

var here = Binding{
	Project: "default", Connection: [16]byte{1, 2, 3}, Version: 7,
	Connector: "mastodon", Settings: []byte("https://home.example"), Identity: "ann",
}

// other returns here with one field changed.
func other(change func(*Binding)) Binding {
	p := here
	change(&p)
	return p
}

func newVault(t *testing.T, fill byte) *Vault {
	t.Helper()
	v, err := New(bytes.Repeat([]byte{fill}, keySize))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestSealOpen(t *testing.T) {
	v := newVault(t, 1)
	for _, secret := range []string{"", "x", strings.Repeat("long ", 10_000)} {
		a, err := v.Seal([]byte(secret), here)
		if err != nil {
			t.Fatal(err)
		}
		b, err := v.Seal([]byte(secret), here)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Equal(a, b) {
			t.Error("two seals are alike")
		}
		if len(secret) > 8 && bytes.Contains(a, []byte(secret)) {
			t.Error("the secret is not encrypted")
		}
		got, err := v.Open(a, v.KeyID(), here)
		if err != nil || string(got) != secret {
			t.Errorf("open: %q, %v", got, err)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	v := newVault(t, 1)
	const secret = "correct horse battery staple"
	sealed, err := v.Seal([]byte(secret), here)
	if err != nil {
		t.Fatal(err)
	}
	refused := func(name string, v *Vault, sealed []byte, keyID string, at Binding, want error) {
		t.Helper()
		got, err := v.Open(sealed, keyID, at)
		if !errors.Is(err, want) || got != nil {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		if err != nil && strings.Contains(err.Error(), secret) {
			t.Errorf("%s: the error has the secret", name)
		}
	}
	second := newVault(t, 2)
	refused("another key", second, sealed, v.KeyID(), here, ErrKeyID)
	refused("another key under this id", second, sealed, second.KeyID(), here, ErrSealed)
	for name, change := range map[string]func(*Binding){
		"project":         func(p *Binding) { p.Project = "other" },
		"no project":      func(p *Binding) { p.Project = "" },
		"connection":      func(p *Binding) { p.Connection = [16]byte{1, 2, 4} },
		"older version":   func(p *Binding) { p.Version-- },
		"newer version":   func(p *Binding) { p.Version++ },
		"shifted project": func(p *Binding) { p.Project += "\x01" },
		"connector":       func(p *Binding) { p.Connector = "bluesky" },
		"settings":        func(p *Binding) { p.Settings = []byte("https://evil.example") },
		"no settings":     func(p *Binding) { p.Settings = nil },
		"identity":        func(p *Binding) { p.Identity = "eve" },
		"no identity":     func(p *Binding) { p.Identity = "" },
		"shifted fields":  func(p *Binding) { p.Connector, p.Settings = "mastodonh", p.Settings[1:] },
	} {
		refused(name, v, sealed, v.KeyID(), other(change), ErrSealed)
	}
	for i := range sealed {
		bent := bytes.Clone(sealed)
		bent[i] ^= 1
		refused("changed byte", v, bent, v.KeyID(), here, ErrSealed)
	}
	for _, n := range []int{0, 1, nonceSize, len(sealed) - 1} {
		refused("cut", v, sealed[:n], v.KeyID(), here, ErrSealed)
	}
	refused("longer", v, append(bytes.Clone(sealed), 0), v.KeyID(), here, ErrSealed)
}

// TestAssociated checks that no two bindings have the same encoding.
func TestAssociated(t *testing.T) {
	seen := make(map[string]Binding)
	for _, project := range []string{"", "a", "ab", "a\x10", "\x10a"} {
		for _, first := range []byte{0, 'a', 0x10} {
			for _, version := range []int{0, 1, 256} {
				for _, rest := range [][3]string{{}, {"a"}, {"", "a"}, {"", "", "a"}, {"a", "a"}, {"\x01a"}} {
					p := Binding{
						Project: project, Connection: [16]byte{first}, Version: version,
						Connector: rest[0], Settings: []byte(rest[1]), Identity: rest[2],
					}
					code := string(p.associated())
					if twin, dup := seen[code]; dup {
						t.Errorf("%v and %v are encoded alike", p, twin)
					}
					seen[code] = p
				}
			}
		}
	}
}

func TestFingerprint(t *testing.T) {
	a, b := newVault(t, 1), newVault(t, 2)
	conn, second := [16]byte{1}, [16]byte{2}
	got := a.Fingerprint([]byte("x"), conn)
	if len(got) != shownDigits || got != a.Fingerprint([]byte("x"), conn) {
		t.Errorf("fingerprint %q is not stable", got)
	}
	if got == a.Fingerprint([]byte("y"), conn) || got == b.Fingerprint([]byte("x"), conn) || got == a.Fingerprint([]byte("x"), second) {
		t.Error("fingerprints of other secrets, keys or connections are alike")
	}
	if !a.Recognizes([]byte("x"), conn, got) || a.Recognizes([]byte("x"), second, got) {
		t.Error("a fingerprint is recognized on another connection, or not on its own")
	}
	if a.KeyID() == b.KeyID() || a.KeyID() != newVault(t, 1).KeyID() {
		t.Error("key ids do not name keys")
	}
}

func TestNewRefusesOtherSizes(t *testing.T) {
	for _, n := range []int{0, 16, 31, 33} {
		if _, err := New(make([]byte, n)); err == nil {
			t.Errorf("a key of %d bytes was accepted", n)
		}
	}
}

func TestKeyFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fireonce.key")
	if _, err := LoadKeyFile(path); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("load: %v", err)
	}
	v, err := LoadOrCreateKeyFile(path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != ownerOnly {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	text, err := os.ReadFile(path)
	if err != nil || strings.Count(string(text), "\n") != 1 || !strings.HasPrefix(string(text), keyFileVersion+" ") {
		t.Errorf("not one versioned line, %v", err)
	}
	again, err := LoadOrCreateKeyFile(path)
	if err != nil || again.KeyID() != v.KeyID() {
		t.Errorf("the key changed: %v", err)
	}
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(left) != 1 {
		t.Errorf("files left beside the key: %v, %v", left, err)
	}
}

func TestKeyFileCreatedOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fireonce.key")
	var mu sync.Mutex
	var wg sync.WaitGroup
	ids := make(map[string]int)
	for range 8 {
		wg.Go(func() {
			v, err := LoadOrCreateKeyFile(path)
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			ids[v.KeyID()]++
		})
	}
	wg.Wait()
	v, err := LoadKeyFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(ids) != 1 || ids[v.KeyID()] == 0 {
		t.Errorf("one file has %d keys", len(ids))
	}
}

func TestKeyFileRefuses(t *testing.T) {
	good := keyFileVersion + " " + base64.StdEncoding.EncodeToString(make([]byte, keySize)) + "\n"
	for name, tt := range map[string]struct {
		text string
		mode fs.FileMode
		want error
	}{
		"readable by the group": {good, 0o640, ErrFileMode},
		"readable by others":    {good, 0o604, ErrFileMode},
		"writable by the group": {good, 0o620, ErrFileMode},
		"empty":                 {"", ownerOnly, ErrKeyFile},
		"no line end":           {good[:len(good)-1], ownerOnly, ErrKeyFile},
		"two lines":             {good + good, ownerOnly, ErrKeyFile},
		"another version":       {strings.Replace(good, "-1", "-2", 1), ownerOnly, ErrKeyFile},
		"a short key":           {keyFileVersion + " AAAA\n", ownerOnly, ErrKeyFile},
		"not base64":            {keyFileVersion + " ????\n", ownerOnly, ErrKeyFile},
		"a large file":          {strings.Repeat("x", maxKeyFile+1), ownerOnly, ErrKeyFile},
	} {
		path := filepath.Join(t.TempDir(), "fireonce.key")
		if err := os.WriteFile(path, []byte(tt.text), tt.mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, tt.mode); err != nil {
			t.Fatal(err)
		}
		if _, err := LoadOrCreateKeyFile(path); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v", name, err)
		}
		after, err := os.ReadFile(path)
		if err != nil || string(after) != tt.text {
			t.Errorf("%s: the file was changed, %v", name, err)
		}
	}
	if _, err := LoadOrCreateKeyFile(t.TempDir()); !errors.Is(err, ErrKeyFile) {
		t.Errorf("a directory: %v", err)
	}
}
