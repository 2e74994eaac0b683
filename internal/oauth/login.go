package oauth

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"time"

	"golang.org/x/oauth2"
)

// LoginTime is how long a login may take until it comes back.
const LoginTime = 10 * time.Minute

// stateSize is that of a state, in bytes.
const stateSize = 32

// NewState makes what a login is known by: 256 random bits, as text.
func NewState() (string, error) {
	state := make([]byte, stateSize)
	if _, err := rand.Read(state); err != nil {
		return "", fmt.Errorf("oauth: a state: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(state), nil
}

// Mark is what is stored of a state: who reads the database cannot end its logins.
func Mark(state string) []byte {
	sum := sha256.Sum256([]byte(state))
	return sum[:]
}

// NewVerifier makes the secret of PKCE (RFC 7636): who has seen a code cannot use it.
func NewVerifier() string { return oauth2.GenerateVerifier() }
