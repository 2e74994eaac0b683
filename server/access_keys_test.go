package server_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fireonce/fireonce/clients/go/adminv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/seal"
	"github.com/fireonce/fireonce/internal/vault"
	"github.com/fireonce/fireonce/server"
	"github.com/fireonce/fireonce/store"
)

const operatorKey = "open-sesame"

func withOperator(c *server.Config) { c.APIKey = operatorKey }

// makeKey asks for an API key.
func makeKey(ctx context.Context, c client, project string, scopes []string, edit ...func(*adminv1.CreateApiKeyRequest)) (*adminv1.CreateApiKeyResponse, error) {
	req := &adminv1.CreateApiKeyRequest{ProjectId: project, Scopes: scopes}
	for _, e := range edit {
		e(req)
	}
	return askWith[adminv1.CreateApiKeyResponse](ctx, c, accessPath+"CreateApiKey", req)
}

func newProject(r *adminv1.CreateApiKeyRequest) { r.CreateProject = true }

// TestKeysOverTheAPI: a key is made, is good, is shown without itself, and ends.
func TestKeysOverTheAPI(t *testing.T) {
	for name, dial := range protocols {
		t.Run(name, func(t *testing.T) {
			f := start(t, withOperator)
			c := dial(f)
			operator := bring(t.Context(), operatorKey)
			made, err := makeKey(operator, c, "shop", []string{"jobs:write", "jobs:read"}, newProject, func(r *adminv1.CreateApiKeyRequest) {
				r.Name, r.Lifetime = "billing", durationpb.New(time.Hour)
			})
			f.must(err)
			k, secret := made.GetApiKey(), made.GetSecret()
			now := f.clock.Now()
			if !strings.HasPrefix(secret, "fo_"+k.GetApiKeyId()+"_") || k.GetProjectId() != "shop" || k.GetName() != "billing" || !k.GetActive() ||
				!slices.Equal(k.GetScopes(), []string{"jobs:read", "jobs:write"}) || !k.GetExpireTime().AsTime().Equal(now.Add(time.Hour)) {
				t.Errorf("made %v", k)
			}
			f.must(list(t, c, secret))
			// A lost answer is no key twice: a repeat makes another one.
			again, err := makeKey(operator, c, "shop", []string{"jobs:read"})
			f.must(err)
			if again.GetSecret() == secret || again.GetApiKey().GetExpireTime() != nil {
				t.Errorf("made again: %v", again.GetApiKey())
			}
			f.must(list(t, c, again.GetSecret()))

			shown, err := askWith[adminv1.ListApiKeysResponse](operator, c, accessPath+"ListApiKeys", &adminv1.ListApiKeysRequest{ProjectId: "shop"})
			f.must(err)
			if len(shown.GetApiKeys()) != 2 || strings.Contains(shown.String(), secret[20:]) {
				t.Errorf("listed %v", shown)
			}
			for range 2 { // the first time stays
				res, err := askWith[adminv1.RevokeApiKeyResponse](operator, c, accessPath+"RevokeApiKey", &adminv1.RevokeApiKeyRequest{ApiKeyId: k.GetApiKeyId()})
				f.must(err)
				if got := res.GetApiKey(); got.GetActive() || !got.GetRevokeTime().AsTime().Equal(now) {
					t.Errorf("revoked %v", got)
				}
				f.clock.advance(server.KeyKept)
			}
			wantReason(t, list(t, c, secret), credentialInvalid)
			f.must(list(t, c, again.GetSecret()))
			for _, want := range []string{"an API key was made", "an API key was revoked", `"by":"api:key"`, k.GetApiKeyId()} {
				if !strings.Contains(f.logs.String(), want) {
					t.Errorf("the log lacks %s", want)
				}
			}
			if strings.Contains(f.logs.String(), secret[20:]) {
				t.Error("the log has the key")
			}
		})
	}
}

// TestWhoMakesKeys: a caller cannot pass on a scope that it lacks, and only the operator reaches
// another project, or learns whether it exists.
func TestWhoMakesKeys(t *testing.T) {
	f := start(t, withOperator)
	c := overConnect(f)
	operator := bring(t.Context(), operatorKey)
	of := func(project string, scopes ...string) context.Context {
		return bring(t.Context(), f.issue(project, scopes).Reveal())
	}
	admin := of("shop", server.ScopeAdmin, server.ScopeJobsRead)
	theirs := f.issue("there", []string{server.ScopeJobsRead})

	made, err := makeKey(admin, c, "", []string{server.ScopeJobsRead})
	f.must(err)
	if made.GetApiKey().GetProjectId() != "shop" {
		t.Errorf("a key of %s", made.GetApiKey().GetProjectId())
	}
	_, err = makeKey(admin, c, "shop", []string{server.ScopeAdmin})
	f.must(err)
	_, err = makeKey(admin, c, "", []string{server.ScopeJobsRead, server.ScopeJobsWrite})
	if e := wantReason(t, err, scopeMissing); e.detail.GetMetadata()["scope"] != server.ScopeJobsWrite {
		t.Errorf("%v", e.detail)
	}
	for _, project := range []string{"there", "nowhere", server.DefaultProject} {
		_, err = makeKey(admin, c, project, []string{server.ScopeJobsRead})
		wantReason(t, err, operatorRequired)
		_, err = askWith[adminv1.ListApiKeysResponse](admin, c, accessPath+"ListApiKeys", &adminv1.ListApiKeysRequest{ProjectId: project})
		wantReason(t, err, operatorRequired)
	}
	_, err = makeKey(admin, c, "", []string{server.ScopeJobsRead}, newProject)
	wantReason(t, err, operatorRequired)
	for _, id := range []string{theirs.ID, strings.Repeat("0", 16)} {
		_, err = askWith[adminv1.RevokeApiKeyResponse](admin, c, accessPath+"RevokeApiKey", &adminv1.RevokeApiKeyRequest{ApiKeyId: id})
		if e := wantReason(t, err, keyNotFound); e.msg != "no API key "+id {
			t.Errorf("%v", e)
		}
	}
	// The operator reaches all projects, and its own is one of them.
	made, err = makeKey(operator, c, "", server.Scopes())
	f.must(err)
	if made.GetApiKey().GetProjectId() != server.DefaultProject || len(made.GetApiKey().GetScopes()) != len(server.Scopes()) {
		t.Errorf("made %v", made.GetApiKey())
	}
	_, err = makeKey(operator, c, "nowhere", []string{server.ScopeJobsRead})
	wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_PROJECT_NOT_FOUND)
	_, err = makeKey(operator, c, "nowhere", []string{server.ScopeJobsRead}, newProject)
	f.must(err)
	if got := f.pages(operator, c, "", 2); len(got) != 6 {
		t.Errorf("the operator sees %v", got)
	}
	if got := f.pages(admin, c, "", 1); len(got) != 3 || slices.ContainsFunc(got, func(k *adminv1.ApiKey) bool { return k.GetProjectId() != "shop" }) {
		t.Errorf("an administrator sees %v", got)
	}
}

// pages reads all API keys that a caller sees, some at a time.
func (f *fixture) pages(ctx context.Context, c client, project string, size int32) (out []*adminv1.ApiKey) {
	f.tb.Helper()
	req := &adminv1.ListApiKeysRequest{ProjectId: project, PageSize: size}
	for {
		page, err := askWith[adminv1.ListApiKeysResponse](ctx, c, accessPath+"ListApiKeys", req)
		f.must(err)
		if len(page.GetApiKeys()) > int(size) {
			f.tb.Fatalf("a page of %d", len(page.GetApiKeys()))
		}
		out = append(out, page.GetApiKeys()...)
		if req.PageToken = page.GetNextPageToken(); req.GetPageToken() == "" {
			return out
		}
	}
}

// TestKeyPagesApart: a page of one list is none of another, and none of another call.
func TestKeyPagesApart(t *testing.T) {
	f := start(t, withOperator)
	c := overConnect(f)
	operator := bring(t.Context(), operatorKey)
	f.issue("shop", server.Scopes())
	other := f.issue("other", server.Scopes())
	page, err := askWith[adminv1.ListApiKeysResponse](operator, c, accessPath+"ListApiKeys", &adminv1.ListApiKeysRequest{PageSize: 1})
	f.must(err)
	for _, ctx := range []context.Context{operator, bring(t.Context(), other.Reveal())} {
		_, err = askWith[adminv1.ListApiKeysResponse](ctx, c, accessPath+"ListApiKeys",
			&adminv1.ListApiKeysRequest{ProjectId: "other", PageToken: page.GetNextPageToken()})
		wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_PAGE_TOKEN_INVALID)
	}
	_, err = askWith[adminv1.RotateSealingKeyResponse](operator, c, accessPath+"RotateSealingKey",
		&adminv1.RotateSealingKeyRequest{PageToken: page.GetNextPageToken()})
	wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_PAGE_TOKEN_INVALID)
}

// TestRulesOfKeys: the contract refuses wrong requests for keys, and knows every scope.
func TestRulesOfKeys(t *testing.T) {
	f := start(t)
	c := overGRPC(f)
	for _, scope := range server.Scopes() {
		_, err := makeKey(t.Context(), c, "", []string{scope})
		f.must(err)
	}
	for what, spoil := range map[string]func(*adminv1.CreateApiKeyRequest){
		"no scope":               func(r *adminv1.CreateApiKeyRequest) { r.Scopes = nil },
		"a scope that is none":   func(r *adminv1.CreateApiKeyRequest) { r.Scopes = []string{"jobs"} },
		"a scope twice":          func(r *adminv1.CreateApiKeyRequest) { r.Scopes = []string{"admin", "admin"} },
		"the operator's name":    func(r *adminv1.CreateApiKeyRequest) { r.Name = "key" },
		"a name in two lines":    func(r *adminv1.CreateApiKeyRequest) { r.Name = "a\nb" },
		"a project with a space": func(r *adminv1.CreateApiKeyRequest) { r.ProjectId = "a b" },
		"no time":                func(r *adminv1.CreateApiKeyRequest) { r.Lifetime = durationpb.New(0) },
		"101 years":              func(r *adminv1.CreateApiKeyRequest) { r.Lifetime = durationpb.New(101 * 366 * 24 * time.Hour) },
	} {
		_, err := makeKey(t.Context(), c, "", []string{"admin"}, spoil)
		var e *wireError
		if !errors.As(err, &e) || e.code != connect.CodeInvalidArgument {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err := askWith[adminv1.RevokeApiKeyResponse](t.Context(), c, accessPath+"RevokeApiKey", &adminv1.RevokeApiKeyRequest{ApiKeyId: "fo_"})
	var e *wireError
	if !errors.As(err, &e) || e.code != connect.CodeInvalidArgument {
		t.Errorf("%v", err)
	}
	if got := f.pages(t.Context(), c, "", 500); len(got) != len(server.Scopes()) {
		t.Errorf("%d keys were made", len(got))
	}
}

// unconfirmed is a store that makes API keys and does not know it.
type unconfirmed struct{ server.Store }

func (u unconfirmed) CreateAPIKey(ctx context.Context, k store.NewAPIKey) (store.APIKey, error) {
	_, err := u.Store.CreateAPIKey(ctx, k)
	return store.APIKey{}, errors.Join(err, store.ErrUnconfirmed)
}

// TestKeyUnconfirmed: the error for a key that may have been created names it, so that it can be
// revoked.
func TestKeyUnconfirmed(t *testing.T) {
	f := start(t, func(c *server.Config) { c.Store = unconfirmed{c.Store} })
	c := overGRPC(f)
	_, err := makeKey(t.Context(), c, "", []string{"admin"})
	e := wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_STORE_UNAVAILABLE)
	if got := f.pages(t.Context(), c, "", 500); len(got) != 1 || got[0].GetApiKeyId() != e.detail.GetMetadata()["api_key_id"] {
		t.Errorf("%v, the error has %v", got, e.detail)
	}
}

// next is a vault whose key file has changed.
type next struct {
	*vault.Vault
	id string
}

func (n *next) NextKeyID() string { return n.id }

func vaultOf(t *testing.T, fills ...byte) *vault.Vault {
	t.Helper()
	var keys [][]byte
	for _, fill := range fills {
		keys = append(keys, bytes.Repeat([]byte{fill}, 32))
	}
	v, err := vault.New(keys[0], keys[1:]...)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// sealedWith stores connections whose credentials a vault seals.
func (f *fixture) sealedWith(n int, project string, v *vault.Vault) (out []job.ID) {
	f.tb.Helper()
	for range n {
		id := job.ID{9, 15: byte(len(f.sealed) + 1)}
		conn := store.Connection{
			ID: id, Project: project, Connector: "stub", Class: job.Opaque, Settings: []byte("settings"), AccountIdentity: "ann",
		}
		sealed, err := seal.Credential(v, conn, 1, []byte("secret"))
		f.must(err)
		_, _, err = f.store.CreateConnection(f.tb.Context(), store.NewConnection{Connection: conn, Sealed: sealed})
		f.must(err)
		f.sealed = append(f.sealed, id)
		out = append(out, id)
	}
	return out
}

// TestSealingKeys: the credentials of all projects are resealed with the server's key, some at a
// time, while it serves; a credential that does not open fails no other.
func TestSealingKeys(t *testing.T) {
	for name, dial := range protocols {
		t.Run(name, func(t *testing.T) {
			v := &next{Vault: vaultOf(t, 2, 1)}
			f := start(t, withOperator, func(c *server.Config) { c.Vault = v })
			c := dial(f)
			operator := bring(t.Context(), operatorKey)
			old, young, lost := vaultOf(t, 1).KeyID(), vaultOf(t, 2).KeyID(), vaultOf(t, 3).KeyID()
			f.issue("shop", server.Scopes())
			f.sealedWith(4, server.DefaultProject, vaultOf(t, 1))
			f.sealedWith(1, "shop", vaultOf(t, 1))
			f.sealedWith(1, "shop", vaultOf(t, 2))
			broken := f.sealedWith(1, "shop", vaultOf(t, 3))
			f.must(f.store.StartLogin(t.Context(), store.Login{
				State: make([]byte, 32), Project: "shop", App: "x", KeyID: old, Sealed: []byte{1}, Target: []byte{1},
			}, time.Minute))
			f.wantKeys(operator, c, "", young+" SEALS 1 0", old+" OPENS 5 1", lost+" MISSING 1 0")

			v.id = lost
			f.wantKeys(operator, c, lost, young+" SEALS 1 0", old+" OPENS 5 1", lost+" MISSING 1 0")
			rotate := func(req *adminv1.RotateSealingKeyRequest) (*adminv1.RotateSealingKeyResponse, error) {
				return askWith[adminv1.RotateSealingKeyResponse](operator, c, accessPath+"RotateSealingKey", req)
			}
			_, err := rotate(&adminv1.RotateSealingKeyRequest{})
			wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_SEALING_KEY_OUTDATED)
			v.id = ""

			req, calls, done := &adminv1.RotateSealingKeyRequest{PageSize: 2}, 0, 0
			var failed []string
			for {
				res, err := rotate(req)
				f.must(err)
				if n := int(res.GetResealedCount()) + len(res.GetFailedConnectionIds()); n > 2 || res.GetSealingKeyId() != young || res.GetChangedCount() != 0 {
					t.Errorf("page %d: %v", calls, res)
				}
				calls, done, failed = calls+1, done+int(res.GetResealedCount()), append(failed, res.GetFailedConnectionIds()...)
				if req.PageToken = res.GetNextPageToken(); req.GetPageToken() == "" {
					break
				}
			}
			if calls < 3 || done != 5 || !slices.Equal(failed, []string{broken[0].String()}) {
				t.Errorf("%d calls sealed %d, not %v", calls, done, failed)
			}
			f.wantKeys(operator, c, "", young+" SEALS 6 0", old+" OPENS 0 1", lost+" MISSING 1 0")
			for i, id := range f.sealed[:6] {
				s, err := f.store.Credential(t.Context(), id)
				f.must(err)
				conn, err := f.store.Connection(t.Context(), store.Ref{ID: id})
				f.must(err)
				if got, err := seal.Open(vaultOf(t, 2), conn, s); err != nil || string(got) != "secret" {
					t.Errorf("credential %d: %q, %v", i, got, err)
				}
			}
			// An administrator of one project is none of all.
			admin := bring(t.Context(), f.issue("shop", server.Scopes()).Reveal())
			_, err = askWith[adminv1.ListSealingKeysResponse](admin, c, accessPath+"ListSealingKeys", &adminv1.ListSealingKeysRequest{})
			wantReason(t, err, operatorRequired)
			_, err = askWith[adminv1.RotateSealingKeyResponse](admin, c, accessPath+"RotateSealingKey", &adminv1.RotateSealingKeyRequest{})
			wantReason(t, err, operatorRequired)
		})
	}
}

// wantKeys compares what is said of the sealing keys.
func (f *fixture) wantKeys(ctx context.Context, c client, after string, want ...string) {
	f.tb.Helper()
	res, err := askWith[adminv1.ListSealingKeysResponse](ctx, c, accessPath+"ListSealingKeys", &adminv1.ListSealingKeysRequest{})
	f.must(err)
	var got []string
	for _, k := range res.GetSealingKeys() {
		got = append(got, strings.Join([]string{
			k.GetSealingKeyId(), strings.TrimPrefix(k.GetRole().String(), "SEALING_KEY_ROLE_"), strconv.FormatInt(k.GetCredentialCount(), 10), strconv.FormatInt(k.GetLoginCount(), 10),
		}, " "))
	}
	if !slices.Equal(got, want) || res.GetNextSealingKeyId() != after {
		f.tb.Errorf("keys %q, then %q; want %q, then %q", got, res.GetNextSealingKeyId(), want, after)
	}
}
