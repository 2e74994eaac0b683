package sandbox

import (
	"github.com/fireonce/fireonce/internal/connector/builtin/fakes"
	"github.com/fireonce/fireonce/internal/connector/platform/fake"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/node"
)

// sites makes the fakes, in the order of the page and of their ports.
func sites() []*site {
	var out []*site
	for _, f := range fakes.Fakes {
		out = append(out, newSite(f))
	}
	return out
}

func newSite(f fake.Fake) *site {
	s := &site{Fake: f, faults: overHTTP}
	if f.New == nil { // the relay, which starts at its port
		s.faults, s.made.List = overSMTP, func() []fake.Thing { return nil }
		return s
	}
	s.made = f.New(fake.Host{Now: s.now, Refuse: s.refusal, LimitFor: limitFor, Work: sandboxWork, UploadLife: node.SandboxUploadLife})
	return s
}
