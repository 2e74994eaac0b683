package postgres

import (
	"time"

	"github.com/fireonce/fireonce/gen/pgdb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// Every conversion between the domain and the rows of jobs is in this file and in
// convert_work.go. Empty bytes are not NULL (see values.go for times and ids).

func micros(d time.Duration) int64      { return d.Microseconds() }
func fromMicros(us int64) time.Duration { return time.Duration(us) * time.Microsecond }

// setOf returns the set of ids.
func setOf(ids []job.ID) map[job.ID]bool {
	out := make(map[job.ID]bool, len(ids))
	for _, id := range ids {
		out[id] = true
	}
	return out
}

// fromBytes keeps empty bytes apart from NULL.
func fromBytes(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

func toMeta(m pgdb.Meta) store.Meta {
	is := identity{system: m.SystemID, timeline: m.Timeline, database: m.DatabaseOid, relation: m.RelationOid}
	return store.Meta{
		StoreID: m.StoreID, Engine: "postgres", Created: m.CreatedAt, Quarantined: m.Quarantined,
		Incarnation: m.Incarnation, Namespace: m.Namespace, Identity: is.String(), Stops: m.Stops,
	}
}

// jobColumns transposes new jobs to the columns of their insert.
func jobColumns(jobs []creation, before int64, now time.Time) pgdb.InsertJobsParams {
	p := pgdb.InsertJobsParams{Now: now, Before: before}
	columns(len(jobs), &p.Ids, &p.Connections, &p.ReplyTos, &p.Schedules, &p.WaitsFors)
	columns(len(jobs), &p.Projects, &p.IdemKeys, &p.PayloadKinds, &p.Labels, &p.TimeZones, &p.HoldKeys, &p.OwnEffectKeys, &p.Traces, &p.Retries)
	columns(len(jobs), &p.StartWindows, &p.WaitWindows, &p.AttemptTimeouts, &p.CoolDowns, &p.SkipsIfPresent)
	columns(len(jobs), &p.Deliveries, &p.Classes, &p.PredecessorEnds)
	columns(len(jobs), &p.Unaskeds)
	columns(len(jobs), &p.Fingerprints, &p.Payloads, &p.Histories)
	columns(len(jobs), &p.ScheduleTimes, &p.StartDeadlines)
	for i := range jobs {
		n := &jobs[i]
		s := &n.snapshot
		p.Ids = append(p.Ids, s.ID)
		p.Projects = append(p.Projects, s.Project)
		p.IdemKeys = append(p.IdemKeys, s.Key)
		p.Connections = append(p.Connections, s.Connection)
		p.PayloadKinds = append(p.PayloadKinds, s.PayloadKind)
		p.StartWindows = append(p.StartWindows, micros(s.StartWindow))
		p.WaitWindows = append(p.WaitWindows, micros(s.WaitWindow))
		p.Retries = append(p.Retries, s.Retry.Encode())
		p.AttemptTimeouts = append(p.AttemptTimeouts, micros(s.Retry.AttemptTimeout))
		p.Deliveries = append(p.Deliveries, int16(s.Delivery))
		p.Labels = append(p.Labels, store.EncodeLabels(s.Labels))
		p.TimeZones = append(p.TimeZones, s.TimeZone)
		p.ReplyTos = append(p.ReplyTos, s.ReplyTo)
		p.Schedules = append(p.Schedules, s.Schedule)
		p.Fingerprints = append(p.Fingerprints, s.Fingerprint.Bytes())
		p.Payloads = append(p.Payloads, fromBytes(s.Payload))
		p.HoldKeys = append(p.HoldKeys, s.HoldKey)
		p.OwnEffectKeys = append(p.OwnEffectKeys, s.OwnEffectKey)
		p.CoolDowns = append(p.CoolDowns, micros(s.CoolDown))
		p.SkipsIfPresent = append(p.SkipsIfPresent, micros(s.SkipIfPresent))
		p.Traces = append(p.Traces, s.Trace)
		p.ScheduleTimes = append(p.ScheduleTimes, s.ScheduleTime)
		p.Unaskeds = append(p.Unaskeds, s.Unasked)
		p.StartDeadlines = append(p.StartDeadlines, s.StartDeadline)
		p.Classes = append(p.Classes, int16(s.Class))
		p.WaitsFors = append(p.WaitsFors, s.WaitsFor)
		p.PredecessorEnds = append(p.PredecessorEnds, int16(s.PredecessorEnd))
		p.Histories = append(p.Histories, n.history)
	}
	return p
}

// columns allocates columns of rows elements, in one piece for all columns of a type.
func columns[T any](rows int, of ...*[]T) {
	all := make([]T, rows*len(of))
	for i, c := range of {
		*c = all[i*rows : i*rows : (i+1)*rows]
	}
}

// digestOf returns the digest under which a key is bound.
func digestOf(project, key string) []byte {
	sum := job.KeyDigest(project, key)
	return sum[:]
}
