package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// tolerance is how far webhook-timestamp may be from our clock. Without it, an
// attacker who once saw a request could replay it forever.
const tolerance = 5 * time.Minute

var (
	errSignature = errors.New("the signature does not fit")
	errTimestamp = errors.New("the timestamp is too old or too new")
	errSecret    = errors.New("the secret must be whsec_ and base64 of 24 to 64 bytes")
)

// verifier checks the three headers of Standard Webhooks 1.0.
type verifier struct {
	key []byte
	now func() time.Time
}

func newVerifier(secret string, now func() time.Time) (*verifier, error) {
	encoded, found := strings.CutPrefix(secret, "whsec_")
	key, err := base64.StdEncoding.DecodeString(encoded)
	if !found || err != nil || len(key) < 24 || len(key) > 64 {
		return nil, errSecret
	}
	return &verifier{key: key, now: now}, nil
}

// check returns the event's id if the request is genuine. It verifies the bytes as
// they arrived: a body must not be parsed before it is verified.
func (v *verifier) check(h http.Header, body []byte) (id string, err error) {
	id, stamp := h.Get("webhook-id"), h.Get("webhook-timestamp")
	mac := hmac.New(sha256.New, v.key)
	mac.Write([]byte(id + "." + stamp + "."))
	mac.Write(body)
	want := mac.Sum(nil)
	genuine := false
	for one := range strings.FieldsSeq(h.Get("webhook-signature")) {
		version, encoded, _ := strings.Cut(one, ",")
		got, err := base64.StdEncoding.DecodeString(encoded)
		// hmac.Equal takes the same time wherever the difference is.
		genuine = genuine || (version == "v1" && err == nil && hmac.Equal(got, want))
	}
	if id == "" || !genuine {
		return "", errSignature
	}
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil {
		return "", errTimestamp
	}
	if age := v.now().Sub(time.Unix(seconds, 0)); age > tolerance || age < -tolerance {
		return "", errTimestamp
	}
	return id, nil
}
