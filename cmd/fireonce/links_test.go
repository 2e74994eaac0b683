package main

import (
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

var (
	codeFence  = regexp.MustCompile("(?ms)^ *```.*?^ *```[^\n]*$")
	inlineCode = regexp.MustCompile("`[^`\n]*`")
	mdLink     = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	mdHeading  = regexp.MustCompile(`(?m)^#{1,6} +(.+?) *$`)
	// In code and scripts: a page of the repository's, and an anchor in it.
	codeAnchor = regexp.MustCompile(`\b((?:docs/[a-z/-]+|internal/proof/bench/README|[A-Z]{5,})\.md)#([a-z0-9-]+)`)
)

// TestLinks checks that every relative link of every page leads to a file of the repository,
// and every anchor to a heading of it. It checks those in comments and messages too.
func TestLinks(t *testing.T) {
	if crashRun {
		t.Skip("needs no failpoints")
	}
	t.Parallel()
	root := filepath.Join("..", "..")
	pages := make(map[string]map[string]bool) // the anchors of each
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	names := tracked(t, root, "*.md")
	for _, name := range names {
		pages[name] = anchors(read(name))
	}
	if len(pages) < 30 {
		t.Fatalf("%d pages", len(pages))
	}
	lead := func(from, to, anchor string) {
		if _, err := os.Stat(filepath.Join(root, to)); err != nil {
			t.Errorf("%s: no %s", from, to)
		} else if anchor != "" && !pages[to][anchor] {
			t.Errorf("%s: %s has no heading #%s", from, to, anchor)
		}
	}
	links := 0
	for _, name := range names {
		text := inlineCode.ReplaceAllString(codeFence.ReplaceAllString(read(name), ""), "")
		for _, found := range mdLink.FindAllStringSubmatch(text, -1) {
			u, err := url.Parse(found[1])
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if u.Scheme != "" {
				continue
			}
			to := name
			if u.Path != "" {
				to = filepath.Join(filepath.Dir(name), u.Path)
			}
			lead(name, to, u.Fragment)
			links++
		}
	}
	if links < 100 {
		t.Errorf("%d links", links)
	}
	for _, name := range tracked(t, root, "*.go", "*.proto", "*.txtar", "*.yaml", "*.yml", "Makefile", ".ci/*") {
		if strings.HasPrefix(name, "gen/") || strings.HasPrefix(name, "proto/buf/") || strings.HasPrefix(name, "proto/google/") {
			continue
		}
		for _, found := range codeAnchor.FindAllStringSubmatch(read(name), -1) {
			lead(name, found[1], found[2])
		}
	}
}

// TestDecisions checks that docs/design.md lists every page of docs/decisions and every decision
// there, once, and that no page is longer than about a page of paper.
func TestDecisions(t *testing.T) {
	if crashRun {
		t.Skip("needs no failpoints")
	}
	t.Parallel()
	root := filepath.Join("..", "..")
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	index := make(map[string][]string)
	for _, row := range regexp.MustCompile(`(?m)^\| \[[^]]+\]\((decisions/[a-z-]+\.md)\) \| (.*) \|$`).FindAllStringSubmatch(read("docs/design.md"), -1) {
		index["docs/"+row[1]] = strings.Split(row[2], " · ")
	}
	pages := tracked(t, root, "docs/decisions/*")
	if len(pages) < 40 || len(pages) != len(index) {
		t.Fatalf("%d pages, %d in the index", len(pages), len(index))
	}
	for _, page := range pages {
		text := read(page)
		if lines := strings.Count(text, "\n"); lines > 62 {
			t.Errorf("%s has %d lines: divide it", page, lines)
		}
		var decisions []string
		for _, heading := range regexp.MustCompile(`(?m)^## (.*)$`).FindAllStringSubmatch(text, -1) {
			decisions = append(decisions, heading[1])
		}
		if !slices.Equal(index[page], decisions) {
			t.Errorf("docs/design.md lists for %s\n%q\nand the page has\n%q", page, index[page], decisions)
		}
	}
}

// anchors returns the anchors of a page's headings on GitHub.
func anchors(page string) map[string]bool {
	all := make(map[string]bool)
	for _, h := range mdHeading.FindAllStringSubmatch(codeFence.ReplaceAllString(page, ""), -1) {
		var b strings.Builder
		for _, r := range strings.ToLower(h[1]) {
			switch {
			case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
				b.WriteRune(r)
			case r == ' ':
				b.WriteByte('-')
			}
		}
		all[b.String()] = true
	}
	return all
}

// tracked lists the files that belong to the repository, new ones too, by git's patterns.
func tracked(t *testing.T, root string, patterns ...string) []string {
	t.Helper()
	cmd := exec.CommandContext(waiting(t), "git", append([]string{"ls-files", "--cached", "--others", "--exclude-standard", "--"}, patterns...)...)
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Skipf("git lists the repository's files: %v", err)
	}
	var names []string
	for _, name := range strings.Fields(string(out)) {
		if _, err := os.Stat(filepath.Join(root, name)); err == nil { // its deletion may not be committed yet
			names = append(names, name)
		}
	}
	return names
}

// TestArchitecture checks that ARCHITECTURE.md names each package and each directory of the
// repository, and nothing that does not exist.
func TestArchitecture(t *testing.T) {
	if crashRun {
		t.Skip("needs no failpoints")
	}
	t.Parallel()
	root := filepath.Join("..", "..")
	text, err := os.ReadFile(filepath.Join(root, "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	named := make(map[string]bool)
	_, tables, _ := strings.Cut(string(text), "\n## Packages\n")
	for _, row := range regexp.MustCompile("(?m)^\\| `.*$").FindAllString(tables, -1) {
		cell, _, _ := strings.Cut(strings.TrimPrefix(row, "|"), "|")
		for _, name := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cell, -1) {
			if named[name[1]] {
				t.Errorf("%s is named twice", name[1])
			}
			named[name[1]] = true
			if info, err := os.Stat(filepath.Join(root, name[1])); err != nil || !info.IsDir() {
				t.Errorf("no folder %s", name[1])
			}
		}
	}
	list := exec.CommandContext(waiting(t), "go", "list", "-f", "{{.Dir}}", "./...")
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	top, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	dirs := strings.Fields(string(out))
	for _, name := range tracked(t, root, "*") {
		if first, _, nested := strings.Cut(name, "/"); nested && !strings.HasPrefix(first, ".") {
			dirs = append(dirs, filepath.Join(top, first))
		}
	}
	if len(dirs) < 70 {
		t.Fatalf("%d packages", len(dirs))
	}
	missing := make(map[string]bool)
	for _, dir := range dirs {
		name, err := filepath.Rel(top, dir)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(name, "gen/") || named[name] || missing[name] {
			continue // generated code
		}
		found := !strings.Contains(name, "/") && anyBelow(named, name)
		if !found {
			missing[name] = true
			t.Errorf("ARCHITECTURE.md does not say what %s does", name)
		}
	}
}

// anyBelow reports whether a folder in dir is named.
func anyBelow(named map[string]bool, dir string) bool {
	for name := range named {
		if strings.HasPrefix(name, dir+"/") {
			return true
		}
	}
	return false
}
