package vault

import (
	"errors"
	"testing"
	"time"
)

// TestFollow checks a server that meets another server's new key: it finds the key in
// its file, continues to seal with its own key, and does not read the file for every miss.
func TestFollow(t *testing.T) {
	now := time.Unix(1000, 0)
	file, reads := ring(t, 1), 0
	var broken error
	v, err := Follow(func() (*Vault, error) {
		reads++
		return file, broken
	}, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	opens := func(other *Vault) error {
		t.Helper()
		sealed, err := other.Seal([]byte("secret"), here)
		if err != nil {
			t.Fatal(err)
		}
		got, err := v.Open(sealed, other.KeyID(), here)
		if err == nil && string(got) != "secret" {
			t.Errorf("opened %q", got)
		}
		return err
	}
	want := func(what string, err, want error, n int) {
		t.Helper()
		if !errors.Is(err, want) || reads != n {
			t.Errorf("%s: %v after %d readings, want %v after %d", what, err, reads, want, n)
		}
	}
	want("its own key", opens(ring(t, 1)), nil, 1)
	want("before the file has it", opens(ring(t, 2)), ErrKeyID, 2)
	file = ring(t, 2, 1)
	now = now.Add(followGap - 1)
	want("immediately again", opens(ring(t, 2)), ErrKeyID, 2)
	now = now.Add(1)
	want("later", opens(ring(t, 2)), nil, 3)
	want("once it is known", opens(ring(t, 2)), nil, 3)
	if v.KeyID() != ring(t, 1).KeyID() || len(v.KeyIDs()) != 1 {
		t.Error("the key that seals was replaced")
	}
	if got := v.NextKeyID(); got != ring(t, 2).KeyID() {
		t.Errorf("next %q", got)
	}
	// If the file is removed, the keys stay.
	broken = errors.New("gone")
	if got := v.NextKeyID(); got != "" {
		t.Errorf("next %q, of a file that is gone", got)
	}
	reads = 3 // as if NextKeyID had not been called
	now = now.Add(followGap)
	want("a third key", opens(ring(t, 3)), ErrKeyID, 4)
	want("the second one", opens(ring(t, 2)), nil, 4)
	// A clock that was set back does not stop the readings.
	file, broken, now = ring(t, 3), nil, now.Add(-time.Hour)
	want("after the clock was set back", opens(ring(t, 3)), nil, 5)
	file = ring(t, 1, 2)
	if got := v.NextKeyID() + ring(t, 1).NextKeyID(); got != "" {
		t.Errorf("next %q, which is the same", got)
	}
	if _, err := Follow(func() (*Vault, error) { return nil, errors.New("gone") }, time.Now); err == nil {
		t.Error("no keys at the start")
	}
}
