package oauth

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"time"

	"golang.org/x/oauth2"
)

// LoginTime is how long a login may take until it comes back.
const LoginTime = 10 * time.Minute

// ticketSize is that of a ticket, in bytes.
const ticketSize = 32

// Each hash of a ticket begins with its use, so that no hash can stand for another.
const (
	useState        = "fireonce login state 1\x00"
	useConfirmation = "fireonce login confirmation 1\x00"
)

// NewTicket makes the secret that a login begins with: 256 random bits, as text. Where this
// server's own page ends the login, the ticket is in the URL that begins it and in a cookie of the
// browser that opened it, and nowhere else.
func NewTicket() (string, error) {
	ticket := make([]byte, ticketSize)
	if _, err := rand.Read(ticket); err != nil {
		return "", fmt.Errorf("oauth: a ticket: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(ticket), nil
}

// StateOf returns the state of the login that a ticket begins. The platform sees the
// state and sends it back; it does not lead to the ticket.
func StateOf(ticket string) string { return hashed(useState, ticket) }

// Begins reports whether a ticket is that of a state.
func Begins(ticket, state string) bool {
	return subtle.ConstantTimeCompare([]byte(StateOf(ticket)), []byte(state)) == 1
}

// Confirmation returns the value in the form with which a person confirms a login. It is derived
// from the ticket and the code.
func Confirmation(ticket, code string) string { return hashed(useConfirmation, ticket+"\x00"+code) }

// Confirms compares what came with a form with Confirmation.
func Confirms(said, ticket, code string) bool {
	return subtle.ConstantTimeCompare([]byte(Confirmation(ticket, code)), []byte(said)) == 1
}

func hashed(use, text string) string {
	sum := sha256.Sum256([]byte(use + text))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// Mark is the stored form of a state: a reader of the database cannot complete its logins.
func Mark(state string) []byte {
	sum := sha256.Sum256([]byte(state))
	return sum[:]
}

// NewVerifier makes the secret of PKCE (RFC 7636): a code alone is of no use to a reader of it.
func NewVerifier() string { return oauth2.GenerateVerifier() }
