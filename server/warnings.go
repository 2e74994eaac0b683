package server

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	fireoncev1 "github.com/fireonce/fireonce/gen/fireonce/v1"
	"github.com/fireonce/fireonce/internal/connector"
)

// Rules of this file: a job is stored, or would be, before anybody looks at its
// files, so that they can neither refuse nor delay it. Only its answer waits, and not
// for long.

const (
	// warnWithin bounds how long an answer waits for what is found.
	warnWithin = 2 * time.Second
	// mostProbes bounds the files that are looked at at once. Above it, answers go
	// without warnings.
	mostProbes = 64
)

// warned adds warnings to the answer about a job that was new.
func (s *jobService) warned(ctx context.Context, out *fireoncev1.ScheduleJobResponse, err error) (*fireoncev1.ScheduleJobResponse, error) {
	if err != nil || s.cfg.Media == nil || !out.GetCreated() && out.GetJob().GetJobId() != "" {
		return out, err
	}
	out.Warnings = s.warnings(ctx, out.GetJob().GetPayload())
	return out, nil
}

// warnings looks at the files of a payload.
func (s *jobService) warnings(ctx context.Context, p *fireoncev1.Payload) []string {
	field, refs := "payload.social_post.media", p.GetSocialPost().GetMedia()
	if p.GetEmail() != nil {
		field, refs = "payload.email.attachments", p.GetEmail().GetAttachments()
	}
	ctx, cancel := context.WithTimeout(ctx, warnWithin)
	defer cancel()
	found := make([]string, len(refs))
	var all sync.WaitGroup
	for i, ref := range refs {
		select {
		case s.probes <- struct{}{}:
		default:
			continue // too many at once
		}
		all.Go(func() {
			defer func() { <-s.probes }()
			var r *connector.Refusal
			if err := s.cfg.Media.Probe(ctx, ref); errors.As(err, &r) {
				found[i] = fmt.Sprintf("%s[%d]: %s", field, i, r.Msg)
			}
		})
	}
	all.Wait()
	var out []string
	for _, w := range found {
		if w != "" {
			out = append(out, w)
		}
	}
	return out
}
