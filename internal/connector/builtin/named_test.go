package builtin_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/fireonce/fireonce/internal/connector/builtin"
)

const (
	root   = "../../.."
	module = "github.com/fireonce/fireonce/"
)

// notProduction are folders without production code of the service. The campaign and the benches
// have platforms of their own, so that the judge shares no list with the program that it judges.
var notProduction = []string{
	"clients", "examples", "gen", "internal/connector/builtin", "internal/oauth/live", "internal/proof", "internal/redact/redacttest",
	"store/storetest", "tools",
}

// exceptions are the other files that name a platform, each with its reason.
var exceptions = map[string]string{
	"server/connections_destination.go":     "a relay's settings name a host and a port, and no URL; where a secret goes is not guessed",
	"cmd/fireonce/internal/demo/trial.go":   "the demo sends webhooks to a receiver of its own",
	"cmd/fireonce/internal/sandbox/mail.go": "the relay speaks SMTP; the sandbox loses its answers inside of the dialogue",
	"cmd/fireonce/internal/node/try.go":     "serve --dev offers a connection to its own receiver, which takes webhooks",
	"internal/notice/carry.go":              "a notice is a webhook for programs, and words in a message or a mail for people",
}

// TestNothingElseNamesAPlatform: outside of a platform's own package and of the two lists, no
// production code imports a platform, uses its messages of the contract, or has its name as a
// text.
func TestNothingElseNamesAPlatform(t *testing.T) {
	t.Parallel()
	packages := platformPackages(t)
	var names []string
	for _, p := range builtin.Platforms {
		// These two are also a kind of payload and a protocol.
		if p.Name != "webhook" && p.Name != "http" {
			names = append(names, strconv.Quote(p.Name), strconv.Quote(p.Title))
		}
	}
	messages := regexp.MustCompile(`^((X|Mastodon|Bluesky|Slack|TikTok|Smtp|Feed|Http|Webhook)(Settings|Options)(_.*)?|(Connection|SocialPost)_(X|Mastodon|Bluesky|Slack|Tiktok|Smtp|Feed|Http|Webhook))$`)
	naming := make(map[string][]string)
	read := 0
	eachFile(t, packages, func(path string, file *ast.File) {
		read++
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ImportSpec:
				if name := importOf(n); slices.ContainsFunc(packages, func(p string) bool { return name == p || strings.HasPrefix(name, p+"/") }) {
					naming[path] = append(naming[path], name)
				}
				return false
			case *ast.SelectorExpr:
				if messages.MatchString(n.Sel.Name) {
					naming[path] = append(naming[path], n.Sel.Name)
				}
			case *ast.BasicLit:
				if slices.Contains(names, n.Value) {
					naming[path] = append(naming[path], n.Value)
				}
			}
			return true
		})
	})
	for path, found := range naming {
		if exceptions[path] == "" {
			t.Errorf("%s names a platform: %q", path, found)
		}
	}
	for path := range exceptions {
		if naming[path] == nil {
			t.Errorf("%s names no platform, and needs no exception", path)
		}
	}
	if read < 300 {
		t.Errorf("%d files were read", read)
	}
}

// platformPackages are the packages that the list imports.
func platformPackages(t *testing.T) (out []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "builtin.go", nil, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range file.Imports {
		if name := importOf(i); name != "internal/connector/platform" {
			out = append(out, name)
		}
	}
	if len(out) != len(builtin.Platforms) {
		t.Fatalf("%d packages of %d platforms", len(out), len(builtin.Platforms))
	}
	return out
}

func importOf(i *ast.ImportSpec) string {
	name, _ := strconv.Unquote(i.Path.Value) // the parser has read it
	return strings.TrimPrefix(name, module)
}

// eachFile parses each production file outside of the platforms' packages.
func eachFile(t *testing.T, packages []string, each func(path string, file *ast.File)) {
	t.Helper()
	set := token.NewFileSet()
	if err := filepath.WalkDir(root, func(full string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		path, err := filepath.Rel(root, full)
		if err != nil {
			return err
		}
		path = filepath.ToSlash(path)
		switch {
		case d.IsDir() && (len(path) > 1 && path[0] == '.' || d.Name() == "node_modules" || d.Name() == "testdata"):
			return fs.SkipDir
		case d.IsDir() && (slices.Contains(notProduction, path) || slices.Contains(packages, path)):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(set, full, nil, parser.SkipObjectResolution)
		if err == nil {
			each(path, file)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}
