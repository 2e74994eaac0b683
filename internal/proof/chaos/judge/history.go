package judge

import (
	"fmt"

	"github.com/fireonce/fireonce/internal/job"
)

// track follows the events of one job.
type track struct {
	subject *subject
	last    int64
	state   job.State
	wrong   bool // the first violation is reported, what follows from it is not
}

// readEvents follows every job's events.
func (t *trial) readEvents() error {
	if t.in.Events == nil {
		return nil
	}
	for e, err := range t.in.Events {
		if err != nil {
			return err
		}
		t.report.Events++
		at := t.tracks[e.JobID]
		if at == nil {
			// A job that only the events know: its own subject, or none.
			at = &track{subject: t.find("job " + e.JobID)}
			for _, s := range t.subjects {
				if s.owns(e.JobID) {
					at.subject = s
					break
				}
			}
			t.tracks[e.JobID] = at
			if len(at.subject.submits) == 0 {
				t.blame(Stranger, at.subject, "the service tells of job %s in its events and nowhere else", e.JobID)
			}
		}
		if e.EffectKey != "" {
			at.subject.armed = once(at.subject.armed, e.EffectKey)
		}
		if k, why := at.add(e); why != "" {
			t.blame(k, at.subject, "job %s: %s", e.JobID, why)
		}
	}
	return nil
}

// add takes one event, and returns what is wrong with it; "": nothing.
func (at *track) add(e Event) (Kind, string) {
	if e.Sequence <= at.last || at.wrong {
		return "", ""
	}
	before, state := at.last, at.state
	at.last, at.state = e.Sequence, e.To
	switch {
	case e.Sequence != before+1:
		at.wrong = true
		return Gap, fmt.Sprintf("event %d follows event %d", e.Sequence, before)
	case e.From != state:
		at.wrong = true
		return Gap, fmt.Sprintf("event %d is from %v, the one before it led to %v", e.Sequence, e.From, state)
	case !legal(e.From, e.To):
		at.wrong = true
		return Illegal, fmt.Sprintf("event %d is from %v to %v", e.Sequence, e.From, e.To)
	}
	return "", ""
}

// weighHistory compares where a job's events lead with where it stands.
func (t *trial) weighHistory(s *subject, f *Final) {
	at := t.tracks[f.JobID]
	if t.in.Events == nil || at.wrong {
		return
	}
	switch {
	case at.last == 0:
		t.blame(Gap, s, "job %s has no events", f.JobID)
	case at.state != f.State, f.Sequence != 0 && f.Sequence != at.last:
		t.blame(Gap, s, "job %s is %v by event %d, its events end with %d, %v", f.JobID, f.State, f.Sequence, at.last, at.state)
	}
}
