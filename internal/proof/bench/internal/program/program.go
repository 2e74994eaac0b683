// Package program builds the service that is compared with others.
package program

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// Build makes the program under test, with build tags if there are any.
func Build(ctx context.Context, path string, tags ...string) error {
	cmd := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/fireonce/fireonce")
	cmd.Stderr = os.Stderr
	root, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("find the source (run this in internal/proof/bench, or give -fireonce): %w", err)
	}
	cmd = exec.CommandContext(ctx, "go", "build", "-tags", strings.Join(tags, ","), "-o", path, "./cmd/fireonce") //nolint:gosec // a path of ours
	cmd.Dir, cmd.Stdout, cmd.Stderr = strings.TrimSpace(string(root)), os.Stderr, os.Stderr
	return cmd.Run()
}
