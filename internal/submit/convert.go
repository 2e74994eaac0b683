package submit

import (
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/job"
)

// Duration converts a duration and rounds it up to microseconds, so that a set one stays set.
func Duration(d *durationpb.Duration) time.Duration {
	const us = time.Microsecond
	n := d.AsDuration()
	if rest := n % us; rest > 0 {
		n += us - rest
	}
	return n
}

// Payload returns the name of the payload's kind and its encoding.
func Payload(p *fireoncev1.Payload) (kind string, encoded []byte, err error) {
	m := p.ProtoReflect()
	oneof := m.Descriptor().Oneofs().ByName("kind")
	if member := m.WhichOneof(oneof); member != nil {
		kind = string(member.Name())
	}
	encoded, err = proto.MarshalOptions{Deterministic: true}.Marshal(p)
	return kind, encoded, err
}

// Retry converts a policy; zero fields stay zero.
func Retry(r *fireoncev1.RetryPolicy) job.RetryPolicy {
	out := job.RetryPolicy{
		MaxAttempts: int(r.GetMaxAttempts()),
		MinBackoff:  Duration(r.GetMinBackoff()),
		MaxBackoff:  Duration(r.GetMaxBackoff()),
		Multiplier:  r.GetMultiplier(),
		KeepTrying:  Duration(r.GetKeepTrying()),
	}
	for _, d := range r.GetDelays() {
		out.Delays = append(out.Delays, Duration(d))
	}
	return out
}

// Spec returns the job that a request asks for, without the ids of the objects that it names and
// without the fields that only a connector can determine.
func Spec(project, key string, r *fireoncev1.ScheduleJobRequest, f job.Fingerprint) (job.Spec, error) {
	kind, payload, err := Payload(r.GetPayload())
	if err != nil {
		return job.Spec{}, err
	}
	retry := Retry(r.GetRetryPolicy())
	retry.AttemptTimeout = Duration(r.GetAttemptTimeout())
	return job.Spec{
		Project: project, Key: key, PayloadKind: kind, Payload: payload,
		StartWindow: Duration(r.GetStartWindow()), WaitWindow: Duration(r.GetWaitWindow()), Retry: retry,
		Delivery: Delivery(r.GetDelivery()), Labels: r.GetLabels(),
		TimeZone: r.GetTimeZone(), Fingerprint: f,
		OwnEffectKey: r.GetEffectKey(), SkipIfPresent: Duration(r.GetSkipIfPresent().GetMaxAge()),
	}, nil
}

// Delivery converts what a job promises; unset is ONCE_OR_ASK.
func Delivery(d fireoncev1.Delivery) job.Delivery {
	if d == fireoncev1.Delivery_DELIVERY_UNSPECIFIED {
		return job.OnceOrAsk
	}
	return job.Delivery(d)
}
