//go:build unix

package postgres

import (
	"context"
	"errors"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// successOf is what the engine writes when the first attempt of a job has succeeded.
func successOf(t *testing.T, s job.Snapshot) store.Change {
	t.Helper()
	out := job.Outcome{Attempt: s.Attempt, Result: job.ResultSucceeded, HTTPStatus: 204, BytesWritten: 77, Message: "it answered 204"}
	d, err := job.Decide(s.View(job.Traits{Class: s.Class}, 0), out)
	if err != nil {
		t.Fatal(err)
	}
	return store.Change{Job: s.ID, Version: s.Version, Decision: d, Actor: "w"}
}

// Every field of a decision with more data than a common success makes it one to be judged.
func TestPlainSuccess(t *testing.T) {
	s := job.Snapshot{Job: job.Job{Spec: job.Spec{ID: job.ID{1}}, Status: job.Status{
		State: job.Sending, Version: 3, Attempt: 1, Round: 1, Class: job.Keyed,
	}}, Open: []int{1}}
	if c := successOf(t, s); !isCommonSuccess(&c) {
		t.Fatalf("not usual: %+v", c)
	}
	touch := func(name string, v reflect.Value, check func(string)) {
		old := reflect.New(v.Type()).Elem()
		old.Set(v)
		switch {
		case v.Type() == reflect.TypeFor[time.Time]():
			v.Set(reflect.ValueOf(time.Unix(1, 0)))
		case v.Type() == reflect.TypeFor[job.ID]():
			v.Set(reflect.ValueOf(job.ID{1}))
		case v.CanInt():
			v.SetInt(v.Int() + 1)
		case v.CanUint():
			v.SetUint(v.Uint() + 1)
		case v.Kind() == reflect.Bool:
			v.SetBool(!v.Bool())
		case v.Kind() == reflect.String:
			v.SetString(v.String() + "x")
		case v.Kind() == reflect.Pointer && v.IsNil():
			v.Set(reflect.New(v.Type().Elem()))
		case v.Kind() == reflect.Pointer:
			v.Set(reflect.Zero(v.Type()))
		case v.Kind() == reflect.Slice:
			v.Set(reflect.Append(v, reflect.Zero(v.Type().Elem())))
		default:
			t.Fatalf("%s: no other value", name)
		}
		check(name)
		v.Set(old)
	}
	for _, of := range []func(*store.Change) reflect.Value{
		func(c *store.Change) reflect.Value { return reflect.ValueOf(&c.Decision).Elem() },
		func(c *store.Change) reflect.Value { return reflect.ValueOf(&c.Decision.Settle[0]).Elem() },
		func(c *store.Change) reflect.Value { return reflect.ValueOf(c.Decision.Effect).Elem() },
	} {
		c := successOf(t, s)
		v := of(&c)
		for i := range v.NumField() {
			name := v.Type().Field(i).Name
			// They are written as they are; an effect's time is the database's.
			want := name == "HTTPStatus" || name == "BytesWritten" || name == "Message" || name == "At"
			touch(v.Type().String()+"."+name, v.Field(i), func(name string) {
				if got := isCommonSuccess(&c); got != want {
					t.Errorf("%s: usual %t", name, got)
				}
			})
		}
	}
	for name, edit := range map[string]func(*store.Change){
		"a reason": func(c *store.Change) { c.Reason = "why" },
		"content":  func(c *store.Change) { c.Content = &store.Content{} },
	} {
		c := successOf(t, s)
		if edit(&c); isCommonSuccess(&c) {
			t.Errorf("%s: usual", name)
		}
	}
}

// blocked runs write while another session has done what text says, in a transaction
// that it commits once write waits for it.
func (f *fleet) blocked(text string, write func()) {
	f.Helper()
	conn, err := pgx.Connect(f.Context(), f.url)
	if err != nil {
		f.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	if _, err := conn.Exec(f.Context(), "BEGIN; "+text); err != nil {
		f.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(write)
	for f.count("SELECT count(*) FROM pg_locks WHERE NOT granted") == 0 && !f.Failed() {
		continue
	}
	if _, err := conn.Exec(f.Context(), "COMMIT"); err != nil {
		f.Fatal(err)
	}
	wg.Wait()
}

// A common success that waited for its job judges the job's new state.
func TestSuccessOfAChangedJob(t *testing.T) {
	for name, tt := range map[string]struct {
		change string
		want   error
	}{
		"its fence moved":  {"next_at = next_at + interval '1 minute'", nil},
		"cancel asked":     {"cancel_asked_at = now(), version = version + 1, position = position + 1", store.ErrStale},
		"moved on":         {"version = version + 1, position = position + 1, state = 5", store.ErrStale},
		"looks and claims": {"looks = 2, claims = 1", nil},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, 1)
			f.submit(1, f.connect())
			s := f.armed(1)[0]
			c := successOf(t, s)
			var got store.Applied
			f.blocked("UPDATE job_state SET "+tt.change+" WHERE job_id = '"+s.ID.String()+"'", func() {
				out, err := f.stores[0].Apply(context.Background(), []store.Change{c})
				if err != nil {
					t.Error(err)
					return
				}
				got = out[0]
			})
			if !errors.Is(got.Err, tt.want) {
				t.Errorf("applied: %v, want %v", got.Err, tt.want)
			}
			succeeded := f.count("SELECT count(*) FROM job_state WHERE state = 8 AND claims = 0 AND looks = 0") == 1 &&
				f.count("SELECT count(*) FROM every_attempt WHERE result = 1") == 1
			if succeeded != (tt.want == nil) {
				t.Errorf("succeeded: %t", succeeded)
			}
			if got.Err == nil {
				f.same(got.Snapshot)
				f.consistent()
			}
		})
	}
}

// armed claims and arms n jobs.
func (f *fleet) armed(n int) []job.Snapshot {
	f.Helper()
	var out []job.Snapshot
	for _, l := range f.claim(n) {
		a, err := armOne(f.stores[0], intentOf(l))
		if err != nil {
			f.Fatal(err)
		}
		out = append(out, a.Snapshot.Of(l.Spec))
	}
	return out
}

// same compares what a change answered with what is stored.
func (f *fleet) same(got job.Snapshot) {
	f.Helper()
	stored, err := f.stores[0].Job(f.Context(), store.Ref{ID: got.ID})
	if err != nil {
		f.Fatal(err)
	}
	got = got.Of(stored.Spec)
	if got.Now = stored.Now; !reflect.DeepEqual(got, stored) {
		f.Errorf("answered %+v\nstored %+v", got, stored)
	}
}

// A job that began to wait for another one while its success was written starts too.
func TestSuccessLetsANewcomerGo(t *testing.T) {
	f := newFleet(t, 1)
	conn := f.connect()
	f.submit(1, conn)
	s := f.armed(1)[0]
	f.submit(1, conn)
	c := successOf(t, s)
	f.blocked(`SELECT FROM job_state WHERE job_id = '`+s.ID.String()+`' FOR NO KEY UPDATE;
		UPDATE job_state SET waits_for = '`+s.ID.String()+`' WHERE state = 1`, func() {
		if out, err := f.stores[0].Apply(context.Background(), []store.Change{c}); err != nil || out[0].Err != nil {
			t.Error(err, out)
		}
	})
	if n := f.count("SELECT count(*) FROM job_state WHERE waits_for IS NOT NULL"); n != 0 {
		t.Error("it waits for a job that is done")
	}
	f.claim(1)
}

// A common success that waited for its connection's claim lock frees the connection.
func TestSuccessFreesItsConnection(t *testing.T) {
	f := newFleet(t, 1)
	f.submit(2, f.connect(func(c *store.Connection) { c.MaxInFlight = 2 }))
	both := f.armed(2)
	f.blocked(`SELECT FROM connection_claims FOR UPDATE; UPDATE connection_claims SET bucket_at = bucket_at + 1;
		UPDATE connection_ready SET saturated = true`, func() {
		out, err := f.stores[0].Apply(context.Background(), []store.Change{successOf(t, both[0]), successOf(t, both[1])})
		if err != nil || out[0].Err != nil || out[1].Err != nil {
			t.Error(err, out)
		}
	})
	if n := f.count("SELECT count(*) FROM connection_ready WHERE saturated"); n != 0 {
		t.Error("the connection is still set aside")
	}
}

// So does one whose batch has nothing else to write.
func TestSuccessFreesItsConnectionAlone(t *testing.T) {
	f := newFleet(t, 1)
	f.submit(2, f.connect(func(c *store.Connection) { c.MaxInFlight = 1 }))
	s := f.armed(1)[0]
	f.claim(0)
	if f.count("SELECT count(*) FROM connection_ready WHERE saturated") != 1 {
		t.Fatal("the connection is not set aside")
	}
	f.submit(1, f.connect())
	stale := successOf(t, f.armed(1)[0])
	stale.Reason, stale.Version = "to be judged", stale.Version-1
	out, err := f.stores[0].Apply(t.Context(), []store.Change{successOf(t, s), stale})
	if err != nil || out[0].Err != nil || !errors.Is(out[1].Err, store.ErrStale) {
		t.Fatal(out, err)
	}
	f.consistent()
	f.claim(1)
}

// A batch of common successes and other changes has each verdict.
func TestSuccessesAmongOthers(t *testing.T) {
	f := newFleet(t, 1)
	f.submit(6, f.connect())
	jobs := f.armed(6)
	var items []store.Change
	for _, s := range jobs {
		items = append(items, successOf(t, s))
	}
	failed, err := job.Decide(jobs[1].View(job.Traits{Class: job.Keyed}, 0),
		job.Outcome{Attempt: 1, Result: job.ResultRejected, Kind: job.FailPermanent, Message: "no"})
	if err != nil {
		t.Fatal(err)
	}
	items[1].Decision = failed
	items[2].Reason = "a reason"
	items[3].Version--
	items = append(items, items[4], store.Change{Job: job.ID{1}, Version: 3, Decision: items[0].Decision})
	out, err := f.stores[0].Apply(t.Context(), items)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []error{nil, nil, nil, store.ErrStale, nil, nil, store.ErrStale, store.ErrNotFound} {
		if !errors.Is(out[i].Err, want) {
			t.Errorf("item %d: %v, want %v", i, out[i].Err, want)
		}
		if out[i].Err == nil {
			f.same(out[i].Snapshot)
		}
	}
	n := f.count("SELECT count(*) FROM every_attempt WHERE result = 1 AND http_status = 204 AND bytes_written = 77 AND message = 'it answered 204'")
	if n != 4 {
		t.Errorf("%d attempts have succeeded", n)
	}
	f.consistent()
}
