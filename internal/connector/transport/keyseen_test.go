package transport_test

import (
	"strings"
	"testing"

	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

// TestKeysThatWereThereBefore checks refusals whose body says that the key was there before, as
// services write it, behind statuses that do not: they stay unknown on KEYED. Others are final.
func TestKeysThatWereThereBefore(t *testing.T) {
	for _, c := range []struct {
		status int
		body   string
		seen   bool
	}{
		{400, `{"error":{"type":"idempotency_error","message":"Keys for idempotent requests can only be used with the same parameters they were first used with."}}`, true}, // Stripe
		{400, `{"errors":[{"category":"INVALID_REQUEST_ERROR","code":"IDEMPOTENCY_KEY_REUSED","field":"idempotency_key"}]}`, true},                                          // Square
		{400, `{"__type":"IdempotentParameterMismatchException","message":"x"}`, true},                                                                                      // AWS
		{400, `<Error><Code>IdempotentParameterMismatch</Code></Error>`, true},                                                                                              // EC2
		{400, `{"error":{"description":"Different request body sent for the same Idempotency Header"}}`, true},
		{400, `{"error":{"code":"idempotency_key_mismatch"}}`, true},                                            // Whop
		{400, `{"error":{"errorId":"TransactionRequestIdempotencyKeyAlreadyExists"}}`, true},                    // Primer
		{400, `{"message":"This operation doesn't support the usage of the same idempotency key after"}`, true}, // Fireblocks
		{400, `{"name":"invalid_idempotent_request"}`, true},                                                    // Resend
		{400, `{"type":"idempotency_key_already_used_error"}`, true},
		{403, `{"error":{"errors":[{"reason":"idempotent_creation_conflict"}]}}`, true},         // GoCardless
		{403, `{"errorCode":"704","message":"request already processed or in progress"}`, true}, // Adyen
		{400, `{"details":[{"issue":"DUPLICATE_REQUEST_ID"}]}`, true},                           // PayPal
		{400, `{"code":"duplicate_request","message":"request_id has already been used"}`, true},
		{400, `{"error_code":"IDEMPOTENCY_ERROR"}`, true},
		{423, `{"error":"A request with this Idempotency-Key is in progress"}`, true},
		{429, `{"error_codes":["idempotency_key_in_use"]}`, true},
		{400, "Idempotency-Key\r\n was used with another payload", true},
		{401, `{"error":"idempotency key reused by another account"}`, true},
		{400, `{"error":"Idempotency-Key header is required"}`, false},
		{400, `{"error":"idempotency key must be a UUID"}`, false},
		{400, `{"message":"Header X-Idempotency-Key can't be null"}`, false},
		{400, `{"error":"bad amount","headers":{"Idempotency-Key":"fo1","X-Same":"different"}}`, false},
		{402, `{"error":{"type":"card_error","message":"Your card was declined."}}`, false},
		{400, `{"error":"email already taken"}`, false},
		{404, `<html><h1>Not found</h1></html>`, false},
		{400, ``, false},
		{400, `null`, false},
		{400, `{"error":"` + strings.Repeat("x", 5000) + `"}`, false},
	} {
		for _, keyed := range []bool{true, false} {
			a := answerOf(c.status)
			a.Excerpt = []byte(c.body)
			want := job.ResultRejected
			if c.seen && keyed {
				want = job.ResultUnknown
			}
			if o := transport.ClassifyNamed(a, "the peer", nil, keyed); o.Result != want {
				t.Errorf("%d %s, keyed %v: %s (%s)", c.status, c.body, keyed, o.Result, o.Message)
			}
		}
	}
}
