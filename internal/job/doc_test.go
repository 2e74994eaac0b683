package job

import (
	"bufio"
	"os"
	"strings"
	"testing"
)

// readTransitions parses the fenced block of docs/protocol.md.
func readTransitions(t *testing.T) map[Transition]bool {
	t.Helper()
	f, err := os.Open("../../docs/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	byName := map[string]State{"NONE": 0}
	for _, s := range States {
		byName[s.String()] = s
	}
	found := map[Transition]bool{}
	inside := false
	for sc := bufio.NewScanner(f); sc.Scan(); {
		line := sc.Text()
		switch {
		case line == "```transitions":
			inside = true
		case strings.HasPrefix(line, "```"):
			inside = false
		case inside:
			words := strings.Fields(line)
			if len(words) < 4 || words[1] != "->" {
				t.Fatalf("cannot read %q: want FROM -> TO reason", line)
			}
			from, okFrom := byName[words[0]]
			to, okTo := byName[words[2]]
			tr := Transition{from, to}
			if !okFrom || !okTo || found[tr] {
				t.Fatalf("unknown state, or listed twice: %q", line)
			}
			found[tr] = true
		}
	}
	if len(found) == 0 {
		t.Fatal("docs/protocol.md lists no transitions")
	}
	return found
}

// mermaidTransitions parses the arrows of the document's diagram.
func mermaidTransitions(t *testing.T) map[string]bool {
	t.Helper()
	b, err := os.ReadFile("../../docs/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(b), "```mermaid")
	if !ok {
		t.Fatal("docs/protocol.md has no diagram")
	}
	diagram, _, _ := strings.Cut(rest, "```")
	arrows := map[string]bool{}
	for line := range strings.Lines(diagram) {
		from, to, ok := strings.Cut(strings.TrimSpace(line), " --> ")
		if !ok || to == "[*]" {
			continue
		}
		to, _, _ = strings.Cut(to, ":")
		arrows[strings.Replace(from, "[*]", "NONE", 1)+" "+to] = true
	}
	return arrows
}

func TestTransitionsNByN(t *testing.T) {
	documented := readTransitions(t)
	drawn := mermaidTransitions(t)
	if len(Transitions) != len(legal) {
		t.Errorf("Transitions lists one move twice")
	}
	if len(drawn) != len(Transitions) {
		t.Errorf("the diagram draws %d moves, the table has %d", len(drawn), len(Transitions))
	}
	table := map[Transition]bool{}
	for _, tr := range Transitions {
		table[tr] = true
	}
	for _, from := range append([]State{0}, States...) {
		for _, to := range append([]State{0}, States...) {
			tr := Transition{from, to}
			if documented[tr] != table[tr] {
				t.Errorf("%s to %s: documented %t, in the table %t", from, to, documented[tr], table[tr])
			}
			if name := from.String() + " " + to.String(); drawn[name] != table[tr] {
				t.Errorf("%s: drawn %t, in the table %t", name, drawn[name], table[tr])
			}
			stays := from == to && from.Valid()
			if got, want := Legal(from, to), table[tr] || stays; got != want {
				t.Errorf("Legal(%s, %s) = %t, want %t", from, to, got, want)
			}
		}
	}
	if Legal(0, 0) || Legal(0, Claimed) || Legal(Expired+1, Expired+1) {
		t.Error("a state that does not exist must not be legal")
	}
}

func TestTerminalExits(t *testing.T) {
	want := map[State][]State{
		Succeeded: nil,
		Failed:    {Retrying, Succeeded},
		Expired:   {Retrying, Succeeded},
		Canceled:  {Retrying, Succeeded},
	}
	for _, from := range States {
		exits, terminal := want[from]
		if from.Terminal() != terminal {
			t.Errorf("%s: Terminal() = %t", from, from.Terminal())
		}
		if !terminal {
			continue
		}
		allowed := map[State]bool{from: true}
		for _, s := range exits {
			allowed[s] = true
		}
		for _, to := range States {
			if Legal(from, to) != allowed[to] {
				t.Errorf("%s to %s: legal %t, want %t", from, to, Legal(from, to), allowed[to])
			}
		}
	}
}

func TestClaimAndArm(t *testing.T) {
	for _, pair := range ClaimAndArm {
		for _, tr := range pair {
			if !Legal(tr.From, tr.To) {
				t.Errorf("%v is not a transition", tr)
			}
		}
		if pair[0].To != pair[1].From || !pair[0].From.Runnable() || pair[1].To != Sending {
			t.Errorf("%v is not a claim and an arm", pair)
		}
	}
}
