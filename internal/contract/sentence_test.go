package contract_test

import (
	"errors"
	"strings"
	"testing"

	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/proto"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/schedulesv1"
	"github.com/fireonce/fireonce/internal/contract"
)

// TestWrongCharacter: a refusal names the character, which may be one that cannot be seen.
func TestWrongCharacter(t *testing.T) {
	rules, err := contract.Rules()
	if err != nil {
		t.Fatal(err)
	}
	post := func(text string) proto.Message { return &fireoncev1.SocialPost{Text: text} }
	key := func(key string) proto.Message {
		return &fireoncev1.GetJobRequest{Job: &fireoncev1.GetJobRequest_IdempotencyKey{IdempotencyKey: key}}
	}
	for name, one := range map[string]struct {
		message proto.Message
		want    string
	}{
		"a form feed":                 {post("größe\f"), "must have no control characters other than tabs and line breaks (character 6 is U+000C)"},
		"the end of a DOS file":       {post("hi\r\n\x1a"), "(character 5 is U+001A, the end mark of a DOS file)"},
		"a space":                     {key("order 45"), "(character 6 is U+0020, a space)"},
		"a line break":                {key("order-45\n"), "(character 9 is U+000A, a line break)"},
		"a mark":                      {key("\ufefforder-45"), "(character 1 is U+FEFF, a byte order mark)"},
		"a letter":                    {key("größe"), "(character 3 is 'ö')"},
		"an emoji":                    {key("a🎉"), "(character 2 is U+1F389)"},
		"a colon":                     {&fireoncev1.EmailHeader{Name: "X-Tag:", Value: "a"}, "must be the name of a header, without its colon: letters, digits and hyphens (character 6 is ':')"},
		"a tab in an address":         {&fireoncev1.Email{Sender: "Ada\t<ada@example.org>", To: []string{"b@example.org"}}, "(character 4 is U+0009, a tab)"},
		"a wide sign":                 {&fireoncev1.Email{Sender: "ada＠example.org", To: []string{"b@example.org"}}, "(character 4 is U+FF20; write @)"},
		"a date":                      {&schedulesv1.DateRange{First: "24.12.2027"}, "must be digits and hyphens, such as 2026-12-24 (character 3 is '.')"},
		"no address":                  {&fireoncev1.Email{Sender: "ada", To: []string{"b@example.org"}}, "must be an e-mail address, such as ada@example.org"},
		"a letter of a secret":        {&connectionsv1.BearerToken{Token: "secretß"}, "(character 7 is not one of them)"},
		"a line break after a secret": {&connectionsv1.BearerToken{Token: "secret\n"}, "(character 7 is U+000A, a line break)"},
		"no connection": {
			&fireoncev1.ScheduleJobRequest{IdempotencyKey: "a", Payload: &fireoncev1.Payload{Kind: &fireoncev1.Payload_SocialPost{SocialPost: &fireoncev1.SocialPost{Text: "a"}}}},
			"set one of connection_id, connection_key",
		},
		"within a message": {
			&fireoncev1.ScheduleJobRequest{
				IdempotencyKey: "a", Payload: &fireoncev1.Payload{},
				Connection: &fireoncev1.ScheduleJobRequest_ConnectionKey{ConnectionKey: "a"},
			},
			"set one of social_post, email, webhook, direct_message, http_request, custom",
		},
		"one of several": {&fireoncev1.Payload{}, "set one of social_post, email, webhook, direct_message, http_request, custom"},
	} {
		found, ok := errors.AsType[*protovalidate.ValidationError](rules.Validate(one.message))
		if !ok {
			t.Errorf("%s: nothing is wrong", name)
			continue
		}
		var all []string
		for _, v := range found.Violations {
			all = append(all, contract.Sentence(v, one.message.ProtoReflect().Descriptor()))
		}
		if got := strings.Join(all, "; "); !strings.HasSuffix(got, one.want) {
			t.Errorf("%s: %s, want %s", name, got, one.want)
		}
	}
}
