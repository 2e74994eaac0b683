package server_test

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/job"
)

// TestAnswersOfTargets are content, as payloads are: shown with one job and its attempts,
// and never in lists and events.
func TestAnswersOfTargets(t *testing.T) {
	overEach(t, func(t *testing.T, f *fixture, c client) {
		j := f.schedule(f.request("charge"))
		kept := &job.Answer{
			Status: 503, Headers: []job.AnswerHeader{{Name: "Request-Id", Value: "req_1"}}, Body: `{"id":"ch_1"}`, Cut: true,
		}
		f.learn(f.arm().ID, job.Outcome{Attempt: 1, Result: job.ResultUnknown, Kind: job.FailAmbiguous, HTTPStatus: 503, Answer: kept})
		want := &fireoncev1.Answer{
			HttpStatus: 503, Headers: []*fireoncev1.AnswerHeader{{Name: "Request-Id", Value: "req_1"}}, Body: `{"id":"ch_1"}`, BodyCut: true,
		}
		tries, err := ask[fireoncev1.ListJobAttemptsResponse](t, c, jobsPath+"ListJobAttempts",
			&fireoncev1.ListJobAttemptsRequest{Job: &fireoncev1.ListJobAttemptsRequest_JobId{JobId: j.GetJobId()}})
		f.must(err)
		for name, a := range map[string]*fireoncev1.Attempt{
			"GetJob": f.read(c, j.GetJobId()).GetLastAttempt(), "ListJobAttempts": tries.GetAttempts()[0],
		} {
			if !proto.Equal(a.GetAnswer(), want) {
				t.Errorf("%s: %v", name, a.GetAnswer())
			}
		}
		changed, _ := c.open(t, fromBeginning, onlyJobs(j.GetJobId()), func(r *streamRequest) { r.IncludeJob = true }).changes(t, 4)
		if last := changed[3]; last.GetAttempt().GetHttpStatus() != 503 || last.GetAttempt().GetAnswer() != nil || last.GetJob().GetLastAttempt() != nil {
			t.Errorf("event: %v", last)
		}
		list, err := ask[fireoncev1.ListJobsResponse](t, c, jobsPath+"ListJobs", &fireoncev1.ListJobsRequest{})
		f.must(err)
		if list.GetJobs()[0].GetLastAttempt() != nil {
			t.Errorf("list: %v", list.GetJobs()[0].GetLastAttempt())
		}
		f.learn(f.id(j.GetJobId()), job.Outcome{Attempt: 1, Result: job.ResultSucceeded, Answer: &job.Answer{Status: 200, Omission: job.BodyEncoded}})
		got := f.read(c, j.GetJobId()).GetLastAttempt().GetAnswer()
		if got.GetHttpStatus() != 200 || got.GetBodyOmission() != fireoncev1.BodyOmission_BODY_OMISSION_ENCODED {
			t.Errorf("the later answer: %v", got)
		}
	})
}
