package node

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/fireonce/fireonce/internal/job"
)

// TestClassNames: an operator reads in the log what a connector promises.
func TestClassNames(t *testing.T) {
	var out strings.Builder
	slog.New(slog.NewTextHandler(&out, nil)).Info("m", "classes", classNames([]job.Class{job.Keyed, job.Opaque}))
	if !strings.Contains(out.String(), `classes="[KEYED OPAQUE]"`) {
		t.Error(out.String())
	}
}
