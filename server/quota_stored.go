package server

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/fireonce/fireonce/store"
)

// Rules of this file: the use of a project is measured from time to time, and what this server
// adds between is counted here. So a submit makes no read of the store. The next measurement sees
// what other servers add: a limit is exceeded by at most what they store between two
// measurements, and what is being written at that moment.

const (
	// measureEvery is the time between two measurements of a project that stores jobs,
	// measureNear the one of a project that is near a limit.
	measureEvery = 5 * time.Second
	measureNear  = time.Second
	// measureShare bounds the part of the time that is spent on measuring a project:
	// one part in so many.
	measureShare = 20
	// maxMeasurements bounds the measurements that the database has to bear concurrently.
	maxMeasurements = 2
	// maxProjectsMeasured bounds the projects that are remembered.
	maxProjectsMeasured = 10_000
	// nearPercent of a limit is worth a line in the log.
	nearPercent = 80
	// From closePercent of a limit on, a project is measured more often.
	closePercent = 90
)

// admission decides whether jobs may be stored.
type admission struct {
	store   store.Quotas
	quotas  Quotas
	now     func() time.Time
	limit   time.Duration // the time for one measurement
	notes   *quotaLog
	permits chan struct{}
	work    sync.WaitGroup

	mu       sync.Mutex
	projects map[string]*projectUse
	closed   bool
}

// projectUse is a project's use, as measured and counted.
type projectUse struct {
	measured store.StoredJobs
	at       time.Time     // of the measurement; zero: there was none
	took     time.Duration // the measurement
	// added is the use that this server has taken since the measurement began, or was writing
	// then; writing is the part of it that has no answer yet.
	added, writing store.StoredJobs
	// busy is closed when the measurement under way has ended; nil: there is none. err is the
	// error of the last one.
	busy chan struct{}
	err  error
}

func newAdmission(s store.Quotas, quotas Quotas, now func() time.Time, limit time.Duration, notes *quotaLog) *admission {
	return &admission{
		store: s, quotas: quotas, now: now, limit: limit, notes: notes,
		permits: make(chan struct{}, maxMeasurements), projects: make(map[string]*projectUse),
	}
}

func sumOf(a, b store.StoredJobs) store.StoredJobs {
	return store.StoredJobs{Jobs: a.Jobs + b.Jobs, Bytes: a.Bytes + b.Bytes}
}

func differenceOf(a, b store.StoredJobs) store.StoredJobs {
	return store.StoredJobs{Jobs: a.Jobs - b.Jobs, Bytes: a.Bytes - b.Bytes}
}

func (p *projectUse) used() store.StoredJobs { return sumOf(p.measured, p.added) }

// take counts jobs that are about to be stored, or refuses them. settle follows.
func (a *admission) take(ctx context.Context, project string, n store.StoredJobs) error {
	p, err := a.known(ctx, project)
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	used := p.used()
	for _, q := range []struct {
		name    Quota
		used, n int64
	}{{QuotaJobs, used.Jobs, n.Jobs}, {QuotaBytes, used.Bytes, n.Bytes}} {
		limit := a.quotas.limit(project, q.name)
		switch {
		case limit == 0 || q.n == 0:
		case q.used+q.n > limit:
			a.notes.usedUp(project, q.name, q.used, limit)
			return overQuota(q.name, q.used, limit)
		case (q.used+q.n)*100 >= limit*nearPercent:
			a.notes.nearlyUsedUp(project, q.name, q.used+q.n, limit)
		}
	}
	p.added, p.writing = sumOf(p.added, n), sumOf(p.writing, n)
	return nil
}

// settle follows take; kept of taken was stored, or may have been.
func (a *admission) settle(project string, taken, kept store.StoredJobs) {
	if taken == (store.StoredJobs{}) {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if p := a.projects[project]; p != nil {
		p.writing = differenceOf(p.writing, taken)
		p.added = differenceOf(p.added, differenceOf(taken, kept))
	}
}

// takeGrowth counts a payload that grows by so many bytes, or refuses it. If the change is not
// written in the end, it counts until the next measurement.
func (a *admission) takeGrowth(ctx context.Context, project string, bytes int) error {
	if bytes <= 0 {
		return nil
	}
	grown := store.StoredJobs{Bytes: int64(bytes)}
	if err := a.take(ctx, project, grown); err != nil {
		return err
	}
	a.settle(project, grown, grown)
	return nil
}

// known returns a project that was measured a short while ago. It waits for a
// measurement if the last one is too old to decide by.
func (a *admission) known(ctx context.Context, project string) (*projectUse, error) {
	a.mu.Lock()
	p := a.projects[project]
	if p == nil {
		a.makeRoom()
		p = &projectUse{}
		a.projects[project] = p
	}
	every := a.every(project, p)
	age := a.now().Sub(p.at)
	if age >= every || age < 0 {
		a.measure(ctx, project, p)
	}
	busy := p.busy
	wait := p.at.IsZero() || age >= 2*every || age < 0
	a.mu.Unlock()
	if !wait || busy == nil {
		return p, nil
	}
	select {
	case <-busy:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return p, p.err
}

// every returns the time between two measurements of a project.
func (a *admission) every(project string, p *projectUse) time.Duration {
	every := measureEvery
	used := p.used()
	for name, n := range map[Quota]int64{QuotaJobs: used.Jobs, QuotaBytes: used.Bytes} {
		if limit := a.quotas.limit(project, name); limit > 0 && n*100 >= limit*closePercent {
			every = measureNear
		}
	}
	return max(every, measureShare*p.took)
}

// makeRoom forgets projects that nothing is being written for.
func (a *admission) makeRoom() {
	if len(a.projects) < maxProjectsMeasured {
		return
	}
	for name, p := range a.projects {
		if p.busy == nil && p.writing == (store.StoredJobs{}) {
			delete(a.projects, name)
		}
	}
}

// measure begins a measurement, if none is under way. It does not end with a call: a call that
// leaves fails no other.
func (a *admission) measure(ctx context.Context, project string, p *projectUse) {
	if p.busy != nil || a.closed {
		return
	}
	p.busy = make(chan struct{})
	ctx = context.WithoutCancel(ctx)
	a.work.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, a.limit)
		defer cancel()
		select {
		case a.permits <- struct{}{}:
			defer func() { <-a.permits }()
		case <-ctx.Done():
		}
		a.mu.Lock()
		// What is being written may be in the measurement or not: it counts.
		begun, before := a.now(), differenceOf(p.added, p.writing)
		a.mu.Unlock()
		got, err := a.read(ctx, project)
		a.mu.Lock()
		defer a.mu.Unlock()
		if p.err = err; err == nil {
			p.measured, p.added = got, differenceOf(p.added, before)
			p.at, p.took = begun, a.now().Sub(begun)
		}
		close(p.busy)
		p.busy = nil
	})
}

// read reads the use from the store. A panic here belongs to no call.
func (a *admission) read(ctx context.Context, project string) (_ store.StoredJobs, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("panic: %v", cause)
		}
	}()
	got, err := a.store.StoredJobs(ctx, project)
	if err != nil {
		return got, fmt.Errorf("measure what the project stores: %w", err)
	}
	return got, nil
}

// close waits for the measurements under way; no more begin.
func (a *admission) close() {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.work.Wait()
}
