package platforms_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fireonce/fireonce/clients/go/connectorv1"
	"github.com/fireonce/fireonce/clients/go/connectorv1/connectorv1connect"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/remote"
	"github.com/fireonce/fireonce/internal/connector/remote/remotetest"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/proof/faultproxy"
	"github.com/fireonce/fireonce/internal/proof/platforms"
)

// drafts is a connector outside of the program whose platform works in two phases:
// a draft that is not visible, and its publication, which is reported later.
type drafts struct {
	connectorv1connect.UnimplementedConnectorServiceHandler

	mu        sync.Mutex
	texts     []string // by handle
	published []bool
}

func (*drafts) Describe(context.Context, *connectorv1.DescribeRequest) (*connectorv1.DescribeResponse, error) {
	return &connectorv1.DescribeResponse{
		PayloadKinds: []string{"social_post"}, EffectClasses: []fireoncev1.EffectClass{fireoncev1.EffectClass_EFFECT_CLASS_HANDLE}, Promise: "Drafts.",
	}, nil
}

func (*drafts) Check(context.Context, *connectorv1.CheckRequest) (*connectorv1.CheckResponse, error) {
	return &connectorv1.CheckResponse{Result: &connectorv1.CheckResponse_Checked{Checked: &connectorv1.Checked{
		Traits: &connectorv1.Traits{EffectClass: fireoncev1.EffectClass_EFFECT_CLASS_HANDLE},
	}}}, nil
}

func (*drafts) Prepare(context.Context, *connectorv1.PrepareRequest) (*connectorv1.PrepareResponse, error) {
	return &connectorv1.PrepareResponse{Result: &connectorv1.PrepareResponse_Prepared{Prepared: &connectorv1.Prepared{}}}, nil
}

func (d *drafts) Stage(_ context.Context, r *connectorv1.StageRequest) (*connectorv1.StageResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.texts, d.published = append(d.texts, r.GetContent().GetPayload().GetSocialPost().GetText()), append(d.published, false)
	return &connectorv1.StageResponse{Result: &connectorv1.StageResponse_Staged{
		Staged: &connectorv1.Staged{Handle: strconv.Itoa(len(d.texts) - 1)},
	}}, nil
}

func (d *drafts) Publish(_ context.Context, r *connectorv1.PublishRequest) (*connectorv1.PublishResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, err := strconv.Atoi(r.GetHandle())
	if err != nil {
		return nil, err
	}
	d.published[n] = true
	return &connectorv1.PublishResponse{Result: &connectorv1.PublishResponse_Accepted{Accepted: &connectorv1.Accepted{}}}, nil
}

func (d *drafts) Poll(_ context.Context, r *connectorv1.PollRequest) (*connectorv1.PollResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, err := strconv.Atoi(r.GetHandle())
	switch {
	case err != nil:
		return nil, err
	case d.published[n]:
		return &connectorv1.PollResponse{Result: &connectorv1.PollResponse_Published{
			Published: &connectorv1.Published{ExternalId: "post " + r.GetHandle()},
		}}, nil
	default:
		return &connectorv1.PollResponse{Result: &connectorv1.PollResponse_Rejected{Rejected: &connectorv1.Refusal{
			Kind: connectorv1.Refusal_KIND_TRANSIENT, Message: "the draft was never published",
		}}}, nil
	}
}

func (d *drafts) effects(text string) (ids []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for n, is := range d.texts {
		if is == text && d.published[n] {
			ids = append(ids, "post "+strconv.Itoa(n))
		}
	}
	return ids
}

func dialGuests(t testing.TB, s *transport.Sender, url string) *remote.Connector {
	t.Helper()
	c, err := remote.New(remote.Config{Name: "guests", URL: url, Token: remotetest.Token, Sender: s})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c
}

func post(text string) *fireoncev1.Payload {
	return &fireoncev1.Payload{Kind: &fireoncev1.Payload_SocialPost{SocialPost: &fireoncev1.SocialPost{Text: text}}}
}

// A connector outside of the program, of class HANDLE.
func TestRemoteHandle(t *testing.T) {
	t.Parallel()
	platforms.Run(t, func(t *testing.T) platforms.Platform {
		t.Helper()
		d := &drafts{}
		_, handler := connectorv1connect.NewConnectorServiceHandler(d)
		server := httptest.NewServer(handler)
		t.Cleanup(server.Close)
		method := func(name string) func(faultproxy.Request) bool {
			return func(r faultproxy.Request) bool { return r.Path == "/fireonce.connector.v1.ConnectorService/"+name }
		}
		return platforms.Platform{
			URL: server.URL, Class: job.Handle, Credential: bearer("first"), Renewed: bearer("second"),
			Connector: func(s *transport.Sender, baseURL string) connector.Connector { return dialGuests(t, s, baseURL) },
			Settings:  func(string) []byte { return nil },
			Payload:   post,
			Commits:   method("Publish"),
			Asks:      method("Stage"),
			Effects:   d.effects,
			Unauthorized: says(t, &connectorv1.StageResponse{Result: &connectorv1.StageResponse_Refused{
				Refused: &connectorv1.Refusal{Kind: connectorv1.Refusal_KIND_AUTH, Message: "says the test"},
			}}),
			Refused: says(t, refuses(connectorv1.Refusal_KIND_PERMANENT, 0)),
			Limited: func(wait time.Duration) faultproxy.Fate {
				return says(t, refuses(connectorv1.Refusal_KIND_RATE_LIMITED, wait))
			},
		}
	})
}

// refuses is a refusal of Publish.
func refuses(kind connectorv1.Refusal_Kind, wait time.Duration) *connectorv1.PublishResponse {
	return &connectorv1.PublishResponse{Result: &connectorv1.PublishResponse_Rejected{Rejected: &connectorv1.Refusal{
		Kind: kind, Message: "says the test", RetryAfter: durationpb.New(wait),
	}}}
}

// says is an answer in a connector's place.
func says(t *testing.T, m proto.Message) faultproxy.Fate {
	t.Helper()
	return faultproxy.Fate{
		Fault: faultproxy.Refuse, Status: http.StatusOK,
		Header: http.Header{"Content-Type": {"application/proto"}}, Body: string(encoded(t, m)),
	}
}
