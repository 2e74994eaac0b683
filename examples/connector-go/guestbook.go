package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fireonce/fireonce/clients/go/connectorv1"
	"github.com/fireonce/fireonce/clients/go/connectorv1/connectorv1connect"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
)

// schema names the content that this connector accepts.
const schema = "guestbook.entry/v1"

// maxText bounds an entry, in characters.
const maxText = 500

// guestbook is the connector. The book does not dedupe, but an entry can be found by
// its key: class OBSERVABLE.
type guestbook struct {
	// Methods of other classes answer UNIMPLEMENTED. They are never called.
	connectorv1connect.UnimplementedConnectorServiceHandler
	book *book
	// guests are the tokens that may write; none: every token may.
	guests []string
}

// Describe implements the RPC.
func (*guestbook) Describe(context.Context, *connectorv1.DescribeRequest) (*connectorv1.DescribeResponse, error) {
	return &connectorv1.DescribeResponse{
		PayloadKinds:    []string{"custom"},
		EffectClasses:   []fireoncev1.EffectClass{fireoncev1.EffectClass_EFFECT_CLASS_OBSERVABLE},
		CredentialKinds: []string{"bearer_token"},
		Promise:         "One entry in the guest book. An outcome that is not known is looked up there by the entry's key.",
	}, nil
}

// Check implements the RPC. A read of the book sees everything that was written
// before it, so one look proves that an entry is not there.
func (*guestbook) Check(context.Context, *connectorv1.CheckRequest) (*connectorv1.CheckResponse, error) {
	return &connectorv1.CheckResponse{Result: &connectorv1.CheckResponse_Checked{Checked: &connectorv1.Checked{
		Traits: &connectorv1.Traits{
			EffectClass: fireoncev1.EffectClass_EFFECT_CLASS_OBSERVABLE, ReadLag: durationpb.New(0),
		},
		AccountIdentity: "the guest book",
	}}}, nil
}

// Test implements the RPC.
func (g *guestbook) Test(_ context.Context, r *connectorv1.TestRequest) (*connectorv1.TestResponse, error) {
	if refused := g.refused(r.GetAccount()); refused != nil {
		return &connectorv1.TestResponse{Result: &connectorv1.TestResponse_Refused{Refused: refused}}, nil
	}
	return &connectorv1.TestResponse{Result: &connectorv1.TestResponse_Tested{Tested: &connectorv1.Tested{
		AccountIdentity: "the guest book", Detail: "This guest may write.",
	}}}, nil
}

// refused returns a refusal if the account may not write, or nil.
func (g *guestbook) refused(a *connectorv1.Account) *connectorv1.Refusal {
	if len(g.guests) == 0 || slices.Contains(g.guests, a.GetCredential().GetBearerToken().GetToken()) {
		return nil
	}
	return &connectorv1.Refusal{
		Kind: connectorv1.Refusal_KIND_AUTH, Message: "The guest book does not know this guest. Replace the connection's token.",
	}
}

// read checks an entry's content.
func read(c *connectorv1.Content) (e entry, wrong string) {
	custom := c.GetPayload().GetCustom()
	switch {
	case custom.GetSchema() != schema:
		return e, "the schema must be " + schema
	case json.Unmarshal(custom.GetData(), &e) != nil:
		return e, `the data must be JSON, such as {"name":"Ada","text":"I was here"}`
	case e.Name == "" || e.Text == "":
		return e, "name and text must be set"
	case utf8.RuneCountInString(e.Text) > maxText:
		return e, fmt.Sprintf("the text has %d characters, at most %d have room", utf8.RuneCountInString(e.Text), maxText)
	}
	return e, ""
}

// Prepare implements the RPC. Keys distinguish two entries with the same words, so the
// key is the fingerprint.
func (*guestbook) Prepare(_ context.Context, r *connectorv1.PrepareRequest) (*connectorv1.PrepareResponse, error) {
	if _, wrong := read(r.GetContent()); wrong != "" {
		return &connectorv1.PrepareResponse{Result: &connectorv1.PrepareResponse_Invalid{Invalid: &connectorv1.InvalidInput{
			Kind: connectorv1.InvalidInput_KIND_PAYLOAD, Field: "payload.custom", Message: wrong,
		}}}, nil
	}
	return &connectorv1.PrepareResponse{Result: &connectorv1.PrepareResponse_Prepared{Prepared: &connectorv1.Prepared{
		Fingerprint: []byte(r.GetEffectKey()),
	}}}, nil
}

// Watermark implements the RPC.
func (g *guestbook) Watermark(_ context.Context, r *connectorv1.WatermarkRequest) (*connectorv1.WatermarkResponse, error) {
	if refused := g.refused(r.GetAccount()); refused != nil {
		return &connectorv1.WatermarkResponse{Result: &connectorv1.WatermarkResponse_Refused{Refused: refused}}, nil
	}
	mark, err := g.book.mark()
	if err != nil {
		return nil, connect.NewError(connect.CodeUnavailable, err) // nothing is sent then
	}
	return &connectorv1.WatermarkResponse{Result: &connectorv1.WatermarkResponse_Read{
		Read: &connectorv1.WatermarkRead{Watermark: mark},
	}}, nil
}

// Publish implements the RPC. It returns one entry, or proof that there is none, or neither.
func (g *guestbook) Publish(ctx context.Context, r *connectorv1.PublishRequest) (*connectorv1.PublishResponse, error) {
	arrived := time.Now()
	notSent := func(why string) (*connectorv1.PublishResponse, error) {
		return &connectorv1.PublishResponse{Result: &connectorv1.PublishResponse_NotSent{NotSent: &connectorv1.NotSent{Message: why}}}, nil
	}
	if refused := g.refused(r.GetAccount()); refused != nil {
		return &connectorv1.PublishResponse{Result: &connectorv1.PublishResponse_Rejected{Rejected: refused}}, nil
	}
	e, wrong := read(r.GetContent())
	if wrong != "" {
		return &connectorv1.PublishResponse{Result: &connectorv1.PublishResponse_Rejected{Rejected: &connectorv1.Refusal{
			Kind: connectorv1.Refusal_KIND_PERMANENT, Message: wrong,
		}}}, nil
	}
	e.Key = r.GetEffectKey()
	id, written, err := g.book.add(e, func() bool {
		return ctx.Err() == nil && time.Since(arrived) < r.GetSendWithin().AsDuration()
	})
	switch {
	case err == nil:
		return &connectorv1.PublishResponse{Result: &connectorv1.PublishResponse_Published{
			Published: &connectorv1.Published{ExternalId: id},
		}}, nil
	case errors.Is(err, errLate):
		return notSent(errLate.Error())
	case !written:
		return notSent("the book takes no entries")
	default:
		return &connectorv1.PublishResponse{Result: &connectorv1.PublishResponse_Unknown{
			Unknown: &connectorv1.Unknown{Message: "the file did not confirm the write"},
		}}, nil
	}
}

// Observe implements the RPC. It reads the book to its end. A key belongs to only one
// effect.
func (g *guestbook) Observe(_ context.Context, r *connectorv1.ObserveRequest) (*connectorv1.ObserveResponse, error) {
	ids, err := g.book.find(r.GetWatermark(), r.GetEffectKey())
	if err != nil {
		return unread(err), nil
	}
	seen := &connectorv1.Seen{Complete: true}
	for _, id := range ids {
		seen.Candidates = append(seen.Candidates, &connectorv1.Candidate{ExternalId: id, Sure: true})
	}
	return &connectorv1.ObserveResponse{Result: &connectorv1.ObserveResponse_Seen{Seen: seen}}, nil
}

// unread returns the answer of a look that proves nothing.
func unread(err error) *connectorv1.ObserveResponse {
	return &connectorv1.ObserveResponse{Result: &connectorv1.ObserveResponse_Unread{
		Unread: &connectorv1.Unread{Message: "the guest book could not be read: " + err.Error()},
	}}
}
