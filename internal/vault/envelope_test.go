package vault

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// ring returns a vault of several keys, each of 32 times one byte.
func ring(t *testing.T, fills ...byte) *Vault {
	t.Helper()
	var keys [][]byte
	for _, fill := range fills {
		keys = append(keys, bytes.Repeat([]byte{fill}, keySize))
	}
	v, err := New(keys[0], keys[1:]...)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestRewrap checks that another key replaces the old one, that the secret itself stays
// sealed as it is, and that the old key no longer opens it.
func TestRewrap(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		secret := rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(r, "secret")
		at := Binding{
			Project: rapid.StringN(0, 20, 60).Draw(r, "project"), Version: rapid.IntRange(0, 9).Draw(r, "version"),
			Connector: rapid.StringN(0, 20, 60).Draw(r, "connector"), Settings: rapid.SliceOfN(rapid.Byte(), 0, 100).Draw(r, "settings"),
			Identity: rapid.StringN(0, 20, 60).Draw(r, "identity"),
		}
		old, both, young := ring(t, 1), ring(t, 2, 1), ring(t, 2)
		sealed, err := old.Seal(secret, at)
		if err != nil {
			r.Fatal(err)
		}
		moved, err := both.Rewrap(sealed, old.KeyID(), at)
		if err != nil {
			r.Fatal(err)
		}
		if got, err := young.Open(moved, young.KeyID(), at); err != nil || !bytes.Equal(got, secret) {
			r.Fatalf("%q, %v", got, err)
		}
		if _, err := old.Open(moved, old.KeyID(), at); !errors.Is(err, ErrSealed) {
			r.Fatalf("the old key: %v", err)
		}
		if len(moved) != len(sealed) || !bytes.Equal(moved[1+wrapped:], sealed[1+wrapped:]) || bytes.Equal(moved[:1+wrapped], sealed[:1+wrapped]) {
			r.Fatal("more than the wrapped key was rewritten, or less")
		}
		same, err := both.Rewrap(moved, both.KeyID(), at)
		if err != nil || !bytes.Equal(same, moved) {
			r.Fatalf("what the first key has sealed was changed, %v", err)
		}
		for _, change := range []func(*Binding){
			func(p *Binding) { p.Version++ }, func(p *Binding) { p.Connector += "x" },
			func(p *Binding) { p.Settings = append(bytes.Clone(p.Settings), 0) }, func(p *Binding) { p.Identity += "x" },
		} {
			elsewhere := at
			change(&elsewhere)
			if _, err := both.Rewrap(sealed, old.KeyID(), elsewhere); !errors.Is(err, ErrSealed) {
				r.Fatalf("with another binding: %v", err)
			}
			if _, err := young.Open(moved, young.KeyID(), elsewhere); !errors.Is(err, ErrSealed) {
				r.Fatalf("rewrapped, with another binding: %v", err)
			}
		}
		if _, err := young.Rewrap(sealed, old.KeyID(), at); !errors.Is(err, ErrKeyID) {
			r.Fatalf("without the old key: %v", err)
		}
	})
}

func TestKeys(t *testing.T) {
	v := ring(t, 3, 1, 2)
	second := ring(t, 1).KeyID()
	if v.KeyID() != ring(t, 3).KeyID() || len(v.KeyIDs()) != 3 || v.KeyIDs()[1] != second {
		t.Errorf("key ids %v", v.KeyIDs())
	}
	if got := v.Missing([]string{second, "0000000000000000", v.KeyID()}); !slices.Equal(got, []string{"0000000000000000"}) {
		t.Errorf("missing %v", got)
	}
	conn := [16]byte{1}
	mark := ring(t, 1).Fingerprint([]byte("x"), conn)
	if !v.Recognizes([]byte("x"), conn, mark) || v.Recognizes([]byte("y"), conn, mark) || ring(t, 3, 2).Recognizes([]byte("x"), conn, mark) {
		t.Error("fingerprints are not those of the keys")
	}
	if _, err := New(make([]byte, keySize), make([]byte, keySize)); err == nil {
		t.Error("the same key twice was accepted")
	}
	if _, err := New(make([]byte, keySize), make([][]byte, maxKeys)...); err == nil {
		t.Error("too many keys were accepted")
	}
}

func TestParseKeys(t *testing.T) {
	one, err := GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	two, err := GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	_, bare, _ := strings.Cut(two, " ")
	v, err := ParseKeys(one + ", " + bare)
	if err != nil {
		t.Fatal(err)
	}
	first, err := ParseKeys(one)
	if err != nil || v.KeyID() != first.KeyID() || len(v.KeyIDs()) != 2 {
		t.Errorf("keys %v, %v", v.KeyIDs(), err)
	}
	for _, list := range []string{"", ",", one + ",", one + "," + one, bare[:20], "x" + bare} {
		if _, err := ParseKeys(list); !errors.Is(err, ErrKeyList) || strings.Contains(err.Error(), bare[:10]) {
			t.Errorf("%d letters: %v", len(list), err)
		}
	}
}

// TestKeyFileChanges adds, moves and removes keys, and checks that the file is always
// complete and readable for its owner only.
func TestKeyFileChanges(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "fireonce.key")
	a, err := AddKey(path, true) // makes it
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link.key")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	standby, err := AddKey(link, false)
	if err != nil || standby.KeyID() != a.KeyID() || len(standby.KeyIDs()) != 2 {
		t.Fatalf("%v, %v", standby.KeyIDs(), err)
	}
	b := standby.KeyIDs()[1]
	used, err := UseKey(path, b)
	if err != nil || !slices.Equal(used.KeyIDs(), []string{b, a.KeyID()}) {
		t.Fatalf("%v, %v", used.KeyIDs(), err)
	}
	first, err := AddKey(path, true)
	if err != nil || first.KeyIDs()[1] != b || len(first.KeyIDs()) != 3 {
		t.Fatalf("%v, %v", first.KeyIDs(), err)
	}
	if _, err := RemoveKey(path, b); err != nil {
		t.Fatal(err)
	}
	for _, change := range []func(string, string) (*Vault, error){UseKey, RemoveKey} {
		if _, err := change(path, b); !errors.Is(err, ErrKeyID) {
			t.Errorf("a key that is not there: %v", err)
		}
	}
	if _, err := RemoveKey(path, a.KeyID()); err != nil {
		t.Fatal(err)
	}
	if _, err := RemoveKey(path, first.KeyID()); err == nil {
		t.Error("the last key was removed")
	}
	v, err := LoadKeyFile(link)
	if err != nil || !slices.Equal(v.KeyIDs(), []string{first.KeyID()}) {
		t.Errorf("the file has %v, %v", v.KeyIDs(), err)
	}
	info, err := os.Lstat(path)
	if err != nil || info.Mode() != ownerOnly {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 2 {
		t.Errorf("files left beside the key: %v, %v", left, err)
	}
}

func TestKeyFileChangeRefuses(t *testing.T) {
	line, err := GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	_, encoded, _ := strings.Cut(line, " ")
	for name, text := range map[string]string{
		"no key file": "something else\n", "damaged": line[:30] + "\n", "twice": line + "\n" + line + "\n",
		"a line that is none": line + "\n# " + encoded + "\n",
	} {
		path := filepath.Join(t.TempDir(), "fireonce.key")
		if err := os.WriteFile(path, []byte(text), ownerOnly); err != nil {
			t.Fatal(err)
		}
		_, err := AddKey(path, false)
		if !errors.Is(err, ErrKeyFile) || strings.Contains(err.Error(), encoded) {
			t.Errorf("%s: %v", name, err)
		}
		if after, err := os.ReadFile(path); err != nil || string(after) != text {
			t.Errorf("%s: the file was changed, %v", name, err)
		}
	}
	path := filepath.Join(t.TempDir(), "fireonce.key")
	for range maxKeys {
		if _, err := AddKey(path, true); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := AddKey(path, true); !errors.Is(err, ErrKeyFile) {
		t.Errorf("one more than fit: %v", err)
	}
	if v, err := LoadKeyFile(path); err != nil || len(v.KeyIDs()) != maxKeys {
		t.Errorf("afterwards: %v", err)
	}
}
