package fakes_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/fireonce/fireonce/internal/connector/builtin"
	"github.com/fireonce/fireonce/internal/connector/builtin/fakes"
)

// withoutFake are the platforms that the sandbox lacks, each with its reason.
var withoutFake = map[string]string{
	"bluesky": "tested against the real personal data server, which needs Node",
	"feed":    "no platform that anybody has an account of",
}

// TestEveryPlatform: each platform has one fake, whose connection is of its connector.
func TestEveryPlatform(t *testing.T) {
	t.Parallel()
	count := make(map[string]int)
	names := make(map[string]bool)
	for _, f := range fakes.Fakes {
		count[f.Connector]++
		conn, _ := f.Connection("127.0.0.1:25")
		if conn.GetConnector() != f.Connector || f.Name == "" || f.Title == "" || f.About == "" || names[f.Name] {
			t.Errorf("fake %q: connector %s, title %q, about %q", f.Name, conn.GetConnector(), f.Title, f.About)
		}
		names[f.Name] = true
	}
	for _, p := range builtin.Platforms {
		if want := withoutFake[p.Name] == ""; want != (count[p.Name] == 1) {
			t.Errorf("%s has %d fakes", p.Name, count[p.Name])
		}
	}
}

// mayHaveFakes are the packages that import fakes beside tests, and what is below them.
var mayHaveFakes = []string{
	"cmd/fireonce", "cmd/fireonce/internal/sandbox", "internal/connector/builtin/fakes", "internal/proof",
}

// TestFakesAreForTests: no package of a server that runs in earnest depends on a fake. Only the
// program's main does, by the sandbox.
func TestFakesAreForTests(t *testing.T) {
	t.Parallel()
	const module = "github.com/fireonce/fireonce/"
	cmd := exec.CommandContext(t.Context(), "go", "list", "-f", `{{.ImportPath}} {{join .Deps " "}}`, "./...")
	cmd.Dir = "../../../.."
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	isFake := func(name string) bool {
		path, ours := strings.CutPrefix(name, module+"internal/connector/")
		_, below, _ := strings.Cut(path, "/")
		return ours && strings.HasSuffix(below, "test")
	}
	checked, found := 0, 0
	for line := range strings.Lines(string(out)) {
		all := strings.Fields(line)
		name := strings.TrimPrefix(all[0], module)
		has := slices.ContainsFunc(all[1:], isFake)
		switch allowed := isFake(all[0]) || slices.ContainsFunc(mayHaveFakes, func(p string) bool {
			return name == p || p != "cmd/fireonce" && strings.HasPrefix(name, p+"/")
		}); {
		case has && !allowed:
			t.Errorf("%s has a fake in it", name)
		case has:
			found++
		}
		checked++
	}
	if checked < 70 || found < 5 {
		t.Errorf("%d packages, %d with fakes", checked, found)
	}
}
