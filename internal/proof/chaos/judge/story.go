package judge

import (
	"fmt"
	"time"

	"github.com/fireonce/fireonce/internal/proof/chaos/platform"
)

// defaultStories is how many violations of each kind are printed.
const defaultStories = 5

// tell writes the stories of the first violations of each kind. It reads the log
// and the events again, so that they need not all be kept.
func (t *trial) tell() error {
	most := t.in.Stories
	if most <= 0 {
		most = defaultStories
	}
	told := make(map[Kind]int)
	stories := make(map[*subject][]string)
	var chosen []finding
	for _, f := range t.findings {
		if told[f.kind] < most {
			told[f.kind]++
			chosen = append(chosen, f)
			stories[f.subject] = nil
		}
	}
	if len(chosen) == 0 {
		return nil
	}
	for s := range stories {
		stories[s] = s.said()
	}
	if err := t.retell(stories); err != nil {
		return err
	}
	for _, f := range chosen {
		t.report.Violations = append(t.report.Violations, Violation{
			Kind: f.kind, Subject: f.subject.name, Detail: f.detail, Story: stories[f.subject],
		})
	}
	return nil
}

// said is what clients were answered about a subject, and how its jobs ended.
func (s *subject) said() (lines []string) {
	for _, submit := range s.submits {
		lines = append(lines, fmt.Sprintf("submitted under key %s: %v, %v", submit.Key, submit.Class, s.policy()))
		for _, a := range submit.Acks {
			lines = append(lines, fmt.Sprintf("  acknowledged as job %s for %s, created: %v", a.JobID, clock(a.ScheduleTime), a.Created))
		}
	}
	for _, f := range s.finals {
		line := fmt.Sprintf("in the end job %s (key %s) is %v after %d attempts", f.JobID, f.Key, f.State, f.Attempts)
		if f.Proof != 0 {
			line += fmt.Sprintf(", effect %q by %v", f.ExternalID, f.Proof)
		}
		if f.Error != "" {
			line += ": " + f.Error
		}
		lines = append(lines, line)
	}
	return lines
}

// retell adds what the platform and the events say of some subjects.
func (t *trial) retell(stories map[*subject][]string) error {
	for r, err := range t.in.Log {
		if err != nil {
			return err
		}
		s := t.byName[r.Subject]
		if _, ok := stories[s]; !ok || r.Type == platform.TypeLook {
			continue
		}
		line := fmt.Sprintf("platform %s: %s %d at %s", clock(r.Time), r.Type, r.N, r.Face)
		if r.Key != "" {
			line += " under key " + r.Key
		}
		if r.ID != "" {
			line += " as " + r.ID
		}
		if r.Fault != platform.None {
			line += ", fault: " + string(r.Fault)
		}
		stories[s] = append(stories[s], line)
	}
	if t.in.Events == nil {
		return nil
	}
	for e, err := range t.in.Events {
		if err != nil {
			return err
		}
		at := t.tracks[e.JobID]
		if at == nil {
			continue
		}
		if _, ok := stories[at.subject]; ok {
			stories[at.subject] = append(stories[at.subject], fmt.Sprintf("event %s #%d %s: %v to %v, %s by %s, attempt %d: %s",
				clock(e.Time), e.Sequence, e.JobID, e.From, e.To, e.Cause, e.Actor, e.Attempt, e.Detail))
		}
	}
	return nil
}

// clock writes a time so that stories can be read side by side.
func clock(at time.Time) string {
	if at.IsZero() {
		return "-"
	}
	return at.UTC().Format("15:04:05.000000")
}
