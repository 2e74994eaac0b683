package connector

import (
	"fmt"
	"slices"

	"github.com/fireonce/fireonce/internal/job"
)

// Registry is the set of connectors of a process.
type Registry struct {
	byName map[string]Connector
	// retry has each connector's Description.Retry: every decision asks for it.
	retry map[string]job.RetryPolicy
}

// NewRegistry collects connectors. It fails when two share a name, or one lacks
// a method that a class of its description needs.
func NewRegistry(connectors ...Connector) (*Registry, error) {
	r := &Registry{byName: make(map[string]Connector, len(connectors)), retry: make(map[string]job.RetryPolicy, len(connectors))}
	for _, c := range connectors {
		d := c.Describe()
		if _, taken := r.byName[d.Name]; taken || d.Name == "" {
			return nil, fmt.Errorf("connector %q: name missing or taken", d.Name)
		}
		if _, polls := c.(Poller); slices.Contains(d.Classes, job.Handle) && !polls {
			return nil, fmt.Errorf("connector %q: class HANDLE needs Poll", d.Name)
		}
		if _, observes := c.(Observer); slices.Contains(d.Classes, job.Observable) && !observes {
			return nil, fmt.Errorf("connector %q: class OBSERVABLE needs Observe", d.Name)
		}
		r.byName[d.Name], r.retry[d.Name] = c, d.Retry
	}
	return r, nil
}

// Get finds a connector by name.
func (r *Registry) Get(name string) (Connector, bool) {
	c, ok := r.byName[name]
	return c, ok
}

// Retry returns how the jobs of a connection are tried again that states this itself.
func (r *Registry) Retry(name string, stated job.RetryPolicy) job.RetryPolicy {
	return stated.Over(r.retry[name])
}

// EndlessKeys lists the connectors whose targets never forget a key.
func (r *Registry) EndlessKeys() []string {
	return r.named(func(d Description) bool { return d.EndlessKeys })
}

// CredentialRequired lists the connectors that do nothing without a credential.
func (r *Registry) CredentialRequired() []string {
	return r.named(func(d Description) bool { return d.CredentialRequired })
}

// Names lists the connectors' names in order.
func (r *Registry) Names() []string {
	return r.named(func(Description) bool { return true })
}

// named lists in order the connectors whose description fits.
func (r *Registry) named(fits func(Description) bool) []string {
	var names []string
	for n, c := range r.byName {
		if fits(c.Describe()) {
			names = append(names, n)
		}
	}
	slices.Sort(names)
	return names
}
