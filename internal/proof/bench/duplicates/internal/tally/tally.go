// Package tally counts what became of jobs: what a receiver's own log says
// happened, beside what the system under test says. It is pure, and knows none
// of the systems.
package tally

import (
	"iter"

	"github.com/fireonce/fireonce/internal/proof/chaos/platform"
)

// Verdict is what a system says became of a job.
type Verdict int

// The verdicts. A system that has no memory of a job has none.
const (
	// Forgotten: the system knows nothing of the job.
	Forgotten Verdict = iota
	// Succeeded: the effect exists.
	Succeeded
	// Failed: it does not, and will not.
	Failed
	// Unknown: the system says that it does not know, and leaves the job alone.
	Unknown
	// Unfinished: the system still works on the job, or is to.
	Unfinished
)

// Counts are what a system has come to with its jobs.
type Counts struct {
	Jobs     int `json:"jobs"`
	Requests int `json:"requests"`
	Effects  int `json:"effects"`
	// Duplicated jobs took effect more than once; Surplus are the effects beyond
	// each job's first.
	Duplicated int `json:"duplicated"`
	Surplus    int `json:"surplus"`
	// Lost jobs have no effect, and no error: the system believes
	// that they succeeded, or has forgotten them.
	Lost int `json:"lost"`
	// Unknown jobs are left to a person. UnknownEffect of them took effect.
	Unknown       int `json:"unknown"`
	UnknownEffect int `json:"unknown_effect"`
	// Failed jobs have no effect, as the system says.
	Failed int `json:"failed"`
	// FalseFailed jobs took effect, and the system says that they did not.
	FalseFailed int `json:"false_failed"`
	// Unfinished jobs are neither: time was up first.
	Unfinished int `json:"unfinished"`
	// Faults are the requests that something went wrong with, by what it was.
	Faults map[string]int `json:"faults"`
}

// DuplicatesPerThousand is how many of 1,000 jobs took effect more than once.
func (c Counts) DuplicatesPerThousand() float64 {
	if c.Jobs == 0 {
		return 0
	}
	return 1000 * float64(c.Duplicated) / float64(c.Jobs)
}

// FaultsDelivered counts the requests that something went wrong with.
func (c Counts) FaultsDelivered() (n int) {
	for _, count := range c.Faults {
		n += count
	}
	return n
}

// Count compares a platform's log with a system's verdicts on its jobs.
func Count(subjects []string, records iter.Seq2[platform.Record, error], verdicts map[string]Verdict) (Counts, error) {
	c := Counts{Jobs: len(subjects), Faults: make(map[string]int)}
	effects := make(map[string]int)
	for r, err := range records {
		if err != nil {
			return Counts{}, err
		}
		switch r.Type {
		case platform.TypeRequest:
			c.Requests++
			if r.Fault != platform.None {
				c.Faults[string(r.Fault)]++
			}
		case platform.TypeEffect:
			c.Effects++
			effects[r.Subject]++
		}
	}
	for _, s := range subjects {
		c.judge(verdicts[s], effects[s])
	}
	return c, nil
}

// judge counts one job.
func (c *Counts) judge(v Verdict, effects int) {
	if effects > 1 {
		c.Duplicated++
		c.Surplus += effects - 1
	}
	switch v {
	case Forgotten, Succeeded:
		if effects == 0 {
			c.Lost++
		}
	case Failed:
		if effects == 0 {
			c.Failed++
		} else {
			c.FalseFailed++
		}
	case Unknown:
		c.Unknown++
		if effects > 0 {
			c.UnknownEffect++
		}
	case Unfinished:
		c.Unfinished++
	}
}
