package main

import (
	"strings"
	"testing"
)

// TestListParses reads the list as the command does, and wants every entry to match what it
// stands for.
func TestListParses(t *testing.T) {
	refused, err := parse(list)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"it tells whether", "Whoever asks", "claims at once", "behaviour", "they are told"} {
		found := false
		for _, r := range refused {
			found = found || r.pattern.MatchString(text)
		}
		if !found {
			t.Errorf("nothing in the list refuses %q", text)
		}
	}
	if _, err := parse("word without advice"); err == nil {
		t.Error("a line without a tab parses")
	}
}

// TestProse wants comments and text, and neither code nor the addresses in it.
func TestProse(t *testing.T) {
	tests := map[string]struct{ file, content, want string }{
		"whole line":      {"a.go", "// one\ncode() // two\n", " one| two"},
		"address in code": {"a.go", `get("http://host")`, ""},
		"sql":             {"a.sql", "SELECT 1; -- three\n", " three"},
		"markdown":        {"a.md", "text `code` text\n```\ncode\n```\nend\n", "text `` text|end"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, l := range proseOf(tt.file)(tt.content) {
				got = append(got, l.text)
			}
			if s := strings.Join(got, "|"); s != tt.want {
				t.Errorf("prose of %q is %q, want %q", tt.content, s, tt.want)
			}
		})
	}
	for _, file := range []string{"gen/pgdb/jobs.sql.go", "internal/job/testdata/x.md", "clients/go/fireoncev1/jobs.pb.go"} {
		if !excluded(file) {
			t.Errorf("%s is checked", file)
		}
	}
	if proseOf("a.json") != nil || excluded("server/jobs.go") {
		t.Error("the wrong files are left out")
	}
}
