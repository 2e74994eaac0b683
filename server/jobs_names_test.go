package server_test

import (
	"maps"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
)

// TestJobByKey: every RPC that takes a job takes its key, in each protocol, and an error
// names what the request named.
func TestJobByKey(t *testing.T) {
	overEach(t, func(t *testing.T, f *fixture, c client) {
		j := f.schedule(f.request("order-42", at(f.clock.Now().Add(time.Hour))))
		soon := timestamppb.New(f.clock.Now().Add(time.Hour))
		for _, tt := range []struct {
			name string
			of   func(key string) proto.Message
			want fireoncev1.ErrorReason // 0: it succeeds
		}{
			{"GetJob", func(key string) proto.Message {
				return &fireoncev1.GetJobRequest{Job: &fireoncev1.GetJobRequest_IdempotencyKey{IdempotencyKey: key}}
			}, 0},
			{"ListJobAttempts", func(key string) proto.Message {
				return &fireoncev1.ListJobAttemptsRequest{Job: &fireoncev1.ListJobAttemptsRequest_IdempotencyKey{IdempotencyKey: key}}
			}, 0},
			{"UpdateJob", func(key string) proto.Message {
				return &fireoncev1.UpdateJobRequest{
					Job: &fireoncev1.UpdateJobRequest_IdempotencyKey{IdempotencyKey: key}, Etag: f.read(c, j.GetJobId()).GetEtag(),
					UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"labels"}}, Labels: map[string]string{"a": "b"},
				}
			}, 0},
			{"RescheduleJob", func(key string) proto.Message {
				r := &fireoncev1.RescheduleJobRequest{Job: &fireoncev1.RescheduleJobRequest_IdempotencyKey{IdempotencyKey: key}}
				r.ScheduleTime = soon
				return r
			}, 0},
			{"RunJobNow", func(key string) proto.Message {
				return &fireoncev1.RunJobNowRequest{Job: &fireoncev1.RunJobNowRequest_IdempotencyKey{IdempotencyKey: key}}
			}, 0},
			{"RetryJob", func(key string) proto.Message {
				return &fireoncev1.RetryJobRequest{
					Job: &fireoncev1.RetryJobRequest_IdempotencyKey{IdempotencyKey: key}, Etag: f.read(c, j.GetJobId()).GetEtag(),
				}
			}, fireoncev1.ErrorReason_ERROR_REASON_JOB_STATE},
			{"ResolveJob", func(key string) proto.Message {
				return &fireoncev1.ResolveJobRequest{
					Job: &fireoncev1.ResolveJobRequest_IdempotencyKey{IdempotencyKey: key}, Etag: f.read(c, j.GetJobId()).GetEtag(),
					Decision: fireoncev1.Resolution_DECISION_SENT, Note: "I looked",
				}
			}, fireoncev1.ErrorReason_ERROR_REASON_JOB_STATE},
			{"CancelJob", func(key string) proto.Message {
				return &fireoncev1.CancelJobRequest{Job: &fireoncev1.CancelJobRequest_IdempotencyKey{IdempotencyKey: key}}
			}, 0},
		} {
			res := answerOf(tt.name)
			err := c.call(t.Context(), jobsPath+tt.name, tt.of("order-43"), res)
			e := wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_JOB_NOT_FOUND)
			if want := map[string]string{"idempotency_key": "order-43"}; !maps.Equal(e.detail.GetMetadata(), want) {
				t.Errorf("%s of nothing: %v", tt.name, e.detail.GetMetadata())
			}
			err = c.call(t.Context(), jobsPath+tt.name, tt.of("order-42"), res)
			if tt.want != 0 {
				wantReason(t, err, tt.want)
				continue
			}
			if err != nil {
				t.Errorf("%s: %v", tt.name, err)
			}
			if got, ok := res.(interface{ GetJob() *fireoncev1.Job }); ok && got.GetJob().GetJobId() != j.GetJobId() {
				t.Errorf("%s: %v", tt.name, got.GetJob())
			}
		}
	})
}
