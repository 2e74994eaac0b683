package tiktok

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Every size is cut by the rules of the Media Transfer Guide, in whatever sense of
// MB, and the parts are the whole.
func TestCut(t *testing.T) {
	const mb, mib = 1_000_000, 1 << 20
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.OneOf(rapid.Int64Range(1, 200*mb), rapid.Int64Range(1, 4<<30),
			rapid.SampledFrom([]int64{1, 5 * mb, 5 * mib, wholeFile, wholeFile + 1, 64 * mib, 3 * chunkSize, 4<<30 - 1})).Draw(t, "size")
		c := cut(size)
		if c.size != size || c.count < 1 || c.count > 1000 || c.count != size/c.chunk {
			t.Fatalf("%+v", c)
		}
		if c.count > 1 && c.chunk < 5*mib || c.chunk > 64*mb || size < 5*mib && c.count != 1 {
			t.Fatalf("%+v", c)
		}
		at := int64(0)
		for i := range c.count {
			from, n := c.part(i)
			if from != at || n < 1 || i < c.count-1 && n != c.chunk || n > 128*mb {
				t.Fatalf("part %d of %+v: %d from %d", i, c, n, from)
			}
			at += n
		}
		if at != size {
			t.Fatalf("%+v ends at %d", c, at)
		}
	})
	if got, want := cut(70_000_001).header(1), "bytes 32000000-70000000/70000001"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// FuzzHandle: a name from the database is read as it was written, or not at all.
func FuzzHandle(f *testing.F) {
	f.Add("v_pub_file~v2-1.123456789")
	f.Add("v_pub_file~v2-1.123456789 1000 1763712000")
	f.Add("a 1 2 3")
	f.Add(" 1 2")
	f.Fuzz(func(t *testing.T, text string) {
		h, err := parseHandle(text)
		if err != nil {
			return
		}
		if h.id == "" || h.size < 0 || (h.size == 0) != h.ends.IsZero() {
			t.Fatalf("%q is read as %+v", text, h)
		}
		again, err := parseHandle(h.String())
		if err != nil || again.id != h.id || again.size != h.size || !again.ends.Equal(h.ends) {
			t.Fatalf("%q is read as %+v, and then as %+v, %v", text, h, again, err)
		}
	})
}

func TestHandle(t *testing.T) {
	h := handle{"v~1", 5, time.Unix(100, 0)}
	if h.String() != "v~1 5 100" || (handle{id: "v~1"}).String() != "v~1" {
		t.Error(h.String())
	}
	for _, bad := range []string{"", " ", "a ", "a b c", "a 0 1", "a -1 1", "a 1 -1", "a 1", "a 1 2 3", "ä"} {
		if _, err := parseHandle(bad); err == nil {
			t.Errorf("%q is read", bad)
		}
	}
}

// FuzzThaw: a post from the database is one that could be sent, and is frozen to the
// same bytes again, or it is refused.
func FuzzThaw(f *testing.F) {
	c := content{Source: sourceUpload, Text: "a", Privacy: selfOnly, Media: []media{{URL: "https://a/b"}}}
	f.Add(c.freeze())
	c.Source, c.Photo = sourcePull, true
	f.Add(c.freeze())
	f.Fuzz(func(t *testing.T, frozen []byte) {
		c, err := thaw(frozen)
		if err != nil {
			return
		}
		again, err := thaw(c.freeze())
		if err != nil || !bytes.Equal(again.freeze(), c.freeze()) {
			t.Fatalf("%+v, then %+v, %v", c, again, err)
		}
		_, body := c.begin(cut(1))
		if _, err := json.Marshal(body); err != nil {
			t.Fatal(err)
		}
	})
}
