package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// program is a compiled test binary, and the mutant that is chosen in it.
type program struct {
	binary string
	dir    string // to run it in: the package's own
	mutant string // empty: the true code
}

// command is the program with arguments.
func (p program) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, p.binary, args...) //nolint:gosec // what was built just now
	cmd.Dir = p.dir
	cmd.Env = append(os.Environ(), switchVariable+"="+p.mutant)
	return cmd
}

// compiled is the tests of one package over a source with mutants.
type compiled struct {
	source *switched
	tested string  // the package, from the module's root
	true   program // no mutant is chosen
}

// compile builds the tests of a package, with all mutants that can be switched.
func (s *switched) compile(ctx context.Context, tested string) (*compiled, error) {
	truth, err := buildTests(ctx, s.root, s.dir, s.overlay, tested)
	return &compiled{source: s, tested: tested, true: truth}, err
}

// with is the program in which a mutant is chosen. It builds those that are alone.
func (c *compiled) with(ctx context.Context, m mutant) (program, error) {
	if c.source.alone[m.name] == nil {
		chosen := c.true
		chosen.mutant = m.name
		return chosen, nil
	}
	dir := filepath.Join(c.source.dir, m.name)
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return program{}, err
	}
	overlay, err := m.writeOverlay(c.source.root, dir)
	if err != nil {
		return program{}, err
	}
	return buildTests(ctx, c.source.root, dir, overlay, c.tested)
}

// buildTests compiles the tests of a package over an overlay.
func buildTests(ctx context.Context, root, dir, overlay, tested string) (program, error) {
	p := program{
		binary: filepath.Join(dir, strings.ReplaceAll(tested, "/", "_")+".test"),
		dir:    filepath.Join(root, filepath.FromSlash(tested)),
	}
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-overlay", overlay, "-o", p.binary, "./"+tested) //nolint:gosec // our own arguments
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return p, fmt.Errorf("it does not compile: %w\n%s", err, out)
	}
	return p, nil
}
