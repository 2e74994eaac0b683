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

// TestStaleNames wants every comment that begins with another name than its declaration's, and
// no other one.
func TestStaleNames(t *testing.T) {
	tests := map[string]string{
		"// forgetReady drops a row.\nfunc forgetRunnable() {}":            `"forgetReady" begins a comment of forgetRunnable`,
		"// ready updates rows.\nfunc runnable() {}":                       `"ready" begins a comment of runnable`,
		"// NewEgress refuses.\nfunc TestEgress() {}":                      `"NewEgress" begins a comment of TestEgress`,
		"// answer is one.\ntype callAnswer struct{}":                      `"answer" begins a comment of callAnswer`,
		"var (\n\t// old is one.\n\ta, b = 1, 2\n)":                        `"old" begins a comment of a, b`,
		"type t struct {\n\t// ready has rows.\n\trunnable, rest int\n}":   `"ready" begins a comment of runnable, rest`,
		"// forget drops a row.\nfunc forget() {}":                         "",
		"// SQLite's own.\nfunc f() {}":                                    "",
		"// What comes first.\nfunc f() {}":                                "",
		"// Deprecated: gone.\nfunc f() {}":                                "",
		"const (\n\t// low and high are bounds.\n\tlow = 1\n\thigh = 2\n)": "",
		"type t struct {\n\t// world is embedded.\n\tworld\n}":             "",
	}
	for content, want := range tests {
		got, err := staleNames("a.go", "package a\n\n"+content+"\n")
		if err != nil {
			t.Fatal(err)
		}
		text := ""
		for _, g := range got {
			text += g.text
		}
		if text != want {
			t.Errorf("%q: %q, want %q", content, text, want)
		}
	}
}
