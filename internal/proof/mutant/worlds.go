package main

import (
	_ "embed"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// worldsText has a line for each mutant: its name, then the test and the seed of the world
// that noticed it last. That world is tried first. It is advice only: a change of the
// simulator makes other worlds of the seeds, and then the search begins as without it.
// `-worlds FILE` writes it, the lines of the mutants of that run.
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

// writeWorlds writes to a file what has noticed the mutants. Its other lines stay, but for
// those of mutants that are gone.
func writeWorlds(file string, all []mutant, results []result) error {
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	known, err := knownWorlds(string(text))
	if err != nil {
		return err
	}
	for _, r := range results {
		if r.found != nil {
			known[r.mutant.name] = world{test: r.found.test, seed: r.found.seed}
		}
	}
	var b strings.Builder
	for _, m := range all {
		if w, ok := known[m.name]; ok {
			fmt.Fprintln(&b, m.name, w.test, w.seed)
		}
	}
	return os.WriteFile(file, []byte(b.String()), 0o600)
}
