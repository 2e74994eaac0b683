package storetest

import (
	"context"
	"errors"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

var callTests = []test{
	{"a context that has ended", callsEnded},
	{"after Close", callsClosed},
	{"time never goes backwards", callsTime},
}

// calls are all methods that take a context.
func calls(f *fixture, n store.NewJob) map[string]func(context.Context) error {
	p := store.ClaimParams{Lease: lease, Limit: 1}
	ref := store.Ref{ID: n.Spec.ID}
	return map[string]func(context.Context) error{
		"Create": func(c context.Context) error { _, err := f.s.Create(c, []store.NewJob{n}); return err },
		"Job":    func(c context.Context) error { _, err := f.s.Job(c, ref); return err },
		"List":   func(c context.Context) error { _, err := f.s.List(c, store.JobQuery{Project: project}); return err },
		"Count": func(c context.Context) error {
			_, err := f.s.Count(c, store.JobQuery{Project: project}, store.ByNothing)
			return err
		},
		"Roll": func(c context.Context) error { _, err := f.s.Roll(c, store.RollParams{Owner: ref.ID}); return err },
		"Series": func(c context.Context) error {
			_, err := f.s.Series(c, store.SeriesQuery{Project: project, Width: store.Day})
			return err
		},
		"JobNames":     func(c context.Context) error { _, err := f.s.JobNames(c, project, []job.ID{ref.ID}); return err },
		"Attempts":     func(c context.Context) error { _, err := f.s.Attempts(c, ref, 0, 1); return err },
		"Observations": func(c context.Context) error { _, err := f.s.Observations(c, ref, 0, 1); return err },
		"Events":       func(c context.Context) error { _, err := f.s.Events(c, store.EventQuery{}); return err },
		"Claim":        func(c context.Context) error { _, err := f.s.Claim(c, p); return err },
		"ClaimLooks":   func(c context.Context) error { _, err := f.s.ClaimLooks(c, p); return err },
		"Renew":        func(c context.Context) error { _, err := f.s.Renew(c, lease, nil); return err },
		"Arm":          func(c context.Context) error { _, err := f.s.Arm(c, nil); return err },
		"ArmedBy":      func(c context.Context) error { _, err := f.s.ArmedBy(c, ref.ID, ref.ID); return err },
		"SaveHandle":   func(c context.Context) error { return f.s.SaveHandle(c, ref.ID, 1, "h") },
		"Apply":        func(c context.Context) error { _, err := f.s.Apply(c, nil); return err },
		"Overdue":      func(c context.Context) error { _, err := f.s.Overdue(c, 1); return err },
		"Owners":       func(c context.Context) error { _, err := f.s.Owners(c, ref.ID, 1, []string{"x"}); return err },
		"Doubtful":     func(c context.Context) error { _, err := f.s.Doubtful(c, start, 1); return err },
		"Stats":        func(c context.Context) error { _, err := f.s.Stats(c, store.StatsQuery{Project: project}); return err },
		"NextDue":      func(c context.Context) error { _, err := f.s.NextDue(c, time.Second); return err },
		"Retain":       func(c context.Context) error { _, err := f.s.Retain(c, store.RetainParams{Owner: ref.ID}); return err },
		"CreateSchedule": func(c context.Context) error {
			_, _, err := f.s.CreateSchedule(c, f.newSchedule())
			return err
		},
		"Schedule": func(c context.Context) error { _, err := f.s.Schedule(c, ref); return err },
		"ListSchedules": func(c context.Context) error {
			_, err := f.s.ListSchedules(c, store.ScheduleQuery{Project: project})
			return err
		},
		"ChangeSchedule": func(c context.Context) error { _, err := f.s.ChangeSchedule(c, store.ScheduleChange{}); return err },
		"Fire":           func(c context.Context) error { _, _, err := f.s.Fire(c, store.FireParams{Decide: f.beat}); return err },
		"Firings": func(c context.Context) error {
			_, err := f.s.Firings(c, store.FiringQuery{Schedule: ref.ID})
			return err
		},
		"AddItem": func(c context.Context) error {
			_, _, err := f.s.AddItem(c, store.NewItem{Item: store.ScheduleItem{ID: ref.ID, Schedule: ref.ID, Key: "k"}})
			return err
		},
		"Item": func(c context.Context) error {
			_, err := f.s.Item(c, store.ItemRef{Schedule: ref.ID, ID: ref.ID})
			return err
		},
		"Items": func(c context.Context) error { _, err := f.s.Items(c, store.ItemQuery{Schedule: ref.ID}); return err },
		"ChangeItem": func(c context.Context) error {
			_, err := f.s.ChangeItem(c, store.ItemChange{Ref: store.ItemRef{Schedule: ref.ID, ID: ref.ID}, Remove: true})
			return err
		},
		"NextFiring":   func(c context.Context) error { _, err := f.s.NextFiring(c, time.Second, nil); return err },
		"Meta":         func(c context.Context) error { _, err := f.s.Meta(c); return err },
		"Quarantine":   func(c context.Context) error { return f.s.Quarantine(c, "why") },
		"Release":      func(c context.Context) error { return f.s.Release(c) },
		"SetNamespace": func(c context.Context) error { return f.s.SetNamespace(c, "mine", false) },
		"Connection": func(c context.Context) error {
			_, err := f.s.Connection(c, store.Ref{Project: project, ID: f.conn.ID})
			return err
		},
		"Credential": func(c context.Context) error { _, err := f.s.Credential(c, f.conn.ID); return err },
		"ReadLogin":  func(c context.Context) error { _, err := f.s.ReadLogin(c, make([]byte, 32)); return err },
		"KeyUse":     func(c context.Context) error { _, err := f.s.KeyUse(c); return err },
		"CredentialsOfOthers": func(c context.Context) error {
			_, err := f.s.CredentialsOfOthers(c, "k", store.SealedPlace{}, 1)
			return err
		},
		"Reseal":       func(c context.Context) error { _, err := f.s.Reseal(c, nil); return err },
		"CreateAPIKey": func(c context.Context) error { _, err := f.s.CreateAPIKey(c, newKey("a")); return err },
		"APIKey":       func(c context.Context) error { _, err := f.s.APIKey(c, "a"); return err },
		"Projects":     func(c context.Context) error { _, err := f.s.Projects(c, "", 1); return err },
		"ListAPIKeys":  func(c context.Context) error { _, err := f.s.ListAPIKeys(c, "", "", 1); return err },
		"RevokeAPIKey": func(c context.Context) error { _, err := f.s.RevokeAPIKey(c, "a"); return err },
		"TouchAPIKey":  func(c context.Context) error { _, err := f.s.TouchAPIKey(c, "a", 0); return err },
		"CreateConnection": func(c context.Context) error {
			_, _, err := f.s.CreateConnection(c, store.NewConnection{Connection: store.Connection{ID: f.id(), Class: job.Keyed}})
			return err
		},
		"ListConnections": func(c context.Context) error {
			_, err := f.s.ListConnections(c, store.ConnectionQuery{Project: project, Limit: 1})
			return err
		},
		"ChangeConnection": func(c context.Context) error {
			_, err := f.s.ChangeConnection(c, store.ConnectionChange{Project: project, ID: f.conn.ID, Version: 1})
			return err
		},
		"StartLogin": func(c context.Context) error {
			return f.s.StartLogin(c, store.Login{State: make([]byte, 32), Project: project}, time.Minute)
		},
		"TakeLogin": func(c context.Context) error { _, err := f.s.TakeLogin(c, project, make([]byte, 32)); return err },
		"BeginRenewal": func(c context.Context) error {
			_, err := f.s.BeginRenewal(c, store.RenewalParams{Connection: f.conn.ID})
			return err
		},
		"EndRenewal": func(c context.Context) error { return f.s.EndRenewal(c, f.conn.ID, f.id(), 0, false) },
		"CreateSubscription": func(c context.Context) error {
			_, _, err := f.s.CreateSubscription(c, f.newSubscription())
			return err
		},
		"Subscription": func(c context.Context) error { _, err := f.s.Subscription(c, ref); return err },
		"ListSubscriptions": func(c context.Context) error {
			_, err := f.s.ListSubscriptions(c, project, job.ID{}, 1)
			return err
		},
		"ChangeSubscription": func(c context.Context) error {
			_, err := f.s.ChangeSubscription(c, store.Subscription{ID: ref.ID})
			return err
		},
		"StepSubscription": func(c context.Context) error {
			_, err := f.s.StepSubscription(c, store.SubscriptionStep{Subscription: store.Subscription{ID: ref.ID}})
			return err
		},
		"Notices":      func(c context.Context) error { _, err := f.s.Notices(c, ref, 0, 1); return err },
		"LeaseNotices": func(c context.Context) error { _, err := f.s.LeaseNotices(c, "worker", lease); return err },
		"DueSubscriptions": func(c context.Context) error {
			_, _, err := f.s.DueSubscriptions(c, job.ID{}, 1, time.Second)
			return err
		},
		"Missed": func(c context.Context) error { _, err := f.s.Missed(c, project, f.conn.ID, 1); return err },
	}
}

func callsEnded(f *fixture) {
	n := f.new()
	ctx, cancel := context.WithCancel(f.ctx)
	cancel()
	for name, call := range calls(f, n) {
		if err := call(ctx); !errors.Is(err, context.Canceled) {
			f.Errorf("%s: %v", name, err)
		}
	}
	_, err := f.s.Job(f.ctx, store.Ref{ID: n.Spec.ID})
	f.fails(err, store.ErrNotFound)
}

func callsClosed(f *fixture) {
	n := f.new()
	f.ok(f.s.Close())
	for name, call := range calls(f, n) {
		if err := call(f.ctx); !errors.Is(err, store.ErrUnavailable) {
			f.Errorf("%s: %v", name, err)
		}
	}
	f.ok(f.s.Close())
}

func callsTime(f *fixture) {
	s := f.submit()
	f.clock.advance(-time.Hour)
	got := f.apply(s, job.CancelAsked{}).Snapshot
	f.is(got.Updated.Before(s.Updated), false, "%v is before %v", got.Updated, s.Updated)
}
