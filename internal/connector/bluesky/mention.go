package bluesky

import (
	"context"
	"encoding/json"
	"net/url"
	"slices"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/job"
)

// Rules of this file: a mention needs the account's DID, which only the network knows. The frozen
// record has the handle; the DID is asked for before each attempt, as the CID of an answered post is.
// A handle that no account has stays text, as the reference client leaves it. A server that cannot be
// asked costs the attempt, and not the mention.

const methodResolve = "com.atproto.identity.resolveHandle"

// mention puts the DIDs of those who are mentioned into the post's record.
func (c *Connector) mention(ctx context.Context, in login, q *post) error {
	known := make(map[string]string)
	kept := make([]facet, 0, len(q.record.Facets))
	for _, f := range q.record.Facets {
		handle := f.handle()
		if handle == "" {
			kept = append(kept, f)
			continue
		}
		did, asked := known[handle]
		if !asked {
			var err error
			if did, err = c.resolve(ctx, in, handle); err != nil {
				return err
			}
			known[handle] = did
		}
		if did != "" {
			kept = append(kept, facet{f.Index, []feature{{Type: typeMention, DID: did}}})
		}
	}
	q.record.Facets = kept
	return nil
}

// handle is the handle that a facet mentions; empty: it is another.
func (f facet) handle() string {
	if len(f.Features) == 1 && f.Features[0].Type == typeMention {
		return f.Features[0].DID
	}
	return ""
}

// mentions reports whether a post mentions an account.
func (q post) mentions() bool {
	return slices.ContainsFunc(q.record.Facets, func(f facet) bool { return f.handle() != "" })
}

// resolve returns the DID of a handle; empty: no account has it.
func (c *Connector) resolve(ctx context.Context, in login, handle string) (string, error) {
	a, err := c.ask(ctx, in.base, question{method: methodResolve, token: in.access, query: url.Values{"handle": {handle}}})
	if err != nil {
		return "", err
	}
	if name := errorName(a); a.Complete && a.Status == 400 && name != errInvalidToken && name != errExpiredToken {
		return "", nil
	}
	if err := c.refusedTo(in, a); err != nil {
		return "", err
	}
	var got struct {
		DID string `json:"did"`
	}
	if json.Unmarshal(a.Excerpt, &got) != nil || !didForm.MatchString(got.DID) {
		return "", &connector.Refusal{Kind: job.FailTransient, Msg: platformName + " does not say who a mentioned account is"}
	}
	return got.DID, nil
}
