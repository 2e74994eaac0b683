package main

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"
)

// worldsText has a line for each mutant: its name, then the test and the seed of the world
// that noticed it last. That world is tried first. It is advice only: a change of the
// simulator makes other worlds of the seeds, and then the search begins as without it.
// `-worlds FILE` writes it.
//
//go:embed worlds.txt
var worldsText string

// world is one world of a test of the simulator.
type world struct {
	test string
	seed uint64
}

// knownWorlds reads what worldsText has of each mutant.
func knownWorlds(text string) (map[string]world, error) {
	out := make(map[string]world)
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) != 3 {
			return nil, fmt.Errorf("worlds: %q is not a name, a test and a seed", line)
		}
		seed, err := strconv.ParseUint(fields[2], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("worlds: %w", err)
		}
		out[fields[0]] = world{test: fields[1], seed: seed}
	}
	return out, nil
}

// worldsOf is the text for what has noticed the mutants.
func worldsOf(results []result) string {
	var b strings.Builder
	for _, r := range results {
		if r.found != nil {
			fmt.Fprintln(&b, r.mutant.name, r.found.test, r.found.seed)
		}
	}
	return b.String()
}
