package judge

import (
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/proof/chaos/platform"
)

// The kinds of notices that the campaign's subscriptions ask for, as the contract names them.
const (
	KindEvents = "EVENTS"
	KindDigest = "DIGEST"
)

// Notice is what came under one webhook-id at a receiver, read as any program reads it.
type Notice struct {
	ID             string
	SubscriptionID string
	Number         int64
	Kind           string
	Events         []Event
	// Count, Groups and Examples are a digest's.
	Count    int64
	Groups   []Group
	Examples []Event
	// After and To are the cursors between which its events are.
	After, To string
	Lost      bool

	// Requests brought it, with these digests of bodies, of which each is once. Taken is set if
	// the receiver has acted on one.
	Requests int
	Bodies   []string
	Faults   map[platform.Fault]int
	Taken    bool
}

// Group counts events of a digest.
type Group struct {
	To    job.State
	Cause string
	Count int64
}

// ReadNotices returns what came in the platform's log, by receiver, in the order in which
// each came first.
func ReadNotices(log iter.Seq2[platform.Record, error]) (map[string][]*Notice, error) {
	out := make(map[string][]*Notice)
	byID := make(map[[2]string]*Notice)
	for r, err := range log {
		if err != nil {
			return nil, err
		}
		name, ok := strings.CutPrefix(r.Subject, platform.ToldPrefix)
		if !ok || r.Face != platform.FaceTold {
			continue
		}
		n := byID[[2]string{name, r.Key}]
		if r.Type == platform.TypeEffect {
			n.Taken = true // its request came before
			continue
		}
		if n == nil {
			n = &Notice{ID: r.Key, Faults: make(map[platform.Fault]int)}
			byID[[2]string{name, r.Key}] = n
			out[name] = append(out[name], n)
		}
		if r.Content != "" && n.Kind == "" { // of two concurrent requests, the second may have it
			if err := n.read(r.Content); err != nil {
				return nil, fmt.Errorf("notice %s of %s: %w", r.Key, name, err)
			}
		}
		n.Requests++
		if !slices.Contains(n.Bodies, r.Body) {
			n.Bodies = append(n.Bodies, r.Body)
		}
		if r.Fault != platform.None {
			n.Faults[r.Fault]++
		}
	}
	return out, nil
}

// wireEvent is an event in JSON, which has 64-bit numbers as texts.
type wireEvent struct {
	Cursor     string `json:"cursor"`
	JobChanged struct {
		JobID    string `json:"jobId"`
		Sequence int64  `json:"sequence,string"`
		OldState string `json:"oldState"`
		NewState string `json:"newState"`
		Cause    string `json:"cause"`
	} `json:"jobChanged"`
}

// wireNotice is a notice in JSON.
type wireNotice struct {
	Type string `json:"type"`
	Data struct {
		SubscriptionID string      `json:"subscriptionId"`
		Number         int64       `json:"number,string"`
		Kind           string      `json:"kind"`
		Events         []wireEvent `json:"events"`
		Digest         *struct {
			EventCount int64 `json:"eventCount,string"`
			Groups     []struct {
				NewState   string `json:"newState"`
				Cause      string `json:"cause"`
				EventCount int64  `json:"eventCount,string"`
			} `json:"groups"`
			Examples []wireEvent `json:"examples"`
		} `json:"digest"`
		AfterCursor string `json:"afterCursor"`
		Cursor      string `json:"cursor"`
		EventsLost  bool   `json:"eventsLost"`
	} `json:"data"`
}

// read reads a notice's body.
func (n *Notice) read(content string) error {
	var w wireNotice
	if err := json.Unmarshal([]byte(content), &w); err != nil {
		return err
	}
	d := w.Data
	n.SubscriptionID, n.Number, n.Kind = d.SubscriptionID, d.Number, strings.TrimPrefix(d.Kind, "NOTICE_KIND_")
	n.After, n.To, n.Lost = d.AfterCursor, d.Cursor, d.EventsLost
	if w.Type != "fireonce.notice."+strings.ToLower(n.Kind) {
		return fmt.Errorf("a notice of kind %s is called %q", n.Kind, w.Type)
	}
	n.Events = eventsOf(d.Events)
	if d.Digest == nil {
		return nil
	}
	n.Count, n.Examples = d.Digest.EventCount, eventsOf(d.Digest.Examples)
	for _, g := range d.Digest.Groups {
		n.Groups = append(n.Groups, Group{To: stateOf(g.NewState), Cause: causeOf(g.Cause), Count: g.EventCount})
	}
	return nil
}

func eventsOf(list []wireEvent) (out []Event) {
	for _, e := range list {
		c := e.JobChanged
		out = append(out, Event{
			JobID: c.JobID, Sequence: c.Sequence, From: stateOf(c.OldState), To: stateOf(c.NewState), Cause: causeOf(c.Cause), Cursor: e.Cursor,
		})
	}
	return out
}

func causeOf(name string) string { return strings.TrimPrefix(name, "EVENT_CAUSE_") }

// stateOf returns the state with a name; zero: there is none.
func stateOf(name string) job.State {
	for s := job.State(1); s.Valid(); s++ {
		if "JOB_STATE_"+s.String() == name {
			return s
		}
	}
	return 0
}
