package sandbox

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector/builtin/fakes"
	"github.com/fireonce/fireonce/internal/connector/platform/fake"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/client"
	"github.com/fireonce/fireonce/cmd/fireonce/internal/follow"
)

const (
	// mostJobs bounds the jobs that the page knows, and mostSteps the steps of each.
	mostJobs  = 400
	mostSteps = 40
)

// board has the jobs as any client of Fireonce reads them. It notifies of changes there and at the
// platforms.
type board struct {
	mu sync.Mutex
	// next is closed when something has changed.
	next  chan struct{}
	jobs  []*belief // the oldest first
	byID  map[string]*belief
	names map[string]string // of connections: the site's
	sites []*site
	err   error
}

// belief is one job as Fireonce shows it.
type belief struct {
	ID, Key, Site, Text, State, Class, External, Trouble string
	Attempts                                             int32
	Steps                                                []step
}

// step is one line of a job's history.
type step struct {
	At                   time.Time
	State, Cause, Detail string
}

func newBoard(sites []*site) *board {
	return &board{next: make(chan struct{}), byID: make(map[string]*belief), names: make(map[string]string), sites: sites}
}

// changed wakes every waiting browser.
func (b *board) changed() {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.next)
	b.next = make(chan struct{})
}

// wait returns a channel that is closed at the next change.
func (b *board) wait() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.next
}

// follow reads the event log from its beginning on, until ctx ends.
func (b *board) follow(ctx context.Context, api *client.API) {
	err := follow.Events(ctx, api.Jobs, follow.Options{Beginning: true, IncludeJob: true}, func(e *fireoncev1.JobEvent) error {
		c := e.GetJobChanged()
		if j := c.GetJob(); j != nil {
			if !b.knows(c.GetJobId()) {
				b.add(j, b.siteOf(ctx, api, j.GetConnectionId()), contentOf(ctx, api, c.GetJobId()))
			}
			b.note(e, c)
			b.changed()
		}
		return nil
	})
	if ctx.Err() == nil && err != nil {
		b.mu.Lock()
		b.err = err
		b.mu.Unlock()
		b.changed()
	}
}

// siteOf returns the site that a connection leads to; empty: none of them. A user's own
// connections are shown with the platform's.
func (b *board) siteOf(ctx context.Context, api *client.API, id string) string {
	b.mu.Lock()
	name, known := b.names[id]
	b.mu.Unlock()
	if known {
		return name
	}
	resp, err := api.Connections.GetConnection(ctx, &connectionsv1.GetConnectionRequest{Connection: &connectionsv1.GetConnectionRequest_ConnectionId{ConnectionId: id}})
	if err != nil {
		return ""
	}
	name = resp.GetConnection().GetConnector()
	for _, f := range fakes.Fakes {
		if f.Connector == name {
			name = f.Name
			break
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.names[id] = name
	return name
}

// contentOf reads the text of a job: events have no payloads.
func contentOf(ctx context.Context, api *client.API, id string) string {
	resp, err := api.Jobs.GetJob(ctx, &fireoncev1.GetJobRequest{Job: &fireoncev1.GetJobRequest_JobId{JobId: id}})
	if err != nil {
		return ""
	}
	return textOf(resp.GetJob().GetPayload())
}

func (b *board) knows(id string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.byID[id] != nil
}

func (b *board) add(j *fireoncev1.Job, site, text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	one := &belief{ID: j.GetJobId(), Key: j.GetIdempotencyKey(), Site: site, Text: text, Class: strings.TrimPrefix(j.GetEffectClass().String(), "EFFECT_CLASS_")}
	b.byID[one.ID] = one
	b.jobs = append(b.jobs, one)
	if len(b.jobs) > mostJobs {
		delete(b.byID, b.jobs[0].ID)
		b.jobs = slices.Delete(b.jobs, 0, 1)
	}
}

func (b *board) note(e *fireoncev1.JobEvent, c *fireoncev1.JobChanged) {
	b.mu.Lock()
	defer b.mu.Unlock()
	j, one := c.GetJob(), b.byID[c.GetJobId()]
	one.Attempts, one.External, one.Trouble = j.GetAttemptCount(), j.GetEffect().GetExternalId(), j.GetBlockedReason().GetMessage()
	// The job is as it was read, which may be later than the event.
	one.State = strings.TrimPrefix(c.GetNewState().String(), "JOB_STATE_")
	one.Steps = append(one.Steps, step{
		At: e.GetEventTime().AsTime(), State: one.State, Cause: strings.TrimPrefix(c.GetCause().String(), "EVENT_CAUSE_"), Detail: c.GetDetail(),
	})
	one.Steps = one.Steps[max(0, len(one.Steps)-mostSteps):]
}

// textOf returns the text by which a person recognizes a payload.
func textOf(p *fireoncev1.Payload) string {
	switch kind := p.GetKind().(type) {
	case *fireoncev1.Payload_SocialPost:
		return kind.SocialPost.GetText()
	case *fireoncev1.Payload_DirectMessage:
		return kind.DirectMessage.GetText()
	case *fireoncev1.Payload_Email:
		return kind.Email.GetSubject()
	case *fireoncev1.Payload_HttpRequest:
		return fake.Form(kind.HttpRequest.GetBodyText())
	case *fireoncev1.Payload_Webhook:
		return kind.Webhook.GetBodyText()
	default:
		return ""
	}
}

// beliefs returns the jobs of a site, the newest first, and the error of reading the log.
func (b *board) beliefs(site string) (out []belief, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, one := range slices.Backward(b.jobs) {
		if one.Site == site {
			copied := *one
			copied.Steps = slices.Clone(one.Steps)
			out = append(out, copied)
		}
	}
	return out, b.err
}
