package main

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Pages of which tests run every block as it is printed, unless the page states why not.
const (
	readmePage     = "README.md"
	quickstartPage = "docs/quickstart.md"
	accountsPage   = "docs/accounts.md"
	conceptsPage   = "docs/concepts.md"
	givingUpPage   = "docs/giving-up.md"
	receivePage    = "docs/receive-once.md"
	upgradePage    = "docs/upgrade.md"
	comingFromPage = "docs/coming-from.md"
	productionPage = "docs/production.md"
	toldPage       = "docs/told.md"
)

// marker is the comment before a block. It names the test that runs it.
type marker string

const (
	readmeStarts   marker = "readme_test.go starts these"
	readmeRuns     marker = "readme_test.go runs this block"
	readmeCompares marker = "readme_test.go compares this output"
	readmeReceives marker = "readme_test.go compares this with what the receiver prints"
	readmeServes   marker = "readme_test.go compares this with what the server prints"
	readmePictures marker = "a picture"
	sandboxStarts  marker = "sandbox_test.go starts this"
	sandboxRuns    marker = "sandbox_test.go runs this block"
	accountsRuns   marker = "accounts_test.go runs this block"
	threadRuns     marker = "thread_test.go runs this block" // with failpoints

	productionRuns     marker = "production_test.go runs this block"
	productionRunsOn   marker = "production_test.go runs this block after the start"
	productionSettings marker = "production_test.go writes this file"
	productionStarts   marker = "production_test.go starts the server in its place"
	productionCompares marker = "production_test.go compares this output"
	productionChecks   marker = "production_test.go checks this file with promtool"

	upgradeSQLite    marker = "upgrade_test.go runs this block on SQLite"
	upgradePostgres  marker = "upgrade_test.go runs this block on PostgreSQL"
	upgradeCompares  marker = "upgrade_test.go compares this output"
	rollbackSQLite   marker = "upgrade_test.go runs this block on SQLite, with the server stopped"
	rollbackPostgres marker = "upgrade_test.go runs this block on PostgreSQL, with the servers stopped"

	toldStarts   marker = "told_test.go starts these"
	toldRestarts marker = "told_test.go starts this in its place"
	toldRuns     marker = "told_test.go runs this block"
	toldCompares marker = "told_test.go compares this output"
	toldFinds    marker = "told_test.go finds each line in what the server prints"
	toldLinks    marker = "told_test.go starts this in its place, with a Slack and a mail relay of its own"
	toldPeople   marker = "told_test.go runs this block with that Slack and that relay"
	toldReads    marker = "told_test.go finds each line in the channel and in the mailbox"

	receiveGo         marker = "receive_test.go starts this in Go"
	receivePython     marker = "receive_test.go starts this in Python"
	receiveTypeScript marker = "receive_test.go starts this in TypeScript"
	receiveSecrets    marker = "receive_test.go makes the secret"
	receiveRuns       marker = "receive_test.go runs this block"
	receiveCompares   marker = "receive_test.go compares this output"
)

// consumed lists the markers of a page whose blocks tests run.
var consumed = map[string][]marker{
	readmePage:     {readmeStarts, readmeRuns, readmeCompares, readmeReceives, readmeServes, sandboxStarts, sandboxRuns},
	quickstartPage: {readmeStarts, readmeRuns, readmeCompares},
	accountsPage:   {sandboxStarts, sandboxRuns, accountsRuns, threadRuns},
	conceptsPage:   {readmeStarts, readmeRuns, readmeCompares, readmePictures},
	givingUpPage:   {readmeRuns},
	comingFromPage: {readmeStarts, readmeRuns},
	productionPage: {productionRuns, productionRunsOn, productionSettings, productionStarts, productionCompares, productionChecks},
	toldPage:       {toldStarts, toldRestarts, toldRuns, toldCompares, toldFinds, toldLinks, toldPeople, toldReads},
	upgradePage:    {upgradeSQLite, upgradePostgres, upgradeCompares, rollbackSQLite, rollbackPostgres},
	receivePage: {
		receiveGo, receivePython, receiveTypeScript, receiveSecrets, receiveRuns, receiveCompares,
		"from examples/receiver/events.go", "from examples/receiver-python/receiver.py", "from examples/receiver-typescript/src/receiver.ts",
	},
}

// notRun lists the first lines of the blocks that no test runs. The page states the reason for
// each.
var notRun = map[string][]string{
	readmePage: {"go run ./cmd/fireonce serve --dev   # the service on 127.0.0.1:8080, its data in fireonce.db; Ctrl-C ends it"},
	quickstartPage: {
		`printf '\0\0\0\0\2{}' | curl -sN http://127.0.0.1:8080/fireonce.v1.JobService/StreamJobEvents \`,
		`go run github.com/fullstorydev/grpcurl/cmd/grpcurl@v1.9.3 -plaintext -d '{"fromBeginning": true}' \`,
		"export FIREONCE_DATABASE='postgres://fireonce:secret@127.0.0.1:5432/fireonce' # as an argument every user of the machine could read it",
	},
	receivePage: {"DELETE FROM processed_events WHERE at < now() - interval '4 days';"},
	productionPage: {
		"CGO_ENABLED=0 go build -o /usr/bin/fireonce ./cmd/fireonce", "chown root:fireonce /etc/fireonce/*",
		"make snapshot && .ci/image dist/image",
	},
	toldPage:     {"git clone https://github.com/fireonce/fireonce && cd fireonce"},
	accountsPage: {"Valid. Nothing was stored; the platform and the credential were not asked."},
}

// snippet is a block of a page.
type snippet struct{ marker, language, text string }

var (
	fenceLine  = regexp.MustCompile("^ *```(.*)$")
	markerLine = regexp.MustCompile(`^ *<!-- (.*) -->$`)
)

// snippets reads the blocks of a page.
func snippets(t *testing.T, page string) (all []snippet) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", page))
	if err != nil {
		t.Fatal(err)
	}
	inside, before := false, ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		fence := fenceLine.FindStringSubmatch(line)
		switch {
		case fence != nil && inside:
			inside = false
		case fence != nil:
			inside = true
			s := snippet{language: fence[1]}
			if m := markerLine.FindStringSubmatch(before); m != nil {
				s.marker = m[1]
			}
			all = append(all, s)
		case inside:
			all[len(all)-1].text += line + "\n"
		}
		before = line
	}
	if inside {
		t.Fatalf("%s ends inside of a block", page)
	}
	return all
}

// marked returns the blocks of a page that follow a marker.
func marked(t *testing.T, page string, m marker) (texts []string) {
	t.Helper()
	for _, s := range snippets(t, page) {
		if s.marker == string(m) {
			texts = append(texts, s.text)
		}
	}
	if len(texts) == 0 {
		t.Fatalf("%s has no block with %q", page, m)
	}
	return texts
}

// TestSnippets checks that a test runs each block of the pages for beginners, or that the page
// states why none can.
func TestSnippets(t *testing.T) {
	if crashRun {
		t.Skip("needs no failpoints")
	}
	t.Parallel()
	for _, page := range slices.Sorted(maps.Keys(consumed)) {
		var left []string
		seen := make(map[marker]bool)
		for _, s := range snippets(t, page) {
			first, _, _ := strings.Cut(s.text, "\n")
			reason, none := strings.CutPrefix(s.marker, "not run by a test: ")
			switch {
			case none && reason != "":
				left = append(left, first)
			case !slices.Contains(consumed[page], marker(s.marker)):
				t.Errorf("%s: no test runs the block that begins with\n%s\nIts marker is %q: write which test runs it, or <!-- not run by a test: REASON --> and add it to this test's list", page, first, s.marker)
			}
			seen[marker(s.marker)] = true
		}
		for _, m := range consumed[page] {
			if !seen[m] {
				t.Errorf("%s has no block with %q any more", page, m)
			}
		}
		if !slices.Equal(left, notRun[page]) {
			t.Errorf("%s: no test runs\n%s\nand not\n%s", page, strings.Join(left, "\n"), strings.Join(notRun[page], "\n"))
		}
	}
}

// varying matches the parts of a command's output that differ from run to run.
var varying = []struct {
	pattern *regexp.Regexp
	as      string
}{
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "ID"},
	{regexp.MustCompile(`\d{4}-\d{2}-\d{2}`), "DATE"},
	{regexp.MustCompile(`\d{2}:\d{2}:\d{2}(\.\d+)?`), "TIME"},
	{regexp.MustCompile(`server-[0-9a-f]{10}`), "SERVER"},
	{regexp.MustCompile(`fo1_[a-z0-9]+`), "KEY"},
	{regexp.MustCompile(`inc_[a-z2-7]{16}`), "INCIDENT"},
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "ADDRESS"},
	{regexp.MustCompile(`\s+`), " "},
}

func constant(line string) string {
	for _, v := range varying {
		line = v.pattern.ReplaceAllString(line, v.as)
	}
	return strings.TrimSpace(line)
}

// comparePrinted checks that a block's lines are among those that were printed, in their order.
// "…" stands for any number of lines.
func comparePrinted(t *testing.T, page, block, output string) {
	t.Helper()
	rest := strings.Split(output, "\n")
	lines := 0
	for line := range strings.Lines(block) {
		want := constant(line)
		if want == "" || want == "…" {
			continue
		}
		i := slices.IndexFunc(rest, func(line string) bool { return constant(line) == want })
		if i < 0 {
			t.Errorf("%s prints\n%sThe command printed\n%s", page, line, output)
			return
		}
		rest = rest[i+1:]
		lines++
	}
	if lines == 0 {
		t.Errorf("%s: an output is empty; the command printed\n%s", page, output)
	}
}
