package engine_test

import (
	"context"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/job"
)

// slow is a platform that is uploaded to, and whose files have to be fetched first.
type slow struct {
	*platform
	sendTime, openTime time.Duration
	// fetches is how long Open really takes.
	fetches time.Duration
}

func (s *slow) Prepare(r connector.Request) (connector.Prepared, error) {
	p, err := s.platform.Prepare(r)
	p.OpenTime = s.openTime
	return p, err
}

func (s *slow) Open(ctx context.Context, o connector.Opening) (connector.Session, error) {
	fetched := time.NewTimer(s.fetches)
	defer fetched.Stop()
	select {
	case <-fetched.C:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	session, err := s.platform.Open(ctx, o)
	return uploading{Session: session, time: s.sendTime}, err
}

type uploading struct {
	connector.Session
	time time.Duration
}

func (u uploading) SendTime() time.Duration { return u.time }

func slowly(s *slow) option {
	return func(w *world) {
		s.platform = w.platform
		registry, err := connector.NewRegistry(s)
		if err != nil {
			w.t.Fatal(err)
		}
		w.config.Connectors = registry
	}
}

// An upload has more time, and the fence lies behind it.
func TestUploadHasItsTime(t *testing.T) {
	for name, c := range map[string]struct {
		class        job.Class
		window       time.Duration
		says         time.Duration
		send, answer time.Duration
	}{
		"an upload":                   {job.Opaque, 0, 2 * time.Minute, 2 * time.Minute, 2*time.Minute + 20*time.Second},
		"a handle's upload":           {job.Handle, 0, 2 * time.Minute, 2 * time.Minute, 2*time.Minute + 20*time.Second},
		"less than usual":             {job.Opaque, 0, time.Second, 10 * time.Second, 30 * time.Second},
		"negative":                    {job.Opaque, 0, -time.Hour, 10 * time.Second, 30 * time.Second},
		"without measure":             {job.Opaque, 0, time.Hour, 10 * time.Minute, 10*time.Minute + 20*time.Second},
		"KEYED, remembered for a day": {job.Keyed, 24 * time.Hour, 2 * time.Minute, 2 * time.Minute, 2*time.Minute + 20*time.Second},
		"KEYED, soon forgotten":       {job.Keyed, 4*time.Hour - time.Second, 2 * time.Minute, 10 * time.Second, 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T, w *world) {
				w.platform.window = c.window
				w.platform.publish = func(_ int, k connector.Commit) job.Outcome {
					time.Sleep(c.send - time.Second)
					if err := k.MaySend(); err != nil {
						t.Errorf("a second before the end: %v", err)
					}
					time.Sleep(2 * time.Second)
					if k.MaySend() == nil {
						t.Error("leave is given after the end")
					}
					return w.platform.confirm(k)
				}
				w.start()
				id := w.submit("one")
				w.until(id, job.Succeeded, time.Hour)
				a := w.attempts(id)
				if len(a) != 1 {
					t.Fatalf("%d attempts\n%s", len(a), w.story(id))
				}
				if send, answer := a[0].SendDeadline.Sub(a[0].ArmedAt), a[0].AnswerDeadline.Sub(a[0].ArmedAt); send != c.send || answer != c.answer {
					t.Errorf("%v to send, %v to answer; want %v, %v", send, answer, c.send, c.answer)
				}
			}, class(c.class), slowly(&slow{sendTime: c.says}))
		})
	}
}

// Files that have to be fetched may take longer than the usual preparations, the
// lease is kept meanwhile, and there is an end to it.
func TestFetchHasItsTime(t *testing.T) {
	for name, c := range map[string]struct {
		says, takes time.Duration
		want        job.State
	}{
		"usual":           {0, 19 * time.Second, job.Succeeded},
		"usual, too slow": {0, 21 * time.Second, job.Retrying},
		"long":            {3 * time.Minute, 170 * time.Second, job.Succeeded},
		"too slow":        {3 * time.Minute, 190 * time.Second, job.Retrying},
		"without measure": {time.Hour, 310 * time.Second, job.Retrying},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T, w *world) {
				w.start()
				w.start() // another one, which must not take the job over
				id := w.submit("one")
				s := w.until(id, c.want, 10*time.Minute)
				if n := w.count(id, job.CauseClaimed); n != 1 {
					t.Errorf("claimed %d times\n%s", n, w.story(id))
				}
				if n := w.count(id, job.CauseLeaseExpired); n != 0 || s.Claims != 0 {
					t.Errorf("the lease ran out %d times\n%s", n, w.story(id))
				}
			}, class(job.Opaque), slowly(&slow{openTime: c.says, fetches: c.takes}))
		})
	}
}

// A look gets every attempt that its verdict is about.
func TestLookKnowsItsAttempts(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		var seen [][]int
		w.platform.publish = func(n int, c connector.Commit) job.Outcome {
			if n == 1 {
				if err := c.SaveHandle("handle"); err != nil {
					t.Error(err)
				}
				return job.Outcome{Result: job.ResultRejected, Kind: job.FailTransient, Message: "no"}
			}
			return unknown("no answer")
		}
		w.platform.observe = func(l connector.Look) job.Observation {
			var numbers []int
			for _, a := range l.Attempts {
				numbers = append(numbers, a.Number)
			}
			seen = append(seen, numbers)
			if l.Attempts[0].Handle != "handle" || l.Attempts[1].Handle != "" || l.Attempts[1].Result.Open() == l.Attempts[0].Result.Open() {
				t.Errorf("attempts %+v", l.Attempts)
			}
			return job.Observation{Verdict: job.SawPresent, ExternalID: "post"}
		}
		w.start()
		id := w.submit("one")
		w.until(id, job.Succeeded, time.Hour)
		if len(seen) != 1 || len(seen[0]) != 2 || seen[0][0] != 1 || seen[0][1] != 2 {
			t.Errorf("looks at attempts %v\n%s", seen, w.story(id))
		}
	}, class(job.Handle))
}

// A handle is polled every 5 s for a minute and a half, then more slowly, for as long as
// the platform works: hours. Nothing is sent again meanwhile, and the answer that ends it
// settles the job.
func TestPollsForHours(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.platform.publish = func(_ int, c connector.Commit) job.Outcome {
			w.platform.commit(c.EffectKey)
			return job.Outcome{Result: job.ResultAccepted, Handle: "handle"}
		}
		var at []time.Time
		began := time.Now()
		w.platform.poll = func(string) job.Outcome {
			at = append(at, time.Now())
			if time.Since(began) < 6*time.Hour {
				return job.Outcome{Result: job.ResultAccepted}
			}
			return job.Outcome{Result: job.ResultSucceeded, ExternalID: "post"}
		}
		w.start()
		id := w.submit("one")
		s := w.until(id, job.Succeeded, 7*time.Hour)
		if w.platform.sent() != 1 || w.platform.total() != 1 || s.Attempt != 1 || s.Effect.ExternalID != "post" {
			t.Errorf("%d requests, %d effects, %+v\n%s", w.platform.sent(), w.platform.total(), s.Effect, w.story(id))
		}
		for i, want := range map[int]time.Duration{0: 5 * time.Second, 17: 90 * time.Second, 18: 105 * time.Second, 19: 165 * time.Second} {
			if got := at[i].Sub(began); got < want || got > want+3*time.Second {
				t.Errorf("poll %d after %v, want %v", i+1, got, want)
			}
		}
		if n := len(at); n < 360 || n > 400 {
			t.Errorf("%d polls in six hours", n)
		}
	}, class(job.Handle))
}
