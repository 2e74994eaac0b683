// Command words checks the project's prose for words that words.txt refuses: comments of Go,
// Protocol Buffers and SQL, and Markdown outside code; and the comments of Go's declarations for
// names that were renamed. It prints each place and what to write instead, and fails if there
// is one.
//
//	go run ./tools/words [file or folder ...]
//
// Without arguments it checks every file that git tracks.
package main

import (
	"bufio"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

//go:embed words.txt
var list string

func main() {
	flag.Parse()
	n, err := run(os.Stdout, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "words:", err)
		os.Exit(2)
	}
	if n > 0 {
		fmt.Fprintf(os.Stderr, "words: %d places; tools/words has the rules\n", n)
		os.Exit(1)
	}
}

// run checks files and returns how many places it printed.
func run(out io.Writer, under []string) (int, error) {
	refused, err := parse(list)
	if err != nil {
		return 0, err
	}
	files, err := tracked(under)
	if err != nil {
		return 0, err
	}
	n := 0
	for _, file := range files {
		prose := proseOf(file)
		if prose == nil || excluded(file) {
			continue
		}
		content, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) {
			continue // deleted and not committed
		}
		if err != nil {
			return n, err
		}
		stale, err := staleNames(file, string(content))
		if err != nil {
			return n, err
		}
		for _, s := range stale {
			n++
			fmt.Fprintf(out, "%s:%d: %s\n", file, s.number, s.text)
		}
		for _, l := range prose(string(content)) {
			for _, r := range refused {
				if found := r.pattern.FindString(l.text); found != "" {
					n++
					fmt.Fprintf(out, "%s:%d: %q: %s\n", file, l.number, found, r.advice)
				}
			}
		}
	}
	return n, nil
}

// refusal is one line of words.txt.
type refusal struct {
	pattern *regexp.Regexp
	advice  string
}

// parse reads lines of a pattern, a tab and what to write instead. Patterns match whole words
// in any case.
func parse(list string) ([]refusal, error) {
	var out []refusal
	for line := range strings.Lines(list) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		pattern, advice, ok := strings.Cut(line, "\t")
		if !ok {
			return nil, fmt.Errorf("words.txt: %q has no tab", line)
		}
		re, err := regexp.Compile(`(?i)\b(?:` + pattern + `)\b`)
		if err != nil {
			return nil, fmt.Errorf("words.txt: %w", err)
		}
		out = append(out, refusal{re, strings.TrimSpace(advice)})
	}
	return out, nil
}

// tracked returns the files that git tracks, those under some paths or all.
func tracked(under []string) ([]string, error) {
	out, err := exec.Command("git", append([]string{"ls-files", "-z", "--"}, under...)...).Output() //nolint:noctx,gosec // it ends soon, and its arguments are paths
	if err != nil {
		return nil, fmt.Errorf("git ls-files: %w", err)
	}
	return strings.FieldsFunc(string(out), func(r rune) bool { return r == 0 }), nil
}

// excluded reports whether others, a program or a golden test writes a file.
func excluded(file string) bool {
	for _, part := range []string{"gen/", "proto/buf/", "proto/google/", "/testdata/", "tools/words/"} {
		if strings.HasPrefix(file, part) || strings.HasPrefix(part, "/") && strings.Contains(file, part) {
			return true
		}
	}
	return strings.HasSuffix(file, ".pb.go") || strings.HasSuffix(file, ".connect.go")
}

// line is the prose of one line of a file.
type line struct {
	number int
	text   string
}

// proseOf returns what finds the prose in a file of this kind; nil: the kind has none.
func proseOf(file string) func(string) []line {
	switch filepath.Ext(file) {
	case ".go":
		return comments("//")
	case ".proto":
		return comments("//")
	case ".sql":
		return comments("--")
	case ".md":
		return markdown
	default:
		return nil
	}
}

// comments finds comments that are whole lines or follow code. A marker in a string counts as
// a comment, which does no harm in prose.
func comments(marker string) func(string) []line {
	return func(content string) (out []line) {
		eachLine(content, func(n int, text string) {
			if at := strings.Index(text, marker); at == 0 || at > 0 && text[at-1] != ':' && text[at-1] != '"' {
				out = append(out, line{n, text[at+len(marker):]})
			}
		})
		return out
	}
}

var code = regexp.MustCompile("`[^`]*`")

// markdown finds text outside code.
func markdown(content string) (out []line) {
	fenced := false
	eachLine(content, func(n int, text string) {
		if strings.HasPrefix(strings.TrimSpace(text), "```") {
			fenced = !fenced
			return
		}
		if !fenced {
			out = append(out, line{n, code.ReplaceAllString(text, "``")})
		}
	})
	return out
}

func eachLine(content string, each func(n int, text string)) {
	s := bufio.NewScanner(strings.NewReader(content))
	s.Buffer(nil, len(content)+1)
	for n := 1; s.Scan(); n++ {
		each(n, s.Text())
	}
}
