//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// node is what the peers in JavaScript need.
type node struct {
	program string
	folder  string // with their scripts and packages
	missing string // why they are skipped
}

const (
	// nodeMajor and nodeMinor are the oldest Node that the packages take.
	nodeMajor, nodeMinor = 22, 18
	nodeVariable         = "NODE"
	nodeAdvice           = "`make bench-node` installs what pg-boss and graphile-worker need"
)

// findNode looks for Node, in the environment's NODE, beside the packages, and on
// the PATH, and for the packages.
func findNode(ctx context.Context) (*node, error) {
	n := &node{folder: filepath.Join("speed", "node")}
	if _, err := os.Stat(filepath.Join(n.folder, "package.json")); err != nil {
		return nil, errors.New("run this in internal/proof/bench")
	}
	packages, err := filepath.Abs(filepath.Join(n.folder, "node_modules"))
	if err != nil {
		return nil, err
	}
	beside, err := filepath.Glob(filepath.Join(packages, "node-*", "bin", "node"))
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(packages, "pg-boss")); errors.Is(err, os.ErrNotExist) {
		n.missing = "its packages are not installed: " + nodeAdvice
		return n, nil
	}
	for _, program := range append([]string{os.Getenv(nodeVariable), "node"}, beside...) {
		if program == "" {
			continue
		}
		out, err := exec.CommandContext(ctx, program, "--version").Output() //nolint:gosec // the user of this program names it
		if err == nil && newEnough(string(out)) {
			n.program = program
			return n, nil
		}
	}
	n.missing = fmt.Sprintf("there is no Node %d.%d or newer: %s", nodeMajor, nodeMinor, nodeAdvice)
	return n, nil
}

// newEnough reads what `node --version` says.
func newEnough(version string) bool {
	parts := strings.Split(strings.TrimPrefix(strings.TrimSpace(version), "v"), ".")
	if len(parts) < 2 {
		return false
	}
	major, err := strconv.Atoi(parts[0])
	if err != nil {
		return false
	}
	minor, err := strconv.Atoi(parts[1])
	return err == nil && (major > nodeMajor || major == nodeMajor && minor >= nodeMinor)
}

// command prepares a measurement of a peer in JavaScript.
func (n *node) command(ctx context.Context, t task) (*exec.Cmd, error) {
	peer, _, _ := strings.Cut(t.Measure, "/")
	text, err := json.Marshal(struct {
		task
		Data string `json:"data"`
		URL  string `json:"url"`
	}{t, t.data(), t.run().URL()})
	if err != nil {
		return nil, err
	}
	return exec.CommandContext(ctx, n.program, filepath.Join(n.folder, peer+".mjs"), string(text)), nil //nolint:gosec // found above
}
