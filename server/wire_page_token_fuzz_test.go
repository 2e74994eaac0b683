package server

import (
	"testing"

	"github.com/fireonce/fireonce/internal/job"
)

// FuzzParsePlace: a token that is read would be written as the same text; other texts are
// refused.
func FuzzParsePlace(f *testing.F) {
	for _, p := range []token{
		{kind: logCursor, owner: [ownerLen]byte{1}, incarnation: 7, at: 42},
		{kind: jobCursor, id: job.ID{9, 15: 9}, incarnation: 1<<63 - 1, at: 1<<63 - 1},
		{kind: bulkPages, id: job.ID{1}, at: 1},
	} {
		f.Add(p.String())
		if got, err := parseToken(p.String()); err != nil || got != p {
			f.Errorf("%+v is read as %+v, %v", p, got, err)
		}
	}
	f.Add("")
	f.Add("AgQ")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := parseToken(text)
		if err != nil {
			if p != (token{}) {
				t.Errorf("%q is refused and returns %+v", text, p)
			}
			return
		}
		if p.String() != text || p.at < 0 || p.incarnation < 0 {
			t.Errorf("%q is read as %+v, which is written %q", text, p, p)
		}
	})
}
