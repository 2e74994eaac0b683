package engine_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/job"
)

// timeline is what can be seen of an OBSERVABLE platform: posts, oldest first.
// A look sees what is visible by then.
type timeline struct {
	posts []*post
	// lag is how long a post stays invisible; nil: not at all.
	lag func() time.Duration
}

type post struct {
	id, key, text string
	at, visible   time.Time
}

// add makes a post. key is the effect key that asked for it; posts by hand have none.
func (t *timeline) add(key, text string) *post {
	p := &post{id: fmt.Sprint("post-", len(t.posts)+1), key: key, text: text, at: time.Now()}
	p.visible = p.at
	if t.lag != nil {
		p.visible = p.at.Add(t.lag())
	}
	t.posts = append(t.posts, p)
	return p
}

func (t *timeline) seen() []*post {
	var out []*post
	for _, p := range t.posts {
		if !p.visible.After(time.Now()) {
			out = append(out, p)
		}
	}
	return out
}

// newest is the id of the newest visible post: a watermark.
func (t *timeline) newest() string {
	seen := t.seen()
	if len(seen) == 0 {
		return ""
	}
	return seen[len(seen)-1].id
}

// after returns the visible posts with the text that are newer than the watermark
// and not newer than the fence.
func (t *timeline) after(mark, text string, fence time.Time) []string {
	var ids []string
	seen := t.seen()
	for i := len(seen) - 1; i >= 0 && seen[i].id != mark; i-- {
		if seen[i].text == text && !seen[i].at.After(fence) {
			ids = append(ids, seen[i].id)
		}
	}
	return ids
}

// textOf is what a frozen request of the platform posts.
func textOf(frozen string) string {
	_, text, ok := strings.Cut(frozen, ":")
	if !ok {
		return "hello"
	}
	return text
}

// look reads the timeline back to the round's first watermark.
func (p *platform) look(ctx context.Context, l connector.Look) job.Observation {
	p.mu.Lock()
	ids := p.line.after(l.First.Watermark, textOf(string(l.First.Frozen)), l.Fence)
	p.mu.Unlock()
	taken, err := l.Taken(ctx, ids)
	if err != nil {
		return job.Observation{Verdict: job.SawInconclusive, Detail: err.Error()}
	}
	var ours []string
	for _, id := range ids {
		if !taken[id] {
			ours = append(ours, id)
		}
	}
	switch len(ours) {
	case 0:
		return job.Observation{Verdict: job.SawAbsent}
	case 1:
		return job.Observation{Verdict: job.SawPresent, ExternalID: ours[0]}
	default:
		return job.Observation{Verdict: job.SawCandidates, Detail: strings.Join(ours, ", ")}
	}
}

// byHand makes a post that no job asked for.
func (p *platform) byHand(text string) *post {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.line.add("", text)
}

// postOf returns the post with the id.
func (p *platform) postOf(id string) *post {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, other := range p.line.posts {
		if other.id == id {
			return other
		}
	}
	return nil
}
