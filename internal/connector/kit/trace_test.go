package kit_test

import (
	"testing"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/kit"
	"github.com/fireonce/fireonce/internal/connector/transport"
)

// TestTraced: a request carries its job's trace, unless the user's headers have one.
func TestTraced(t *testing.T) {
	c := connector.Commit{Traceparent: "00-a-b-01", Tracestate: "c=d"}
	for name, tt := range map[string]struct {
		commit connector.Commit
		has    []transport.Header
		added  int
	}{
		"none":             {connector.Commit{}, nil, 0},
		"both":             {c, []transport.Header{{Name: "X-A", Value: "b"}}, 2},
		"parent alone":     {connector.Commit{Traceparent: c.Traceparent}, nil, 1},
		"the user's":       {c, []transport.Header{{Name: "TraceParent", Value: "x"}}, 0},
		"the user's state": {c, []transport.Header{{Name: "Tracestate", Value: "x"}}, 1},
	} {
		if got := kit.Traced(tt.commit, tt.has); len(got) != len(tt.has)+tt.added {
			t.Errorf("%s: %v", name, got)
		}
	}
}
