package main

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/internal/proof/chaos/fleet"
	"github.com/fireonce/fireonce/internal/proof/chaos/platform"
)

// targets are the connections to the platform.
type targets struct {
	url   string // the platform's
	edge  string // of the proxy in front of it, for receivers without keys
	hooks map[face]string
	feeds []string // by account
	// sites are the connections to platforms with a connector of their own, by kind.conn,
	// and places where those platforms are.
	sites  map[string]string
	places map[string]platform.Place
}

func (t targets) connection(s spec) string {
	if s.kind != nil {
		return t.sites[s.kind.conn]
	}
	if s.face == feedPosts {
		return t.feeds[s.account]
	}
	return t.hooks[s.face]
}

// connectAll makes the connections of the jobs that clients submit.
func connectAll(ctx context.Context, f *fleet.Fleet, url, edge string) (targets, error) {
	return connectAs(ctx, f, targets{url: url, edge: edge}, "", 0, accounts)
}

// connectAs makes connections whose keys begin with a name, to some of the feed's accounts, and
// returns them as targets at the URLs of t.
func connectAs(ctx context.Context, f *fleet.Fleet, t targets, name string, first, accounts int) (targets, error) {
	t = targets{url: t.url, edge: t.edge, hooks: make(map[face]string)}
	dedupes := connectionsv1.ReceiverDedupes_RECEIVER_DEDUPES_YES
	window := durationpb.New(keyWindow)
	for face, c := range map[face]*connectionsv1.Connection{
		keyedHook: {Connector: "webhook", Settings: &connectionsv1.Connection_Webhook{
			Webhook: &connectionsv1.WebhookSettings{ReceiverDedupes: dedupes, KeyWindow: window},
		}},
		statedHook: {Connector: "webhook", Settings: &connectionsv1.Connection_Webhook{Webhook: &connectionsv1.WebhookSettings{
			ReceiverDedupes: dedupes, KeyWindow: window, MaxHandlingTime: durationpb.New(statedWork),
		}}},
		// The receiver holds a lock from the search of a key to its effect: its jobs are repeated
		// before the fence.
		keyedHTTP: {Connector: "http", Settings: &connectionsv1.Connection_Http{
			Http: &connectionsv1.HttpSettings{ReceiverDedupes: dedupes, KeyWindow: window, DedupesInFlight: true, IdJsonPointers: []string{"/id"}},
		}},
		// Its owner states the proxy's marks: a refusal with one is sent again without a key, and
		// the same status without it, which the proxy also answers after the receiver has acted,
		// never is.
		opaqueHook: {Connector: "webhook", Settings: &connectionsv1.Connection_Webhook{Webhook: &connectionsv1.WebhookSettings{
			ReceiverDedupes: connectionsv1.ReceiverDedupes_RECEIVER_DEDUPES_NO, Unacted: []*connectionsv1.UnactedAnswer{
				{Status: 503, Mark: &connectionsv1.UnactedAnswer_Header{Header: &connectionsv1.AnswerMark{Name: platform.RefusedBy, Value: platform.Refused}}},
				{Status: 502, Mark: &connectionsv1.UnactedAnswer_BodyContains{BodyContains: platform.NoReceiver}},
			},
		}}},
	} {
		id, err := create(ctx, f, fmt.Sprintf("%shook-%d", name, face), c)
		if err != nil {
			return t, err
		}
		t.hooks[face] = id
	}
	for n := range accounts {
		id, err := create(ctx, f, fmt.Sprintf("%sfeed-%d", name, n), &connectionsv1.Connection{
			Connector: "feed", Settings: &connectionsv1.Connection_Feed{Feed: &connectionsv1.FeedSettings{
				BaseUrl: fmt.Sprintf("%s/feed/%d", t.url, first+n), ReadLag: durationpb.New(readLag),
			}},
		})
		if err != nil {
			return t, err
		}
		t.feeds = append(t.feeds, id)
	}
	return t, nil
}

func create(ctx context.Context, f *fleet.Fleet, key string, c *connectionsv1.Connection) (id string, err error) {
	return createWith(ctx, f, key, c, nil)
}

func createWith(
	ctx context.Context, f *fleet.Fleet, key string, c *connectionsv1.Connection, credential *connectionsv1.Credential,
) (id string, err error) {
	err = f.Call(ctx, 0, func(ctx context.Context, api *fleet.API) error {
		resp, err := api.Connections.CreateConnection(ctx, &connectionsv1.CreateConnectionRequest{IdempotencyKey: key, Connection: c, Credential: credential})
		id = resp.GetConnection().GetConnectionId()
		return err
	})
	if err != nil {
		return "", fmt.Errorf("create connection %s: %w", key, err)
	}
	return id, nil
}
