package job

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"testing"
	"time"
)

// vector is one line of testdata/canon.json. A null value is an unset field.
type vector struct {
	Name   string
	Fields []struct {
		Name  string
		Value *string
	}
	Canon, Fingerprint, DerivedKey string
}

func (v vector) build() (canon []byte, f Fingerprint) {
	c := NewCanon()
	for _, field := range v.Fields {
		var value []byte
		if field.Value != nil {
			value = []byte(*field.Value)
		}
		c.Field(field.Name, value)
		f.Set(field.Name, value)
	}
	return c.Bytes(), f
}

// TestGoldenVectors pins the stored encodings. A changed encoding needs a new
// canonVersion, never a changed vector.
func TestGoldenVectors(t *testing.T) {
	b, err := os.ReadFile("testdata/canon.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors []vector
	if err := json.Unmarshal(b, &vectors); err != nil {
		t.Fatal(err)
	}
	if len(vectors) == 0 {
		t.Fatal("testdata/canon.json is empty")
	}
	for _, v := range vectors {
		t.Run(v.Name, func(t *testing.T) {
			canon, f := v.build()
			if got := hex.EncodeToString(canon); got != v.Canon {
				t.Errorf("canon %s, want %s", got, v.Canon)
			}
			if got := hex.EncodeToString(f.Bytes()); got != v.Fingerprint {
				t.Errorf("fingerprint %s, want %s", got, v.Fingerprint)
			}
			if got := DerivedKey(f); got != v.DerivedKey || len(got) > MaxKeyLen {
				t.Errorf("derived key %s, want %s", got, v.DerivedKey)
			}
			back, err := ParseFingerprint(f.Bytes())
			if err != nil || !back.Equal(f) || len(back.Diff(f)) != 0 {
				t.Errorf("round trip: %v, differs in %v", err, back.Diff(f))
			}
		})
	}
}

func TestFingerprintDiff(t *testing.T) {
	build := func(pairs ...string) (f Fingerprint) {
		for i := 0; i < len(pairs); i += 2 {
			f.Set(pairs[i], []byte(pairs[i+1]))
		}
		return f
	}
	base := build("connection", "c", "payload", "p", "time", "t")
	for _, tt := range []struct {
		other Fingerprint
		want  []string
	}{
		{build("connection", "c", "payload", "p", "time", "t"), nil},
		{build("connection", "c", "payload", "q", "time", "t"), []string{"payload"}},
		{build("connection", "d", "payload", "p", "time", "u"), []string{"connection", "time"}},
		{build("connection", "c", "payload", "p"), []string{"time"}},
		{build("connection", "c", "payload", "p", "time", "t", "labels", "l"), []string{"labels"}},
	} {
		if got := base.Diff(tt.other); !slices.Equal(got, tt.want) {
			t.Errorf("Diff = %v, want %v", got, tt.want)
		}
		if base.Equal(tt.other) != (len(tt.want) == 0) {
			t.Errorf("Equal disagrees with Diff %v", tt.want)
		}
	}
	var unset, empty Fingerprint
	unset.Set("time", nil)
	empty.Set("time", []byte{})
	if unset.Equal(empty) || !slices.Equal(unset.Diff(empty), []string{"time"}) {
		t.Error("an unset field must differ from an empty one")
	}
}

func TestKeys(t *testing.T) {
	id, err := ParseID("0197F5C0-0000-7000-8000-00000000ABCD")
	if err != nil || id.String() != "0197f5c0-0000-7000-8000-00000000abcd" || id.IsZero() {
		t.Fatalf("%s, %v", id, err)
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 678_901_999, time.FixedZone("x", 3600))
	if got := Micros(at); got.Nanosecond() != 678_901_000 || got.Location() != time.UTC || got.Hour() != 2 {
		t.Errorf("Micros returned %v", got)
	}
}

func FuzzParseID(f *testing.F) {
	f.Add("0197f5c0-0000-7000-8000-00000000abcd")
	f.Add("0197f5c0-0000-7000-8000-00000000abc")
	f.Add("")
	f.Fuzz(func(t *testing.T, s string) {
		id, err := ParseID(s)
		if err != nil {
			if !errors.Is(err, ErrBadID) || !id.IsZero() {
				t.Fatalf("%v with %v", err, id)
			}
			return
		}
		if back, err := ParseID(id.String()); err != nil || back != id {
			t.Fatalf("%q became %s and %s: %v", s, id, back, err)
		}
	})
}

func FuzzParseFingerprint(f *testing.F) {
	var fp Fingerprint
	fp.Set("payload", []byte("p"))
	f.Add(fp.Bytes())
	f.Add([]byte{})
	f.Add([]byte{canonVersion, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01})
	f.Fuzz(func(t *testing.T, b []byte) {
		fp, err := ParseFingerprint(b)
		if err != nil {
			if !errors.Is(err, ErrBadFingerprint) {
				t.Fatal(err)
			}
			return
		}
		back, err := ParseFingerprint(fp.Bytes())
		if err != nil || !back.Equal(fp) {
			t.Fatalf("%x: %v", b, err)
		}
	})
}

// FuzzCanonInjective builds two lists of fields from the input. Their encodings
// must be equal exactly when the lists are.
func FuzzCanonInjective(f *testing.F) {
	f.Add([]byte("a"), []byte("bc"), []byte("ab"), []byte("c"), uint8(3))
	f.Add([]byte{}, []byte{}, []byte{}, []byte{0}, uint8(0))
	f.Add([]byte("n"), []byte("\x01x\x01y"), []byte("n"), []byte{}, uint8(1))
	f.Fuzz(func(t *testing.T, n1, v1, n2, v2 []byte, shape uint8) {
		lists := [][][2][]byte{{{n1, v1}, {n2, v2}}, {{n2, v2}, {n1, v1}}, {{n1, v1}}, {{n2, v2}}, {{n1, v2}}, {{n2, v1}}, {}}
		one, two := lists[int(shape)%len(lists)], lists[int(shape/8)%len(lists)]
		alike := slices.EqualFunc(one, two, func(a, b [2][]byte) bool {
			return bytes.Equal(a[0], b[0]) && bytes.Equal(a[1], b[1])
		})
		if got := bytes.Equal(encode(one), encode(two)); got != alike {
			t.Fatalf("%q and %q: alike %t, encoded alike %t", one, two, alike, got)
		}
	})
}

func encode(fields [][2][]byte) []byte {
	c := NewCanon()
	for _, f := range fields {
		c.Field(string(f[0]), f[1])
	}
	return c.Bytes()
}

// TestNames checks that every value of every enum has a name of its own.
func TestNames(t *testing.T) {
	for what, names := range map[string][]string{
		"state": stateNames[:], "class": classNames[:], "policy": deliveryNames[:], "kind": kindNames[:],
		"result": resultNames[:], "proof": proofNames[:], "ruling": rulingNames[:], "cause": causeNames[:], "verdict": verdictNames[:],
	} {
		seen := map[string]bool{}
		for i, n := range names {
			if (n == "") != (i == 0) || seen[n] {
				t.Errorf("%s %d is called %q", what, i, n)
			}
			seen[n] = true
		}
	}
	if Class(0).String() != "UNSPECIFIED" || Cause(200).String() != "UNSPECIFIED" || State(99).String() != "NONE" {
		t.Error("a value without a name is not UNSPECIFIED or NONE")
	}
}

// TestFingerprintAliases checks that an alias that both sides have makes the field equal,
// that an alias of one side only is ignored, and that no alias is reported as a difference.
func TestFingerprintAliases(t *testing.T) {
	of := func(value, alias string) (f Fingerprint) {
		f.Set("a", []byte(value))
		f.Set("b", []byte("same"))
		if alias != "" {
			f.Alias("a", []byte(alias))
		}
		return f
	}
	for name, tt := range map[string]struct {
		f, g Fingerprint
		same bool
	}{
		"another value under the same alias":   {of("1", "x"), of("2", "x"), true},
		"the same value under another alias":   {of("1", "x"), of("1", "y"), true},
		"the same value, one without an alias": {of("1", "x"), of("1", ""), true},
		"another value and alias":              {of("1", "x"), of("2", "y"), false},
		"another value, one without an alias":  {of("1", "x"), of("2", ""), false},
	} {
		for _, pair := range [][2]Fingerprint{{tt.f, tt.g}, {tt.g, tt.f}} {
			stored, err := ParseFingerprint(pair[1].Bytes())
			if err != nil {
				t.Fatal(err)
			}
			want := []string{"a"}
			if tt.same {
				want = nil
			}
			if got := pair[0].Diff(stored); !slices.Equal(got, want) || pair[0].Equal(stored) != tt.same {
				t.Errorf("%s: differ in %v", name, got)
			}
		}
	}
}
