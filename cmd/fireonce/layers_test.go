package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	lintFiles  = regexp.MustCompile(`^ +files: \[(.*)\]$`)
	lintQuoted = regexp.MustCompile(`"([^"]+)"`)
	lintOwn    = regexp.MustCompile(`\bgithub\.com/fireonce/fireonce(/[A-Za-z0-9_/.-]*)?`)
	lintPath   = regexp.MustCompile(`^ +- path: (\S+)$`)
)

// TestLayersAreThere: each pattern of files and each package of ours in the linter's
// configuration is in the repository. A rule whose folder was renamed would hold nothing.
func TestLayersAreThere(t *testing.T) {
	if crashRun {
		t.Skip("needs no failpoints")
	}
	t.Parallel()
	root := filepath.Join("..", "..")
	text, err := os.ReadFile(filepath.Join(root, ".golangci.yml"))
	if err != nil {
		t.Fatal(err)
	}
	files := tracked(t, root, "*.go")
	for i, name := range files {
		files[i] = "/" + name // patterns are for absolute paths
	}
	matchesNone := func(pattern *regexp.Regexp) bool {
		for _, name := range files {
			if pattern.MatchString(name) {
				return false
			}
		}
		return true
	}
	patterns, packages := 0, 0
	for number, line := range strings.Split(string(text), "\n") {
		if found := lintFiles.FindStringSubmatch(line); found != nil {
			for _, quoted := range lintQuoted.FindAllStringSubmatch(found[1], -1) {
				pattern := strings.TrimPrefix(quoted[1], "!")
				if strings.HasPrefix(pattern, "$") { // $all and $test are the linter's own
					continue
				}
				patterns++
				if matchesNone(globbed(pattern)) {
					t.Errorf(".golangci.yml:%d: no file is like %s", number+1, pattern)
				}
			}
		}
		if found := lintPath.FindStringSubmatch(line); found != nil {
			patterns++
			if matchesNone(regexp.MustCompile(found[1])) {
				t.Errorf(".golangci.yml:%d: no file is like %s", number+1, found[1])
			}
		}
		for _, found := range lintOwn.FindAllStringSubmatch(line, -1) {
			packages++
			if info, err := os.Stat(filepath.Join(root, filepath.FromSlash(found[1]))); err != nil || !info.IsDir() {
				t.Errorf(".golangci.yml:%d: no folder %s", number+1, found[1])
			}
		}
	}
	if patterns < 40 || packages < 80 {
		t.Errorf("%d patterns and %d packages: the configuration is not as this test reads it", patterns, packages)
	}
}

// globbed is a pattern of depguard's as an expression: * stays in one folder, ** does not.
func globbed(pattern string) *regexp.Regexp {
	expression := regexp.QuoteMeta(pattern)
	expression = strings.ReplaceAll(expression, `\*\*`, ".*")
	expression = strings.ReplaceAll(expression, `\*`, "[^/]*")
	return regexp.MustCompile("^" + expression + "$")
}
