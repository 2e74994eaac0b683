package lookup

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/fireonce/fireonce/internal/job"
)

// Late reports whether the read began after the fence, by the platform's clock. An answer
// from a cache may be older than the look.
func (s *Search[T]) Late() bool { return !s.began.Before(s.Until.Add(-s.Rounding)) }

// Found returns the external ids of all objects that could be ours. If one is certainly
// ours, objects that are only alike do not count: a platform that changes objects in
// this way would have changed ours, too.
func (s *Search[T]) Found() []string {
	if len(s.Sure) > 0 {
		return s.external(s.Sure, s.Uncertain)
	}
	return s.external(s.Uncertain, s.Alike)
}

func (s *Search[T]) external(objects ...[]T) []string {
	var ids []string
	for _, o := range slices.Concat(objects...) {
		ids = append(ids, s.External(o))
	}
	return ids
}

// takenBatch is how many ids one call of Look.Taken has.
const takenBatch = 500

// DropTaken takes out the objects that are other jobs' effects, and reports whether there
// were any.
func (s *Search[T]) DropTaken(ctx context.Context) (dropped bool, err error) {
	if s.Look.Taken == nil {
		return false, nil
	}
	for ids := range slices.Chunk(s.external(s.Sure, s.Uncertain, s.Alike), takenBatch) {
		taken, err := s.Look.Taken(ctx, ids)
		if err != nil {
			return false, fmt.Errorf("it could not be read which %s are other jobs'", s.Objects)
		}
		dropped = s.drop(taken) || dropped
	}
	return dropped, nil
}

func (s *Search[T]) drop(taken map[string]bool) bool {
	gone := func(o T) bool { return taken[s.External(o)] }
	before := len(s.Sure) + len(s.Uncertain) + len(s.Alike)
	s.Sure = slices.DeleteFunc(s.Sure, gone)
	s.Uncertain = slices.DeleteFunc(s.Uncertain, gone)
	s.Alike = slices.DeleteFunc(s.Alike, gone)
	return len(s.Sure)+len(s.Uncertain)+len(s.Alike) < before
}

// Wording holds the words of a platform's verdicts.
type Wording struct {
	// Object is one object, Objects are several: "post", "posts".
	Object, Objects string
	// Missing is what no object has: "this content".
	Missing string
	// One asks about the one candidate, and follows its name; Many describes several,
	// and precedes their names.
	One, Many string
}

// Verdict returns what the read proves, where an object is recognized by its content: if
// one object could be ours, and certainly is, it is ours. A look at any object
// (Look.Any) takes the newest that is certain.
func (s *Search[T]) Verdict(w Wording) job.Observation {
	switch ids := s.Found(); {
	case len(ids) == 0:
		return s.Absence(w)
	case len(ids) == 1 && len(s.Sure) == 1, s.Look.Any && len(s.Sure) > 0:
		return s.Presence("found as " + w.Object)
	case len(ids) == 1:
		return Saw(job.SawCandidates, w.Object+" "+ids[0]+" "+w.One)
	default:
		return Saw(job.SawCandidates, fmt.Sprintf("%d %s %s: %s", len(ids), w.Objects, w.Many, Names(ids)))
	}
}

// Absence is the verdict if nothing was found. A list from before the fence proves
// none.
func (s *Search[T]) Absence(w Wording) job.Observation {
	if !s.Late() {
		return Saw(job.SawInconclusive, s.Platform+" answered with a list from before the end of the send")
	}
	return Saw(job.SawAbsent, fmt.Sprintf("%d %s read, back to before the send; none has %s", s.Count(), w.Objects, w.Missing))
}

// Presence is the verdict that the first object that is sure is ours.
func (s *Search[T]) Presence(found string) job.Observation {
	id := s.External(s.Sure[0])
	out := Saw(job.SawPresent, found+" "+id)
	out.ExternalID, out.ExternalURL = id, s.URL(s.Sure[0])
	return out
}

// naming bounds how many candidates a message names.
const naming = 5

// Names lists candidates for a person.
func Names(ids []string) string {
	if len(ids) <= naming {
		return strings.Join(ids, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(ids[:naming], ", "), len(ids)-naming)
}
