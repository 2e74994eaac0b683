package connector_test

import (
	"testing"

	"github.com/fireonce/fireonce/internal/connector"
)

// TestTraced: a request carries its job's trace, unless the user's headers have one.
func TestTraced(t *testing.T) {
	c := connector.Commit{Traceparent: "00-a-b-01", Tracestate: "c=d"}
	for name, tt := range map[string]struct {
		commit connector.Commit
		has    []connector.Header
		added  int
	}{
		"none":             {connector.Commit{}, nil, 0},
		"both":             {c, []connector.Header{{Name: "X-A", Value: "b"}}, 2},
		"parent alone":     {connector.Commit{Traceparent: c.Traceparent}, nil, 1},
		"the user's":       {c, []connector.Header{{Name: "TraceParent", Value: "x"}}, 0},
		"the user's state": {c, []connector.Header{{Name: "Tracestate", Value: "x"}}, 1},
	} {
		if got := connector.Traced(tt.commit, tt.has); len(got) != len(tt.has)+tt.added {
			t.Errorf("%s: %v", name, got)
		}
	}
}
