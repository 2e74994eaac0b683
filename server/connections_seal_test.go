package server_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/server"
	"github.com/fireonce/fireonce/store"
)

// TestFingerprintsAreSalted: a guess that is stored on another connection confirms nothing,
// and the same credential given again is still known to be the same.
func TestFingerprintsAreSalted(t *testing.T) {
	f := start(t, withSocial(nil))
	c := overConnect(f)
	a, b := f.connect(c, "a", "ann-1"), f.connect(c, "b", "ann-1")
	if a.GetCredentialFingerprint() == b.GetCredentialFingerprint() || a.GetCredentialFingerprint() == "" {
		t.Errorf("fingerprints %s and %s", a.GetCredentialFingerprint(), b.GetCredentialFingerprint())
	}
	same, err := f.rotate(c, a, "ann-1", "")
	if err != nil || same.GetEtag() != a.GetEtag() || same.GetCredentialFingerprint() != a.GetCredentialFingerprint() {
		t.Errorf("the same again: %v, %v", same, err)
	}
	other, err := f.rotate(c, a, "ann-2", "")
	if err != nil || other.GetCredentialFingerprint() == a.GetCredentialFingerprint() {
		t.Errorf("another one: %v, %v", other, err)
	}
}

// bent is a store whose rows of logins were tampered with.
type bent struct {
	server.Store
	change func(*store.Login)
}

func (s *bent) ReadLogin(ctx context.Context, state []byte) (store.Login, error) {
	l, err := s.Store.ReadLogin(ctx, state)
	if err == nil && s.change != nil {
		s.change(&l)
	}
	return l, err
}

// A login that was changed in the database goes nowhere, and its code is used for nothing.
func TestLoginThatWasTamperedWith(t *testing.T) {
	for name, change := range map[string]func(*store.Login){
		"target":   func(l *store.Login) { l.Target = append([]byte{}, l.Target[:len(l.Target)-1]...) },
		"project":  func(l *store.Login) { l.Project = "other" },
		"app":      func(l *store.Login) { l.App = "issued" },
		"return":   func(l *store.Login) { l.ReturnURL = "https://app.example.org/done/evil" },
		"redirect": func(l *store.Login) { l.RedirectURL = issuedURL },
	} {
		t.Run(name, func(t *testing.T) {
			p, with := withOAuth(t)
			s := &bent{}
			b := start(t, with, func(c *server.Config) { s.Store, c.Store = c.Store, s }).browser()
			path := back(b.begin(), "anns-code")
			handed := b.handedOver(func(r *connectionsv1.StartOAuthRequest) { r.GetCreate().IdempotencyKey = "k2" })
			s.change = change
			b.wants(b.get(path), http.StatusBadGateway, "was not connected", 0)
			b.wants(b.get(back(handed, "anns-code")), http.StatusBadGateway, "was not connected", 0)
			wantReason(t, b.complete(&connectionsv1.CompleteOAuthRequest{State: handed, Code: "anns-code"}), fireoncev1.ErrorReason_ERROR_REASON_OAUTH_UNFINISHED)
			p.wants(t, 0)
			s.change = nil
			b.wants(b.confirm(path), http.StatusOK, "The account is connected", 1)
		})
	}
}
