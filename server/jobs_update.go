package server

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/submit"
	"github.com/fireonce/fireonce/store"
)

// jobUpdate is the content that a client wants a job to have. Fields that the update does not
// name are nil.
type jobUpdate struct {
	message *fireoncev1.Payload
	kind    string
	payload []byte // the message, encoded
	labels  map[string]string
	// delivery and those below are the named fields of UpdateJobRequest that are no content.
	delivery job.Delivery
	retry    *job.RetryPolicy // without the time for an attempt
	timeout  *time.Duration
	timeZone *string
}

// jobUpdateFromWire reads what update_mask names.
func jobUpdateFromWire(req *fireoncev1.UpdateJobRequest) (jobUpdate, error) {
	var u jobUpdate
	paths := req.GetUpdateMask().GetPaths()
	if slices.Contains(paths, "payload") {
		if _, err := canonicalOrNil("payload", req.GetPayload()); err != nil {
			return u, err
		}
		u.message = req.GetPayload()
		var err error
		if u.kind, u.payload, err = submit.Payload(req.GetPayload()); err != nil {
			return u, err
		}
	}
	if slices.Contains(paths, "labels") {
		u.labels = maps.Clone(req.GetLabels())
		if u.labels == nil {
			u.labels = map[string]string{}
		}
	}
	if slices.Contains(paths, "delivery") {
		u.delivery = submit.Delivery(req.GetDelivery())
	}
	if slices.Contains(paths, "retry_policy") {
		if _, err := canonicalOrNil("retry_policy", req.GetRetryPolicy()); err != nil {
			return u, err
		}
		retry := submit.Retry(req.GetRetryPolicy())
		u.retry = &retry
	}
	if slices.Contains(paths, "attempt_timeout") {
		timeout := submit.Duration(req.GetAttemptTimeout())
		u.timeout = &timeout
	}
	if slices.Contains(paths, "time_zone") {
		zone := req.GetTimeZone()
		u.timeZone = &zone
	}
	return u, nil
}

// terms returns the policies and the time zone that an update changes.
func (u jobUpdate) terms() store.Content {
	return store.Content{Delivery: u.delivery, Retry: u.retry, AttemptTimeout: u.timeout, TimeZone: u.timeZone}
}

// fields are the fields that an update names.
func (u jobUpdate) fields() job.Fields {
	c := u.terms()
	c.Payload, c.Labels = u.payload, u.labels
	return c.Fields()
}

// inPlace reports whether a job has the content already. Payloads are compared as messages: their
// encodings may differ between versions.
func (u jobUpdate) inPlace(s job.Spec) bool {
	if u.labels != nil && !maps.Equal(u.labels, s.Labels) {
		return false
	}
	after := u.terms().Apply(s)
	if after.Delivery != s.Delivery || !after.Retry.Equal(s.Retry) || after.TimeZone != s.TimeZone {
		return false
	}
	if u.message == nil {
		return true
	}
	var stored fireoncev1.Payload
	return proto.Unmarshal(s.Payload, &stored) == nil && proto.Equal(&stored, u.message)
}

// UpdateJob implements the RPC.
func (s *jobService) UpdateJob(ctx context.Context, req *fireoncev1.UpdateJobRequest) (*fireoncev1.UpdateJobResponse, error) {
	u, err := jobUpdateFromWire(req)
	if err != nil {
		return nil, err
	}
	out, err := s.changeJob(ctx, jobChange{
		of: req, etag: req.GetEtag(),
		ask: func(snap job.Snapshot) job.Evidence {
			return job.UpdateAsked{Same: u.inPlace(snap.Spec), Fields: u.fields()}
		},
		check: func(ctx context.Context, snap job.Snapshot) (checkedChange, error) {
			return s.checkUpdate(ctx, u, snap)
		},
	})
	return &fireoncev1.UpdateJobResponse{Job: out}, err
}

// checkUpdate checks new content as a submit's is, and has the connector name its hold key again.
func (s *jobService) checkUpdate(ctx context.Context, u jobUpdate, snap job.Snapshot) (checkedChange, error) {
	terms := u.terms()
	content := &terms
	content.Labels = u.labels
	if snap.OwnEffectKey != "" && u.delivery == job.AtLeastOnce {
		return checkedChange{}, badField("delivery", "effect_key", "AT_LEAST_ONCE makes new effects, and this job was given its effect key, which is for one")
	}
	if u.timeZone != nil {
		if err := s.checkTimeZone(*u.timeZone); err != nil {
			return checkedChange{}, err
		}
	}
	if u.payload == nil {
		return checkedChange{content: content}, nil
	}
	if u.kind != snap.PayloadKind {
		return checkedChange{}, refuse(fireoncev1.ErrorReason_ERROR_REASON_PAYLOAD_INVALID,
			fmt.Sprintf("payload.%s: the job's payload is of kind %s, and stays of it", u.kind, snap.PayloadKind),
			"field", "payload."+u.kind, "kind", snap.PayloadKind)
	}
	if err := checkSize(u.payload); err != nil {
		return checkedChange{}, err
	}
	in := s.newValidator(ctx)
	conn, err := in.connection(ctx, snap.Connection, store.Ref{ID: snap.Connection})
	if err != nil {
		return checkedChange{}, err
	}
	spec := snap.Spec
	spec.Payload, content.Payload, content.Recipients = u.payload, u.payload, submit.Recipients(u.message)
	if content.HoldKey, err = in.prepare(ctx, conn, spec, store.Ref{ID: snap.ReplyTo}); err != nil {
		return checkedChange{}, err
	}
	if err := sameReceiver(snap, content.HoldKey); err != nil {
		return checkedChange{}, err
	}
	return checkedChange{content: content}, s.admission.takeGrowth(ctx, snap.Project, len(u.payload)-len(snap.Payload))
}
