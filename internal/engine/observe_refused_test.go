package engine_test

import (
	"context"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/lookup"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// reader is a platform that refuses credentials where it is read.
type reader struct {
	*platform
	// atMark, atLook and atPoll report whether a version is refused there.
	atMark, atLook, atPoll func(version int) bool
	// looks, polls and marks count the calls, by the version of the credential.
	looks, polls, marks map[int]int
}

func (r *reader) Watermark(ctx context.Context, o connector.Opening) (string, error) {
	r.mu.Lock()
	r.marks[o.Credential.Version]++
	r.mu.Unlock()
	if r.atMark != nil && r.atMark(o.Credential.Version) {
		return "", &connector.Refusal{Kind: job.FailAuth, Auth: job.AuthAccountBarred, Msg: "Reconnect this account"}
	}
	return r.platform.Watermark(ctx, o)
}

func (r *reader) Observe(ctx context.Context, o connector.Opening, l connector.Look) job.Observation {
	r.mu.Lock()
	r.looks[o.Credential.Version]++
	r.mu.Unlock()
	if r.atLook != nil && r.atLook(o.Credential.Version) {
		return lookup.Unseen(&connector.Refusal{Kind: job.FailAuth, Auth: job.AuthAccountBarred, Msg: "Reconnect this account"})
	}
	return r.platform.Observe(ctx, o, l)
}

func (r *reader) Poll(ctx context.Context, o connector.Opening, handle string) job.Outcome {
	r.mu.Lock()
	r.polls[o.Credential.Version]++
	r.mu.Unlock()
	if r.atPoll != nil && r.atPoll(o.Credential.Version) {
		return job.Outcome{Result: job.ResultUnknown, Kind: job.FailAuth, Auth: job.AuthAccountBarred, Message: "Reconnect this account"}
	}
	return r.platform.Poll(ctx, o, handle)
}

// read puts a reader in the place of the world's platform, with its first credential.
func (w *world) read(r *reader) *reader {
	w.t.Helper()
	r.platform, r.looks, r.polls, r.marks = w.platform, map[int]int{}, map[int]int{}, map[int]int{}
	registry, err := connector.NewRegistry(r)
	if err != nil {
		w.t.Fatal(err)
	}
	w.config.Connectors = registry
	w.config.Open = func(_ store.Connection, s store.Sealed) (connector.Credential, error) {
		return connector.Credential{Version: s.Version, Data: s.Data}, nil
	}
	w.rotate()
	return r
}

// loses makes the first answer get lost, after the effect or before it.
func (w *world) loses(after bool) {
	w.platform.publish = func(n int, c connector.Commit) job.Outcome {
		if n > 1 {
			return w.platform.confirm(c)
		}
		if after {
			w.platform.commit(c.EffectKey)
		}
		return unknown("no answer")
	}
}

func isFirst(version int) bool { return version == 1 }

// held checks that the account is held, and that the job waits and has used up no attempt.
func (w *world) held(id job.ID, state job.State) {
	w.t.Helper()
	conn, s := w.connection(), w.job(id)
	if conn.AuthHoldAt.IsZero() || conn.AuthHoldReason != "Reconnect this account" || conn.AuthHoldCause != job.AuthAccountBarred {
		w.t.Fatalf("connection %+v\n%s", conn, w.story(id))
	}
	if s.State != state || s.Blocked != "Reconnect this account" || s.Attempt != 1 || s.Looks != 0 || s.Negatives != 0 || s.Failures != 0 {
		w.t.Fatalf("%s, blocked by %q, attempt %d, %d looks, %d negatives, %d failures\n%s",
			s.State, s.Blocked, s.Attempt, s.Looks, s.Negatives, s.Failures, w.story(id))
	}
}

// A look whose credential is refused holds the account. However long that lasts, no
// budget runs out, no policy is applied, and the platform is not called. With a new
// credential the look is made, and finds the truth.
func TestLookRefused(t *testing.T) {
	for _, tt := range []struct {
		name    string
		effect  bool
		policy  job.Delivery
		hold    time.Duration
		end     job.State
		effects int
		run     func(*testing.T, func(*testing.T, *world), ...option)
	}{
		{"there, held for hours", true, job.OnceOrAsk, 6 * time.Hour, job.Succeeded, 1, in},
		{"there, to be sent again if unknown", true, job.AtLeastOnce, 90 * time.Minute, job.Succeeded, 1, in},
		{"there, to be sent again if unknown, held for hours", true, job.AtLeastOnce, 6 * time.Hour, job.Succeeded, 1, in},
		{"not there, taken as sent if unknown", false, job.AtMostOnce, 90 * time.Minute, job.Succeeded, 1, in},
		{"not there, held for an hour", false, job.OnceOrAsk, time.Hour, job.Succeeded, 1, onBoth},
		{"not there, the time to keep trying is over", false, job.OnceOrAsk, 6 * time.Hour, job.Failed, 0, in},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.run(t, func(t *testing.T, w *world) {
				w.loses(tt.effect)
				r := w.read(&reader{atLook: isFirst})
				w.start()
				id := w.submit("k", policy(tt.policy))
				w.pass(5 * time.Minute)
				w.held(id, job.Ambiguous)
				w.pass(tt.hold)
				w.held(id, job.Ambiguous)
				if r.looks[1] != 1 || w.platform.sent() != 1 {
					t.Errorf("%d looks with the refused credential, %d requests\n%s", r.looks[1], w.platform.sent(), w.story(id))
				}
				w.rotate()
				s := w.until(id, tt.end, 5*time.Minute)
				if w.platform.total() != tt.effects || s.Blocked != "" || s.Failures > 1 || r.looks[2] == 0 {
					t.Errorf("%d effects, blocked by %q\n%s", w.platform.total(), s.Blocked, w.story(id))
				}
				if tt.effect && (s.Effect.Proof != job.ProofObserved || s.Attempt != 1) {
					t.Errorf("%+v\n%s", s.Effect, w.story(id))
				}
			}, class(job.Observable))
		})
	}
}

// A hold between two absences neither takes one back nor adds one.
func TestLookRefusedBetweenAbsences(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.loses(false)
		asked := 0
		r := w.read(&reader{atLook: func(version int) bool {
			asked++
			return version == 1 && asked > 1
		}})
		w.start()
		id := w.submit("k")
		w.pass(time.Hour)
		if s := w.job(id); s.State != job.Ambiguous || s.Negatives != 1 || s.Looks != 1 || r.looks[1] != 2 {
			t.Fatalf("%s, %d negatives, %d looks\n%s", s.State, s.Negatives, s.Looks, w.story(id))
		}
		w.rotate()
		if s := w.until(id, job.Succeeded, 5*time.Minute); s.Attempt != 2 || w.platform.total() != 1 || r.looks[2] != 2 {
			t.Errorf("attempt %d, %d effects, %v looks\n%s", s.Attempt, w.platform.total(), r.looks, w.story(id))
		}
	}, class(job.Observable))
}

// A read before the arm, for the watermark or before a later attempt, is refused: that
// holds the account too, and uses up no attempt.
func TestReadRefusedBeforeArm(t *testing.T) {
	t.Run("the watermark", func(t *testing.T) {
		in(t, func(t *testing.T, w *world) {
			r := w.read(&reader{atMark: isFirst})
			w.start()
			id := w.submit("k")
			w.pass(time.Hour)
			if s := w.job(id); s.State != job.Scheduled || s.Failures != 0 || w.connection().AuthHoldAt.IsZero() || r.marks[1] != 1 {
				t.Errorf("%s, %d failures, asked %d times\n%s", s.State, s.Failures, r.marks[1], w.story(id))
			}
			w.rotate()
			if s := w.until(id, job.Succeeded, time.Minute); s.Attempt != 1 || s.Failures != 0 || w.platform.total() != 1 {
				t.Errorf("attempt %d, %d effects\n%s", s.Attempt, w.platform.total(), w.story(id))
			}
		}, class(job.Observable))
	})
	t.Run("the look before a later attempt", func(t *testing.T) {
		in(t, func(t *testing.T, w *world) {
			w.platform.publish = func(n int, c connector.Commit) job.Outcome {
				if n > 1 {
					return w.platform.confirm(c)
				}
				return job.Outcome{Result: job.ResultRejected, Kind: job.FailTransient, Message: "not now"}
			}
			r := w.read(&reader{atLook: isFirst})
			w.start()
			id := w.submit("k")
			w.pass(time.Hour)
			s := w.job(id)
			if s.State != job.Retrying || s.Attempt != 1 || s.Failures != 1 || w.connection().AuthHoldAt.IsZero() || r.looks[1] != 1 {
				t.Errorf("%s, %d failures, looked %d times\n%s", s.State, s.Failures, r.looks[1], w.story(id))
			}
			w.rotate()
			if s := w.until(id, job.Succeeded, time.Minute); s.Attempt != 2 || s.Failures != 1 || w.platform.total() != 1 {
				t.Errorf("attempt %d, %d effects\n%s", s.Attempt, w.platform.total(), w.story(id))
			}
		}, class(job.Observable))
	})
}

// accepts makes the platform accept the first request for work, and confirm every later one.
func (w *world) accepts() {
	w.platform.publish = func(n int, c connector.Commit) job.Outcome {
		if n > 1 {
			return w.platform.confirm(c)
		}
		w.platform.commit(c.EffectKey)
		return job.Outcome{Result: job.ResultAccepted, Handle: "handle"}
	}
	w.platform.poll = func(string) job.Outcome {
		return job.Outcome{Result: job.ResultSucceeded, ExternalID: "post"}
	}
}

// A poll whose credential is refused holds the account, says nothing about the handle,
// and is made again with the next credential.
func TestPollRefused(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		w.accepts()
		r := w.read(&reader{atPoll: isFirst})
		w.start()
		id := w.submit("k", policy(job.AtMostOnce))
		w.pass(time.Minute)
		w.held(id, job.Accepted)
		w.pass(3 * time.Hour)
		w.held(id, job.Accepted)
		if r.polls[1] != 1 {
			t.Errorf("%d polls with the refused credential", r.polls[1])
		}
		w.rotate()
		s := w.until(id, job.Succeeded, time.Minute)
		if s.Effect.ExternalID != "post" || s.Effect.Proof != job.ProofResponse || s.Attempt != 1 || w.platform.sent() != 1 || r.polls[2] != 1 {
			t.Errorf("attempt %d, %+v, %v polls\n%s", s.Attempt, s.Effect, r.polls, w.story(id))
		}
	}, class(job.Handle))
}

// A replay whose credential is refused holds the account and uses up none of the
// replays. While the key is remembered it is made with the next credential; after
// that a person decides, and nothing is sent.
func TestReplayRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		hold time.Duration
		end  job.State
		sent int
	}{
		"the key is remembered": {time.Hour, job.Succeeded, 2},
		"the window is over":    {6 * time.Hour, job.NeedsResolution, 1},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T, w *world) {
				w.loses(true)
				opened := 0
				w.guard(&guarded{why: job.AuthAccountBarred, atOpen: func(version int) bool {
					opened++
					return version == 1 && opened > 1
				}})
				w.start()
				id := w.submit("k")
				w.pass(time.Minute)
				w.held(id, job.Ambiguous)
				w.pass(tt.hold)
				if opened != 2 {
					t.Errorf("opened %d times", opened)
				}
				w.rotate()
				if s := w.until(id, tt.end, time.Minute); w.platform.sent() != tt.sent || w.platform.total() != 1 || s.Looks != 0 {
					t.Errorf("%d requests, %d effects, %d looks\n%s", w.platform.sent(), w.platform.total(), s.Looks, w.story(id))
				}
			}, class(job.Keyed))
		})
	}
}

// Where the credential can be renewed, a refused read renews it once, and is made
// again. Nothing is held, and nothing is counted.
func TestReadRenews(t *testing.T) {
	for name, tt := range map[string]struct {
		class  job.Class
		reader reader
		begin  func(*world)
		later  bool // the renewal fails at first
	}{
		"a look":               {job.Observable, reader{atLook: isFirst}, func(w *world) { w.loses(true) }, false},
		"a look, later":        {job.Observable, reader{atLook: isFirst}, func(w *world) { w.loses(true) }, true},
		"a poll":               {job.Handle, reader{atPoll: isFirst}, func(w *world) { w.accepts() }, false},
		"a poll, later":        {job.Handle, reader{atPoll: isFirst}, func(w *world) { w.accepts() }, true},
		"the watermark":        {job.Observable, reader{atMark: isFirst}, func(*world) {}, false},
		"the watermark, later": {job.Observable, reader{atMark: isFirst}, func(*world) {}, true},
		"a repeat of a KEYED":  {job.Keyed, reader{}, func(w *world) { w.loses(true) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T, w *world) {
				tt.begin(w)
				rd := tt.reader
				w.read(&rd)
				if tt.class == job.Keyed {
					w.platform.open = func(n int) error {
						if n == 2 {
							return &connector.Refusal{Kind: job.FailAuth, Msg: "Reconnect this account"}
						}
						return nil
					}
				}
				failed := 0
				r := w.refresh(&refresher{fail: func() error {
					if failed++; tt.later && failed <= 100 {
						return &connector.Refusal{Kind: job.FailHeld, Msg: "could not be reached", RetryAfter: 30 * time.Second}
					}
					return nil
				}})
				w.start()
				id := w.submit("k")
				if tt.later {
					w.pass(40 * time.Minute) // looks would be used up by then
					if s := w.job(id); s.State.Terminal() || s.Looks != 0 || s.Failures != 0 || s.Blocked != "could not be reached" {
						t.Fatalf("%s, %d looks, blocked by %q\n%s", s.State, s.Looks, s.Blocked, w.story(id))
					}
					failed = 100
				}
				s := w.until(id, job.Succeeded, 10*time.Minute)
				if w.platform.total() != 1 || s.Attempt > 2 || tt.class != job.Keyed && s.Attempt != 1 || s.Failures != 0 {
					t.Errorf("attempt %d, %d effects\n%s", s.Attempt, w.platform.total(), w.story(id))
				}
				if !tt.later && r.times() != 1 {
					t.Errorf("renewed %d times\n%s", r.times(), w.story(id))
				}
				if conn := w.connection(); !conn.AuthHoldAt.IsZero() || conn.CredentialVersion != 2 {
					t.Errorf("connection %+v\n%s", conn, w.story(id))
				}
			}, class(tt.class))
		})
	}
}

// A credential that is refused after a renewal holds: it is renewed once.
func TestReadRenewsOnce(t *testing.T) {
	always := func(int) bool { return true }
	for name, tt := range map[string]struct {
		class  job.Class
		reader reader
		begin  func(*world)
		state  job.State
	}{
		"a look": {job.Observable, reader{atLook: always}, func(w *world) { w.loses(true) }, job.Ambiguous},
		"a poll": {job.Handle, reader{atPoll: always}, func(w *world) { w.accepts() }, job.Accepted},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T, w *world) {
				tt.begin(w)
				rd := tt.reader
				w.read(&rd)
				n := 0
				r := w.refresh(&refresher{fail: func() error {
					if n++; n > 1 {
						return &connector.Refusal{Kind: job.FailAuth, Msg: "Reconnect this account"}
					}
					return nil
				}})
				w.start()
				id := w.submit("k")
				w.pass(6 * time.Hour)
				w.held(id, tt.state)
				if r.times() != 2 || rd.looks[1]+rd.polls[1] != 1 || rd.looks[2]+rd.polls[2] != 1 {
					t.Errorf("asked to renew %d times; looks %v, polls %v\n%s", r.times(), rd.looks, rd.polls, w.story(id))
				}
			}, class(tt.class))
		})
	}
}

// The platform says of an accepted post that it came to nothing, because the account
// has withdrawn its permission. With a credential that can be renewed, the job is
// sent again under the new one; otherwise it waits for a person, at no cost.
func TestPolledRejectionOfCredential(t *testing.T) {
	wait := &connector.Refusal{Kind: job.FailHeld, Msg: "could not be reached", RetryAfter: 10 * time.Second}
	ended := &connector.Refusal{Kind: job.FailAuth, Msg: "Reconnect this account"}
	for name, tt := range map[string]struct {
		fail func(n int) error // nil: nothing can be renewed
		held bool
		// version is the second attempt's; this refresher renews when it is asked only.
		version int
	}{
		"renewed":          {func(int) error { return nil }, false, 2},
		"not renewed yet":  {func(int) error { return wait }, false, 1},
		"login has ended":  {func(int) error { return ended }, true, 2},
		"nothing to renew": {nil, true, 2},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T, w *world) {
				w.platform.publish = func(n int, c connector.Commit) job.Outcome {
					if n > 1 {
						return w.platform.confirm(c)
					}
					return job.Outcome{Result: job.ResultAccepted, Handle: "handle"}
				}
				w.platform.poll = func(string) job.Outcome {
					return job.Outcome{Result: job.ResultRejected, Kind: job.FailAuth, Message: "Reconnect this account"}
				}
				w.read(&reader{})
				if tt.fail != nil {
					n := 0
					w.refresh(&refresher{fail: func() error { n++; return tt.fail(n) }})
				}
				w.start()
				id := w.submit("k")
				if tt.held {
					w.pass(90 * time.Minute)
					s := w.job(id)
					if s.State != job.Retrying || s.Failures != 0 || w.platform.sent() != 1 || w.connection().AuthHoldAt.IsZero() {
						t.Fatalf("%s, %d failures, %d requests\n%s", s.State, s.Failures, w.platform.sent(), w.story(id))
					}
					w.rotate()
				}
				s := w.until(id, job.Succeeded, 5*time.Minute)
				if s.Attempt != 2 || s.Failures != 0 || w.platform.total() != 1 || !w.connection().AuthHoldAt.IsZero() {
					t.Errorf("attempt %d, %d failures, %d effects\n%s", s.Attempt, s.Failures, w.platform.total(), w.story(id))
				}
				if a := w.attempts(id); a[0].Result != job.ResultRejected || a[1].CredentialVersion != tt.version {
					t.Errorf("%+v", a)
				}
			}, class(job.Handle))
		})
	}
}
