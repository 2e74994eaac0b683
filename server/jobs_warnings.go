package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/job"
)

// Rules of this file: a job is stored, or would be, before its files are probed, so that they can
// neither refuse nor delay it. Only its answer waits, for a bounded time.

const (
	// warnWithin bounds how long an answer waits for warnings.
	warnWithin = 2 * time.Second
	// maxMediaProbes bounds the files that are probed concurrently. Above it, answers have no
	// warnings.
	maxMediaProbes = 64
)

// withWarnings adds warnings to the answer about a job that was new.
func (in *validator) withWarnings(ctx context.Context, request scheduleRequest, out *fireoncev1.ScheduleJobResponse, err error) (*fireoncev1.ScheduleJobResponse, error) {
	if err != nil || !out.GetCreated() && out.GetJob().GetJobId() != "" {
		return out, err
	}
	if w := in.waitWarning(request); w != nil {
		out.Warnings = append(out.Warnings, w)
	}
	for _, over := range in.over {
		out.Warnings = append(out.Warnings, &fireoncev1.Warning{Field: over.Field, Code: fireoncev1.WarningCode_WARNING_CODE_OVER_LIMIT, Message: over.Msg})
	}
	if in.server.cfg.Media != nil {
		out.Warnings = append(out.Warnings, in.mediaWarnings(ctx, out.GetJob().GetPayload())...)
	}
	return out, nil
}

// waitWarning returns why the wait of a reply cannot end well, as far as the job that
// it replies to was known when the request was checked; nil: it can.
func (in *validator) waitWarning(request scheduleRequest) *fireoncev1.Warning {
	before, known := in.before[request.spec.ReplyTo]
	if !known || before.err != nil {
		return nil
	}
	own := request.at
	if own.IsZero() {
		own = in.server.cfg.Now()
	}
	prev, ends := before.value, own.Add(request.spec.Wait())
	switch {
	case prev.State.BadEnd() != 0:
		return &fireoncev1.Warning{
			Field: repliedTo.field(request.replyTo), Code: fireoncev1.WarningCode_WARNING_CODE_PREDECESSOR_ENDED,
			Message: fmt.Sprintf("job %s has ended as %s, so this one will end as CANCELED; retry that one first, then this one", prev.ID, prev.State),
		}
	case prev.State.Runnable() && prev.NextAt.After(ends):
		return &fireoncev1.Warning{
			Field: "wait_window", Code: fireoncev1.WarningCode_WARNING_CODE_WAIT_TOO_SHORT,
			Message: fmt.Sprintf("job %s is due at %s, and this one waits for it until %s only", prev.ID,
				prev.NextAt.Format(time.RFC3339), ends.UTC().Format(time.RFC3339)),
		}
	default:
		return nil
	}
}

// mediaWarnings looks at the files of a payload.
func (in *validator) mediaWarnings(ctx context.Context, p *fireoncev1.Payload) []*fireoncev1.Warning {
	field, refs := "payload.social_post.media", p.GetSocialPost().GetMedia()
	if p.GetEmail() != nil {
		field, refs = "payload.email.attachments", p.GetEmail().GetAttachments()
	}
	ctx, cancel := context.WithTimeout(ctx, warnWithin)
	defer cancel()
	found := make([]*fireoncev1.Warning, len(refs))
	var all sync.WaitGroup
	for i, ref := range refs {
		select {
		case in.server.probes <- struct{}{}:
		default:
			continue // too many probes run
		}
		all.Go(func() {
			defer func() { <-in.server.probes }()
			var r *connector.Refusal
			if err := in.server.cfg.Media.Probe(ctx, ref); errors.As(err, &r) {
				found[i] = &fireoncev1.Warning{Field: fmt.Sprintf("%s[%d]", field, i), Code: mediaWarning(r), Message: r.Msg}
			}
		})
	}
	all.Wait()
	return slices.DeleteFunc(found, func(w *fireoncev1.Warning) bool { return w == nil })
}

// mediaWarning returns the code for a media file that cannot be fetched.
func mediaWarning(r *connector.Refusal) fireoncev1.WarningCode {
	if r.Kind == job.FailPermanent {
		return fireoncev1.WarningCode_WARNING_CODE_MEDIA_UNUSABLE
	}
	return fireoncev1.WarningCode_WARNING_CODE_MEDIA_UNREACHABLE
}
