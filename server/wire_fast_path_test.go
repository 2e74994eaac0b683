package server_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	fireoncev1 "github.com/fireonce/fireonce/gen/fireonce/v1"
	"github.com/fireonce/fireonce/server"
)

// plainRequest is of the usual form.
func plainRequest() *scheduleRequest {
	return &scheduleRequest{
		IdempotencyKey: "k-1", Connection: onConnection("0190f3c4-7a1e-7b3c-9d2f-0123456789aB"),
		Labels: map[string]string{"team": "a b"},
		Payload: &fireoncev1.Payload{Kind: &fireoncev1.Payload_Webhook{Webhook: &fireoncev1.Webhook{
			Url: "https://example.org:8080/a/b-c?d=e", Content: &fireoncev1.Webhook_BodyText{BodyText: "{}"},
		}}},
	}
}

// TestPlainObeys spoils requests at random, in each text that the fast path reads: every request
// that it passes obeys the contract's rules.
func TestPlainObeys(t *testing.T) {
	rules, err := protovalidate.New()
	if err != nil {
		t.Fatal(err)
	}
	const trials = 40_000
	dice := rand.New(rand.NewPCG(1, 2))
	passed, refused := 0, 0
	for range trials {
		r := plainRequest()
		for range dice.IntN(3) {
			spoil(dice, r)
		}
		err := rules.Validate(r)
		switch plain := server.FastPathValid(r); {
		case plain && err != nil:
			t.Fatalf("the short way lets pass what the rules refuse: %v\n%v", r, err)
		case plain:
			passed++
		case err != nil:
			refused++
		}
	}
	// Both sides of the border were met, often.
	if passed < trials/10 || refused < trials/10 {
		t.Errorf("of %d requests %d were plain, and %d broke a rule: too few", trials, passed, refused)
	}
}

// TestPlainForm: the usual form is known.
func TestPlainForm(t *testing.T) {
	if !server.FastPathValid(plainRequest()) {
		t.Error("the usual form is not known as plain")
	}
	for name, spoil := range map[string]func(*scheduleRequest){
		"no payload":     func(r *scheduleRequest) { r.Payload = nil },
		"other kind":     func(r *scheduleRequest) { r.Payload = custom("good/v1", "x") },
		"derived key":    func(r *scheduleRequest) { r.IdempotencyKey, r.DeriveKey = "", true },
		"both":           func(r *scheduleRequest) { r.DeriveKey = true },
		"no window":      func(r *scheduleRequest) { r.StartWindow = &durationpb.Duration{} },
		"bad policy":     func(r *scheduleRequest) { r.AmbiguityPolicy = 99 },
		"bad reply":      func(r *scheduleRequest) { r.ReplyTo = replyingTo("x") },
		"bad zone":       func(r *scheduleRequest) { r.TimeZone = "*" },
		"bad retries":    func(r *scheduleRequest) { r.RetryPolicy = &fireoncev1.RetryPolicy{MaxAttempts: -1} },
		"an empty check": func(r *scheduleRequest) { r.SkipIfPresent = &fireoncev1.SkipIfPresent{} },
		"bad effect key": func(r *scheduleRequest) { r.EffectKey = "a\r\nb" },
		"large body":     func(r *scheduleRequest) { body(r, strings.Repeat("x", 256<<10+1)) },
		"many headers":   func(r *scheduleRequest) { r.GetPayload().GetWebhook().Headers = make([]*fireoncev1.HttpHeader, 33) },
	} {
		r := plainRequest()
		if spoil(r); server.FastPathValid(r) {
			t.Errorf("%s: known as plain", name)
		}
	}
}

// TestPlainKnowsEveryField: a field that is added to the contract, with rules of its own, is not
// passed by: the fast path reads it, or leaves the request to the rules.
func TestPlainKnowsEveryField(t *testing.T) {
	read := []protoreflect.Name{"idempotency_key", "connection_id", "connection_key", "payload", "labels"}
	ruleless := []protoreflect.Name{"schedule_time", "validate_only"}
	fields := (*scheduleRequest)(nil).ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		r := plainRequest().ProtoReflect()
		switch {
		case slices.Contains(read, field.Name()):
			continue
		case slices.Contains(ruleless, field.Name()):
			if proto.HasExtension(field.Options(), validate.E_Field) {
				t.Errorf("%s has a rule now", field.Name())
			}
			continue
		case field.Kind() == protoreflect.MessageKind:
			r.Set(field, r.NewField(field))
		case field.Kind() == protoreflect.StringKind:
			r.Set(field, protoreflect.ValueOfString("\n"))
		case field.Kind() == protoreflect.BoolKind:
			r.Set(field, protoreflect.ValueOfBool(true))
		case field.Kind() == protoreflect.EnumKind:
			r.Set(field, protoreflect.ValueOfEnum(99))
		default:
			t.Fatalf("%s is of a kind that the test does not know", field.Name())
		}
		if m, _ := r.Interface().(*scheduleRequest); server.FastPathValid(m) {
			t.Errorf("with %s a request is known as plain", field.Name())
		}
	}
}

func body(r *scheduleRequest, text string) {
	r.GetPayload().GetWebhook().Content = &fireoncev1.Webhook_BodyText{BodyText: text}
}

// spoil changes one text of a request.
func spoil(dice *rand.Rand, r *scheduleRequest) {
	hook := r.GetPayload().GetWebhook()
	switch dice.IntN(6) {
	case 0:
		r.IdempotencyKey = mutate(dice, r.GetIdempotencyKey())
	case 1:
		r.Connection = onConnection(mutate(dice, r.GetConnectionId()))
	case 2:
		r.Labels = map[string]string{mutate(dice, "team"): mutate(dice, "a b")}
	case 3:
		hook.ContentType = mutate(dice, "application/json")
	default:
		hook.Url = mutate(dice, hook.GetUrl())
	}
}

// odd are what texts may break at.
const odd = "\x00\t\n\x1f \x7f\u00e9\u2028%/?#:@[]\\^`{|}<>\"'.-_~!$&()*+,;=AZaz09"

// mutate puts in, takes out or repeats some characters.
func mutate(dice *rand.Rand, s string) string {
	all, runes := []rune(odd), []rune(s)
	at := dice.IntN(len(runes) + 1)
	head, tail := string(runes[:at]), string(runes[at:])
	switch dice.IntN(8) {
	case 0:
		return head
	case 1:
		return tail
	case 2:
		return head + strings.Repeat(tail, dice.IntN(300))
	case 3:
		return head + strings.Repeat(string(all[dice.IntN(len(all))]), dice.IntN(2100)) + tail
	default:
		return head + string(all[dice.IntN(len(all))]) + tail
	}
}
