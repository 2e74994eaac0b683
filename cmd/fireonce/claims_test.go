package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// claimsNothing matches what only a database that was never restored could know of a job.
var claimsNothing = regexp.MustCompile(`(?i)nothing (was|has been) sent|(was|were|has|have)( been)? (never|not) (been )?sent\b|(was|been) never sent\b`)

// aboutLess are texts of the program that match, and are about less than a job's whole past.
var aboutLess = map[string]string{
	"an intent could not be confirmed; nothing was sent":                                                        "a log line about one attempt",
	"shut down with an unconfirmed intent; nothing was sent, and the attempt is given up when its time is over": "a log line about one attempt",
	"the receiver may have forgotten the key before this repeat ends; it was not sent":                          "about the repeat",
	"the content is there already; it was not sent again":                                                       "about a repeat, of a job with a known attempt",
	"the last part of the video was not sent whole":                                                             "about one request",
	"Settings and credential have the right form. Nothing was sent to the target.":                              "about a check",
}

// TestNoTextClaimsThatNothingWasSent: after a restore an effect may exist of which the database knows no
// attempt. So no text of the program states of a job that nothing was sent: a person who reads that
// rules RESEND, and it happens twice. A text about one try says so.
func TestNoTextClaimsThatNothingWasSent(t *testing.T) {
	if crashRun {
		t.Skip("needs no failpoints")
	}
	t.Parallel()
	root := filepath.Join("..", "..")
	used, files := make(map[string]bool), 0
	for _, name := range tracked(t, root, "cmd/*.go", "internal/*.go", "server/*.go", "store/*.go") {
		if strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "internal/proof/") {
			continue
		}
		files++
		parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, name), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			lit, ok := n.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				return true
			}
			text, err := strconv.Unquote(lit.Value)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			switch {
			case aboutLess[text] != "":
				used[text] = true
			case claimsNothing.MatchString(text):
				t.Errorf("%s: %q", name, text)
			}
			return true
		})
	}
	if files < 300 {
		t.Errorf("only %d files", files)
	}
	for text := range aboutLess {
		if !used[text] {
			t.Errorf("no text is %q any more", text)
		}
	}
}
