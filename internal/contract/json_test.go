package contract_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/contract"
	"github.com/fireonce/fireonce/internal/textfile"
)

// TestReadJSON checks that an error names the place, the field and what was probably meant.
func TestReadJSON(t *testing.T) {
	t.Parallel()
	webhook := func(fields string) string { return `{"payload": {"webhook": {` + fields + `}}}` }
	for text, want := range map[string]string{
		// A field that fits elsewhere.
		`{"connectionKey": "a", "url": "x"}`:                       `has no field "url"; did you mean "payload.webhook.url" or "payload.httpRequest.url"`,
		webhook(`"connection_key": "a"`):                           `payload.webhook: has no field "connection_key"; it belongs in the outermost object (line 1, column 26)`,
		`{"payload": {"headers": []}}`:                             `payload: has no field "headers"; did you mean "payload.email.headers" or "payload.webhook.headers"`,
		`{"body_text": ""}`:                                        `did you mean "payload.webhook.body_text"`,
		`{"bodyTxt": ""}`:                                          `did you mean "payload.webhook.bodyText"`,
		"{\n  \"payload\": {\n    \"webhook\": {\"urll\": \"\"}}}": `payload.webhook: has no field "urll"; did you mean "url"? (line 3, column 17)`,
		webhook(`"bodyXml": {}`):                                   `payload.webhook: has no field "bodyXml"; did you mean "body" or "bodyText" or "bodyJson"`,
		webhook(`"body_xml": {}`):                                  `did you mean "body" or "body_text" or "body_json"`,
		webhook(`"json": {}`):                                      `did you mean "bodyJson"?`,
		`{"Idempotency-Key": ""}`:                                  `has no field "Idempotency-Key"; did you mean "idempotencyKey"?`,
		`{"IdempotencyKey": ""}`:                                   `did you mean "idempotencyKey"?`,
		`{"schedule_tme": ""}`:                                     `did you mean "schedule_time"?`,
		`{"scheduleTme": ""}`:                                      `did you mean "scheduleTime"?`,
		`{"time": ""}`:                                             `did you mean "scheduleTime" or "timeZone" or "localTime"?`,
		webhook(`"headers": [{}, {"nme": ""}]`):                    `payload.webhook.headers[1]: has no field "nme"; did you mean "name"?`,
		webhook(`"headers": [{"qqq": ""}]`):                        `payload.webhook.headers[0]: has no field "qqq"; it has name, value`,
		`{"sk_live_4242424242": 1}`:                                `has a field that this contract does not have`,
		// Values.
		`{"delivery": "AT_MOST_ONCE"}`:         `did you mean DELIVERY_AT_MOST_ONCE?`,
		`{"delivery": "at_most_once"}`:         `did you mean DELIVERY_AT_MOST_ONCE?`,
		`{"delivery": "DELIVERY_AT_MOST_ONE"}`: `did you mean DELIVERY_AT_MOST_ONCE?`,
		`{"delivery": "ONCE_OR_AKS"}`:          `did you mean DELIVERY_ONCE_OR_ASK?`,
		`{"delivery": "qqq"}`:                  `delivery: must be one of DELIVERY_ONCE_OR_ASK, `,
		`{"idempotencyKey": 5}`:                `idempotency_key: must be a string of UTF-8, in double quotes (line 1, column 20)`,
		webhook(`"bodyText": {"a": 1}`):        `payload.webhook.body_text: must be a string of UTF-8, in double quotes; bodyJson takes JSON as it is (line 1, column 38)`,
		webhook(`"body": "{}"`):                `payload.webhook.body: must be a string of base64; bodyText takes a text as it is, bodyJson JSON (line 1, column 34)`,
		webhook(`"body": {"a": 1}`):            `payload.webhook.body: must be a string of base64; bodyText takes a text as it is, bodyJson JSON`,
		`{"note": {"a": 1}}`:                   `has no field "note"`,
		`{"idempotencyKey": {"a": 1}}`:         `must be a string of UTF-8, in double quotes; JSON in it is written "{\"name\": 1}"`,
		// Bodies in JSON. No key and no value of one is shown.
		webhook(`"bodyJson": {"id": 9007199254740993}`):              `payload.webhook.body_json: has a number that a double would change; bodyText takes it as it is, or write it as a string (line 1, column 45)`,
		webhook(`"body_json": [{"a": ["x", 1]}, 1e-400]`):            `payload.webhook.body_json: has a number that a double would change; bodyText takes it`,
		webhook("\"body\\u004ason\":\n {\"ü\": [9007199254740993]}"): `would change; bodyText takes it as it is, or write it as a string (line 2, column 9)`,
		webhook(`"bodyJson": {"a": {"b": 1e400}}`):                   `payload.webhook.body_json: has a number that a double would change; bodyText takes it as it is, or write it as a string (line 1, column 50)`,
		webhook(`"bodyJson": {"a": 1, "a": 2}`):                      `payload.webhook.body_json: has a name twice (line 1, column 47)`,
		webhook(`"bodyJson": ["\ud800"]`):                            `payload.webhook.body_json: must be JSON, such as {"order": 43}, whose strings are UTF-8`,
		webhook(`"bodyJson": {"a": tru}`):                            `the request is not JSON: `,
		webhook(`"bodyText": "", "bodyJson": {}`):                    `payload.webhook: sets two fields of which only one may be set: body, bodyText, bodyJson`,
		webhook(`"bodyJson": {"url": "x"}, "urll": ""`):              `payload.webhook: has no field "urll"; did you mean "url"?`,
		`{"labels": {"a": "1", "a": "2"}}`:                           `labels: has a name twice`,
		`{"idempotencyKey": "a", "idempotency_key": "b"}`:            `idempotency_key: is set twice (line 1, column 25)`,
		`{"connectionId": "a", "connectionKey": "b"}`:                `sets two fields of which only one may be set: connectionId, connectionKey`,
		webhook(`"body": "", "bodyText": ""`):                        `payload.webhook: sets two fields of which only one may be set: body, bodyText, bodyJson`,
		`{"payload": {"webhook": {}, "email": {}}}`:                  `payload: sets two fields of which only one may be set: socialPost, email, webhook, `,
		`{"scheduleTime": "tomorrow"}`:                               `schedule_time: must be a time in RFC 3339`,
		`{"scheduleTime": {}}`:                                       `schedule_time: must be a time in RFC 3339`,
		`{"labels": {"a": 1}}`:                                       `labels: `,
		// Texts that are no JSON.
		"":                                      "the request is empty; one that sets nothing is {}",
		"  ":                                    "the request is empty; one that sets nothing is {}",
		"hello":                                 "the request is not JSON: an object begins with {",
		"a=b&c=d":                               "the request is not JSON: an object begins with { and ends with }, and names and texts stand in double quotes (line 1, column 1)",
		"[]":                                    "the request is not a JSON object of this contract",
		`"a"`:                                   "the request is not a JSON object of this contract",
		"7":                                     "the request is not a JSON object of this contract",
		"null":                                  "the request is not a JSON object of this contract",
		"{":                                     "the request is not JSON: it ends too early",
		`{"idempotencyKey": "a`:                 "the request is not JSON: it ends too early",
		"{\"idempotencyKey\": \"a\",\n}":        "the request is not JSON: there is a comma before }; leave that comma out (line 2, column 1)",
		`{"labels": {}, "payload": {},}`:        "there is a comma before }",
		`{"idempotencyKey": "a"},`:              "something follows the JSON object (line 1, column 24)",
		`{"idempotencyKey": "a"} {}`:            "something follows the JSON object",
		`{"idempotencyKey": "a",, "labels":{}}`: "there is a comma that nothing needs",
		`{'idempotencyKey': 'a'}`:               "names and texts stand in double quotes (line 1, column 2)",
		`{idempotencyKey: "a"}`:                 "names and texts stand in double quotes",
		`{"idempotencyKey": a}`:                 "a value is a text in double quotes, a number",
		`{"idempotencyKey": "a" "labels": {}}`:  "a comma or a colon is missing before this (line 1, column 24)",
		"{\"idempotencyKey\": \"a\nb\"}":        `a line break in a text is written \n`,
		`{"idempotencyKey": "C:\qux"}`:          `a \ in a text is written \\`,
		"{ // why\n}":                           "it has no comments",
		"# why\n{}":                             "it has no comments",
		textfile.Mark + "{}":                    "it begins with a byte order mark",
		"\xff\xfe{\x00}\x00":                    "it is UTF-16",
	} {
		err := contract.ReadJSON([]byte(text), &fireoncev1.ScheduleJobRequest{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s:\n %v, want\n %s", text, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "4242") {
			t.Errorf("%s: %v repeats what may be a secret", text, err)
		}
	}
}

// TestReadJSONAccepts checks that the spellings of the JSON mapping are read.
func TestReadJSONAccepts(t *testing.T) {
	t.Parallel()
	want := &fireoncev1.ScheduleJobRequest{IdempotencyKey: "a", Delivery: fireoncev1.Delivery_DELIVERY_AT_MOST_ONCE}
	for _, text := range []string{
		`{"idempotencyKey": "a", "delivery": "DELIVERY_AT_MOST_ONCE"}`, `{"idempotency_key": "a", "delivery": 2}`,
		"\r\n{\"idempotencyKey\":\r\n\"a\", \"delivery\": 2, \"payload\": null}\r\n",
	} {
		got := &fireoncev1.ScheduleJobRequest{}
		if err := contract.ReadJSON([]byte(text), got); err != nil || !proto.Equal(got, want) {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
}

// TestNoNameInACredential checks that nothing in a credential is repeated.
func TestNoNameInACredential(t *testing.T) {
	t.Parallel()
	for text, m := range map[string]proto.Message{
		`{"credential": {"webhookSecrets": {"whsecHush": 1}}}`: &connectionsv1.CreateConnectionRequest{},
		`{"webhookSecrets": {"whsecHush": 1}}`:                 &connectionsv1.Credential{},
		`{"whsecHush": 1}`:                                     &connectionsv1.Credential{},
	} {
		if err := contract.ReadJSON([]byte(text), m); err == nil || strings.Contains(err.Error(), "Hush") {
			t.Errorf("%s: %v", text, err)
		}
	}
}
