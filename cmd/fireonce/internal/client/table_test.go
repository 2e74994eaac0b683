package client

import (
	"bytes"
	"testing"
)

func TestTable(t *testing.T) {
	rows := func() [][]string {
		return [][]string{{"KEY", "STATE", "NOTE"}, {"日本", "SUCCEEDED", ""}, {"a\x1b[2J", "FAILED", "x"}, {"", "SUCCEEDED, proof", "y"}}
	}
	for name, c := range map[string]struct {
		p    printer
		want string
	}{
		"plain": {want: "KEY    STATE             NOTE\n" +
			"日本   SUCCEEDED\n" +
			"a [2J  FAILED            x\n" +
			"       SUCCEEDED, proof  y\n"},
		"headless": {p: printer{headless: true}, want: "日本   SUCCEEDED\n" +
			"a [2J  FAILED            x\n" +
			"       SUCCEEDED, proof  y\n"},
		"colors": {p: printer{color: true}, want: "\x1b[1mKEY\x1b[0m    \x1b[1mSTATE\x1b[0m             \x1b[1mNOTE\x1b[0m\n" +
			"日本   \x1b[32mSUCCEEDED\x1b[0m\n" +
			"a [2J  \x1b[31mFAILED\x1b[0m            x\n" +
			"       \x1b[32mSUCCEEDED\x1b[0m, proof  y\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			c.p.w = &out
			c.p.table(rows())
			if out.String() != c.want {
				t.Errorf("%q\nnot\n%q", out.String(), c.want)
			}
		})
	}
}
