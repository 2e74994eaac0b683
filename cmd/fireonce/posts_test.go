//go:build failpoints

package main

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector/feed/feedtest"
)

// TestIdenticalPosts checks that a post that is scheduled twice on purpose exists twice, and
// that each job records its own, whatever answers are lost.
func TestIdenticalPosts(t *testing.T) {
	t.Parallel()
	const text, copies = "the same words", 2
	for name, lost := range map[string]int{"every answer comes": 0, "the first answer is lost": 1, "the second answer is lost": 2} {
		for _, d := range deployments {
			t.Run(name+"/"+d.name, func(t *testing.T) {
				t.Parallel()
				to := startPosts(t, feedtest.Options{Plan: func(r feedtest.Request) feedtest.Answer {
					if r.Method == http.MethodPost && r.Number == lost {
						return feedtest.Reset
					}
					return feedtest.Reply
				}})
				f := newFleet(t, d, "")
				f.start()
				connection := f.connect(to.connection())
				var ids []string
				for i := range copies {
					req := jobFor(to, connection, text)
					req.IdempotencyKey = subjectOf(i)
					resp, err := f.schedule(i, req)
					if err != nil {
						t.Fatal(err)
					}
					ids = append(ids, resp.GetJob().GetJobId())
				}
				f.settle(copies)
				owner := make(map[string]string)
				for _, id := range ids {
					j := f.job(id)
					post := j.GetEffect().GetExternalId()
					if j.GetState() != fireoncev1.JobState_JOB_STATE_SUCCEEDED || post == "" || owner[post] != "" {
						t.Errorf("job %s is %v as post %q, which is also that of %q", id, j.GetState(), post, owner[post])
					}
					owner[post] = id
				}
				for _, p := range to.Posts() {
					if owner[p.ID] == "" {
						t.Errorf("post %s is no job's", p.ID)
					}
				}
				if to.Effects(text) != copies || to.Requests(text) != copies {
					t.Errorf("%d requests, %d effects", to.Requests(text), to.Effects(text))
				}
				f.stop()
			})
		}
	}
}

// job reads a job.
func (f *fleet) job(id string) *fireoncev1.Job {
	f.Helper()
	_, api, err := f.from(waiting(f), 0)
	if err != nil {
		f.Fatal(err)
	}
	resp, err := api.Jobs.GetJob(waiting(f), &fireoncev1.GetJobRequest{Job: &fireoncev1.GetJobRequest_JobId{JobId: id}})
	if err != nil {
		f.Fatal(err)
	}
	return resp.GetJob()
}

// settleTime is the time from the arm of a feed's job, just before its post, to the
// beginning of the last look that proves an absence: answer deadline, grace, read lag, and
// the five read lags between two looks.
const settleTime = sendTimeout + fleetGrace + feedLag + 5*feedLag

// TestLookLagsBehind checks a platform that shows a post only after a while and whose answer
// was lost. Within the settle time the job does not post again.
func TestLookLagsBehind(t *testing.T) {
	t.Parallel()
	for _, share := range []int{10, 50, 90} {
		lag := settleTime * time.Duration(share) / 100
		t.Run(fmt.Sprintf("%d percent of the settle time", share), func(t *testing.T) {
			t.Parallel()
			if twice, jobs := postedTwice(t, lag); twice != 0 {
				t.Errorf("%d of %d posts with a lag of %v are there twice", twice, jobs, lag)
			}
		})
	}
	for _, share := range []int{100, 120, 200} {
		lag := settleTime * time.Duration(share) / 100
		t.Run(fmt.Sprintf("beyond: %d percent of the settle time", share), func(t *testing.T) {
			t.Parallel()
			if !longRun {
				t.Skip("measured with " + longVariable + "=1: nothing can be promised there")
			}
			twice, jobs := postedTwice(t, lag)
			t.Logf("MEASURED: lag %v, settle time %v: %d of %d posts are there twice", lag, settleTime, twice, jobs)
		})
	}
}

// postedTwice returns how many posts exist more than once if each answer is lost and posts
// become visible after lag.
func postedTwice(t *testing.T, lag time.Duration) (twice, jobs int) {
	t.Helper()
	to := startPosts(t, feedtest.Options{ReadLag: lag, Plan: func(r feedtest.Request) feedtest.Answer {
		if r.Method == http.MethodPost && r.Number == 1 {
			return feedtest.Reset
		}
		return feedtest.Reply
	}})
	c := newCrash(t, onPostgres, "", fireoncev1.EffectClass_EFFECT_CLASS_OBSERVABLE, to)
	c.jobs = scaled(c.jobs)
	c.start()
	c.submit()
	c.settle(c.jobs)
	c.stop()
	for i := range c.jobs {
		switch n := to.Effects(subjectOf(i)); {
		case n == 0:
			t.Errorf("%s was never posted", subjectOf(i))
		case n > 1:
			twice++
		}
	}
	return twice, c.jobs
}
