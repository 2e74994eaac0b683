package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"hash"
	"strconv"
	"strings"
	"sync"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/kit"
)

// Limits of signing secrets, by Standard Webhooks 1.0 ("Signature scheme").
const (
	secretPrefix = "whsec_"
	minSecret    = 24
	maxSecret    = 64
	// MaxSecrets bounds how many sign one request.
	MaxSecrets = 5
)

// credential is an opened credential: keys, the newest first, and headers that
// go with every request.
type credential struct {
	kit.Auth

	keys []*signer
}

func openCredential(c connector.Credential) (credential, error) {
	var out credential
	pb, err := kit.ReadCredential(c)
	if err != nil {
		return out, err
	}
	var hide []string
	switch kind := pb.GetKind().(type) {
	case nil:
	case *connectionsv1.Credential_WebhookSecrets:
		secrets := kind.WebhookSecrets.GetSecrets()
		if len(secrets) == 0 || len(secrets) > MaxSecrets {
			return out, badCredential(".webhook_secrets.secrets", "1 to 5 secrets")
		}
		for i, text := range secrets {
			key, err := parseSecret(text)
			if err != nil {
				return out, badCredential(fmt.Sprintf(".webhook_secrets.secrets[%d]", i), err.Error())
			}
			out.keys = append(out.keys, newSigner(key))
			hide = append(hide, text, strings.TrimPrefix(text, secretPrefix), string(key))
		}
	default:
		return out, badCredential("", "the connector webhook takes webhook_secrets, headers, or nothing")
	}
	headers, hidden, err := kit.SecretHeaders(pb.GetHeaders())
	if err != nil {
		return out, err
	}
	out.Headers, out.Hidden = headers, out.Hidden.With(append(hide, hidden...)...)
	return out, nil
}

var badCredential = kit.Bad(connector.BadCredential, "credential")

// parseSecret reads "whsec_" and base64. Its errors do not quote the secret.
func parseSecret(text string) ([]byte, error) {
	encoded, found := strings.CutPrefix(text, secretPrefix)
	if !found {
		return nil, fmt.Errorf("a secret starts with %s", secretPrefix)
	}
	key, err := base64.StdEncoding.Strict().DecodeString(encoded)
	if err != nil {
		return nil, fmt.Errorf("a secret is %s and base64", secretPrefix)
	}
	if len(key) < minSecret || len(key) > maxSecret {
		return nil, fmt.Errorf("a secret has %d to %d bytes", minSecret, maxSecret)
	}
	return key, nil
}

// signer makes signatures with one key. It keeps digests that have taken the key in: they
// cost as much as the signing of a short body.
type signer struct{ macs sync.Pool }

func newSigner(key []byte) *signer {
	return &signer{macs: sync.Pool{New: func() any { return hmac.New(sha256.New, key) }}}
}

// appendMAC appends the HMAC-SHA-256 of head and body, in base64.
func (s *signer) appendMAC(out, head, body []byte) []byte {
	mac := s.macs.Get().(hash.Hash)
	defer s.macs.Put(mac)
	mac.Reset()
	mac.Write(head)
	mac.Write(body)
	var sum [sha256.Size]byte
	return base64.StdEncoding.AppendEncode(out, mac.Sum(sum[:0]))
}

// sign returns the value of webhook-signature: one "v1,<base64 HMAC-SHA-256>" for
// each key, over id.timestamp.body, separated by spaces.
func sign(keys []*signer, id string, timestamp int64, body []byte) string {
	const each = len(" v1,") + (sha256.Size+2)/3*4
	head := append(make([]byte, 0, len(id)+len("..9223372036854775807")), id...)
	head = append(strconv.AppendInt(append(head, '.'), timestamp, 10), '.')
	out := make([]byte, 0, each*len(keys))
	for i, key := range keys {
		if i > 0 {
			out = append(out, ' ')
		}
		out = key.appendMAC(append(out, "v1,"...), head, body)
	}
	return string(out)
}
