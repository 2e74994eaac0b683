package job

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestEffectKeyVectors pins the encoding: no receiver would recognize a key that has changed.
// Another program computed the digests (testdata/effectkey.py).
func TestEffectKeyVectors(t *testing.T) {
	text, err := os.ReadFile("testdata/effectkey.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors []struct {
		Namespace, Project, Key string
		Round                   int
		EffectKey               string `json:"effect_key"`
	}
	if err := json.Unmarshal(text, &vectors); err != nil || len(vectors) < 6 {
		t.Fatalf("%d vectors, %v", len(vectors), err)
	}
	for _, v := range vectors {
		if got := EffectKey(v.Namespace, v.Project, v.Key, v.Round); got != v.EffectKey {
			t.Errorf("%+v: %s", v, got)
		}
	}
}

// TestEffectKeyForm checks that a key can be a webhook-id, an Idempotency-Key, the local part
// of a Message-ID and a segment of a path, however long or odd the client's key is.
func TestEffectKeyForm(t *testing.T) {
	form := regexp.MustCompile(`^fo1_[a-z2-7]{52}$`)
	for _, key := range []string{"", "a", "order 42/ü\r\n", strings.Repeat("k", MaxKeyLen)} {
		got := EffectKey("namespace", "default", key, MaxAttempts)
		if !form.MatchString(got) || len(got) != EffectKeyLen {
			t.Errorf("%q: %s", key, got)
		}
	}
}

func TestJobsEffectKey(t *testing.T) {
	j := Job{Spec: Spec{ID: ID{1}, Project: "p", Key: "k"}}
	first := j.EffectKey("n")
	if first != EffectKey("n", "p", "k", 1) {
		t.Error("a job that is not stored yet does not have its first round's key")
	}
	j.ID, j.Round = ID{2}, 1
	if j.EffectKey("n") != first {
		t.Error("the key depends on the database's id of the job")
	}
	j.Round = 2
	if j.EffectKey("n") != EffectKey("n", "p", "k", 2) {
		t.Error("a second round does not have its own key")
	}
}

// effectKeyParts decodes the input of a key's digest: an encoding that can be decoded is
// injective.
func effectKeyParts(b []byte) (parts []string, round uint64, ok bool) {
	for range 4 {
		if len(b) < 4 {
			return nil, 0, false
		}
		n := int(b[0])<<24 | int(b[1])<<16 | int(b[2])<<8 | int(b[3])
		if n > len(b)-4 {
			return nil, 0, false
		}
		parts, b = append(parts, string(b[4:4+n])), b[4+n:]
	}
	if len(b) != 8 {
		return nil, 0, false
	}
	for _, c := range b {
		round = round<<8 | uint64(c)
	}
	return parts, round, true
}

func FuzzEffectKeyInjective(f *testing.F) {
	f.Add("n", "p", "k", 1, "n", "pk", "", 1)
	f.Add("n", "p", "k.2", 1, "n", "p", "k", 2)
	f.Add("a", "b\x00\x00\x00\x01c", "d", 1, "a", "b", "c", 1)
	f.Add("", "", "", 1, "", "", "", 256)
	f.Fuzz(func(t *testing.T, n1, p1, k1 string, r1 int, n2, p2, k2 string, r2 int) {
		a, b := appendEffectKeyInput(nil, n1, p1, k1, r1), appendEffectKeyInput(nil, n2, p2, k2, r2)
		same := n1 == n2 && p1 == p2 && k1 == k2 && r1 == r2
		if bytes.Equal(a, b) != same {
			t.Errorf("(%q %q %q %d) and (%q %q %q %d)", n1, p1, k1, r1, n2, p2, k2, r2)
		}
		if (EffectKey(n1, p1, k1, r1) == EffectKey(n2, p2, k2, r2)) != same {
			t.Error("keys")
		}
		parts, round, ok := effectKeyParts(a)
		if !ok || parts[0] != effectKeyDomain || parts[1] != n1 || parts[2] != p1 || parts[3] != k1 || int(round) != r1 {
			t.Errorf("read back: %q %d %v", parts, round, ok)
		}
	})
}

func TestNamespace(t *testing.T) {
	a, b := NewNamespace(), NewNamespace()
	if a == b || CheckNamespace(a) != nil || len(a) != 26 {
		t.Errorf("made %q and %q", a, b)
	}
	for _, good := range []string{"a", "0", "prod-eu-1", strings.Repeat("x", MaxNamespace)} {
		if err := CheckNamespace(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{"", "-a", "a-", "A", "a_b", "a b", "ü", strings.Repeat("x", MaxNamespace+1)} {
		if CheckNamespace(bad) == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}
