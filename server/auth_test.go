package server_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/fireonce/fireonce/clients/go/adminv1"
	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/apikey"
	"github.com/fireonce/fireonce/server"
	"github.com/fireonce/fireonce/store"
)

const credentialInvalid = fireoncev1.ErrorReason_ERROR_REASON_CREDENTIAL_INVALID

// list asks for nothing much, with a key.
func list(t *testing.T, c client, key string) error {
	t.Helper()
	return c.call(bring(t.Context(), key), jobsPath+"ListJobs", &fireoncev1.ListJobsRequest{}, &fireoncev1.ListJobsResponse{})
}

// otherSecret stores a key under the hash of another one.
func otherSecret(k *store.NewAPIKey) { k.Hash = bytes.Repeat([]byte{1}, 32) }

// TestAPIKeys: a key is good until it is revoked or over, and no other one is.
func TestAPIKeys(t *testing.T) {
	for name, dial := range protocols {
		t.Run(name, func(t *testing.T) {
			f := start(t, requireKey)
			c := dial(f)
			first, second := f.issue("shop", server.Scopes()), f.issue("shop", server.Scopes())
			brief := f.issue("shop", server.Scopes(), func(k *store.NewAPIKey) { k.Lifetime = time.Hour })
			wrong := f.issue("shop", server.Scopes(), otherSecret)
			for _, key := range []apikey.Key{first, second, brief} { // two live keys: one replaces the other
				f.must(list(t, c, key.Reveal()))
			}
			wantReason(t, list(t, c, ""), credentialInvalid)
			other, err := apikey.New()
			f.must(err)
			text := first.Reveal()
			for what, key := range map[string]string{
				"unknown": other.Reveal(), "cut": text[:len(text)-1], "another secret": wrong.Reveal(), "another sum": text[:len(text)-1] + "_",
				"another case": strings.ToUpper(text), "the id": first.ID, "the prefix": "fo_",
			} {
				if e := wantReason(t, list(t, c, key), credentialInvalid); strings.Contains(e.msg, text[20:]) {
					t.Errorf("%s: %s", what, e.msg)
				}
			}

			for _, key := range []apikey.Key{first, wrong} {
				_, err = f.store.RevokeAPIKey(t.Context(), key.ID)
				f.must(err)
			}
			f.clock.advance(server.KeyKept)
			if e := wantReason(t, list(t, c, text), credentialInvalid); !strings.Contains(e.msg, "revoked") {
				t.Errorf("words for a revoked key: %s", e.msg)
			}
			// Only the holder of the key learns that.
			if e := wantReason(t, list(t, c, wrong.Reveal()), credentialInvalid); strings.Contains(e.msg, "revoked") {
				t.Errorf("words for a stranger: %s", e.msg)
			}
			f.must(list(t, c, second.Reveal()))
			f.clock.advance(time.Hour)
			wantReason(t, list(t, c, brief.Reveal()), credentialInvalid)
			f.must(list(t, c, second.Reveal()))
			for _, key := range []apikey.Key{first, second, brief, other} {
				if strings.Contains(f.logs.String(), key.Reveal()[20:]) {
					t.Errorf("the log has a key: %s", f.logs)
				}
			}
		})
	}
}

// TestKeyActor: the actor of an event is the key's name, if it has one, and its id.
func TestKeyActor(t *testing.T) {
	f := start(t, requireKey)
	c := overConnect(f)
	for name, key := range map[string]apikey.Key{
		"billing/": f.issue(server.DefaultProject, server.Scopes(), called("billing")),
		"":         f.issue(server.DefaultProject, server.Scopes()),
	} {
		var res fireoncev1.ScheduleJobResponse
		f.must(c.call(bring(t.Context(), key.Reveal()), scheduleJob, f.request("of "+key.ID[:4], func(r *scheduleRequest) { r.IdempotencyKey = key.ID }), &res))
		if got, want := f.history(res.GetJob().GetJobId())[0].Actor, "api:"+name+key.ID; got != want {
			t.Errorf("actor %q, want %q", got, want)
		}
	}
}

// TestNextOperatorsKey: it is as good as the present one, so that it can replace it.
func TestNextOperatorsKey(t *testing.T) {
	f := start(t, withOperator, func(c *server.Config) { c.NextAPIKey = "the-next-operators-key" })
	for _, c := range []client{overConnect(f), overNative(f)} {
		f.must(list(t, c, operatorKey))
		f.must(list(t, c, "the-next-operators-key"))
		wantReason(t, list(t, c, "another-operators-key"), credentialInvalid)
		wantReason(t, list(t, c, ""), credentialInvalid)
	}
}

// TestOperatorsKey: it is one of all scopes beside the keys of the store.
func TestOperatorsKey(t *testing.T) {
	f := start(t, func(c *server.Config) { c.APIKey = "open-sesame" })
	for _, c := range []client{overConnect(f), overNative(f)} {
		f.must(list(t, c, "open-sesame"))
		f.must(list(t, c, f.issue("shop", server.Scopes()).Reveal()))
		wantReason(t, list(t, c, "open-sesam"), credentialInvalid)
		wantReason(t, list(t, c, f.issue("shop", []string{server.ScopeAdmin}).Reveal()), scopeMissing)
	}
}

// TestNoKeyRequired: a caller without a key belongs to the default project. A caller with a key
// belongs to the key's project all the same, or is refused.
func TestNoKeyRequired(t *testing.T) {
	f := start(t)
	key := f.issue("shop", server.Scopes())
	for name, c := range map[string]client{"connect": overConnect(f), "native": overNative(f)} {
		f.must(c.call(t.Context(), jobsPath+"ListJobs", &fireoncev1.ListJobsRequest{}, &fireoncev1.ListJobsResponse{}))
		f.must(list(t, c, "whatever"))
		text := key.Reveal()
		wantReason(t, list(t, c, text[:len(text)-1]+"_"), credentialInvalid)
		made, err := askWith[connectionsv1.CreateConnectionResponse](bring(t.Context(), text), c, connsPath+"CreateConnection", &connectionsv1.CreateConnectionRequest{
			IdempotencyKey: name, Connection: &connectionsv1.Connection{Connector: "stub"},
		})
		f.must(err)
		if got := made.GetConnection().GetProjectId(); got != "shop" {
			t.Errorf("project %q", got)
		}
	}
	f = start(t, requireKey) // then a call may be addressed to any name
	res, _ := f.do(http.MethodPost, jobsPath+"ListJobs", "{}", map[string]string{
		"Content-Type": "application/json", "Host": "api.example.org", "Authorization": "Bearer " + f.issue("shop", server.Scopes()).Reveal(),
	})
	if res.StatusCode != http.StatusOK {
		t.Errorf("another host name: %d", res.StatusCode)
	}
}

// asked counts the reads of keys, and fails them on demand.
type asked struct {
	server.Store
	reads  *atomic.Int64
	broken *atomic.Bool
	touch  chan string
}

func (a asked) APIKey(ctx context.Context, id string) (store.APIKey, error) {
	a.reads.Add(1)
	if a.broken.Load() {
		return store.APIKey{}, errors.Join(store.ErrUnavailable, errors.New("secret-cause"))
	}
	return a.Store.APIKey(ctx, id)
}

func (a asked) TouchAPIKey(ctx context.Context, id string, gap time.Duration) (bool, error) {
	did, err := a.Store.TouchAPIKey(ctx, id, gap)
	if did {
		a.touch <- id
	}
	return did, err
}

func countReads() (asked, func(*server.Config)) {
	a := asked{reads: new(atomic.Int64), broken: new(atomic.Bool), touch: make(chan string, 100)}
	return a, func(c *server.Config) {
		requireKey(c)
		b := a
		b.Store = c.Store
		c.Store = b
	}
}

// TestKeyReads: a key is read again after a while, and its use is written more rarely.
func TestKeyReads(t *testing.T) {
	a, edit := countReads()
	f := start(t, edit)
	c := overConnect(f)
	key := f.issue("shop", server.Scopes())
	lastUsed := func() time.Time {
		k, err := f.store.APIKey(t.Context(), key.ID)
		f.must(err)
		return k.LastUsed
	}
	for range 20 {
		f.must(list(t, c, key.Reveal()))
	}
	if got := <-a.touch; got != key.ID || lastUsed().IsZero() {
		t.Errorf("used: %q, %v", got, lastUsed())
	}
	if n := a.reads.Load(); n > 2 { // as a stranger's, and as a known one
		t.Errorf("%d reads for 20 calls", n)
	}
	first, reads := lastUsed(), a.reads.Load()
	for range 5 {
		f.clock.advance(server.KeyKept)
		f.must(list(t, c, key.Reveal()))
	}
	if n := a.reads.Load() - reads; n != 5 || !lastUsed().Equal(first) || len(a.touch) != 0 {
		t.Errorf("%d reads in 5 periods, last used %v after %v", n, lastUsed(), first)
	}
	f.clock.advance(server.UseWritten)
	f.must(list(t, c, key.Reveal()))
	<-a.touch
	if got := lastUsed(); got.Sub(first) < server.UseWritten {
		t.Errorf("last used %v after %v", got, first)
	}
	// A wrong secret is no use.
	wantReason(t, list(t, c, f.issue("shop", server.Scopes(), otherSecret).Reveal()), credentialInvalid)
	f.must(f.server.Shutdown(t.Context()))
	if len(a.touch) != 0 {
		t.Error("a wrong secret was noted as a use")
	}
}

// TestKeysUnread: a store that cannot be reached makes no key a wrong one.
func TestKeysUnread(t *testing.T) {
	a, edit := countReads()
	for name, dial := range protocols {
		f := start(t, edit)
		c := dial(f)
		key := f.issue("shop", server.Scopes())
		a.broken.Store(true)
		e := wantReason(t, list(t, c, key.Reveal()), fireoncev1.ErrorReason_ERROR_REASON_STORE_UNAVAILABLE)
		if e.code != connect.CodeUnavailable || strings.Contains(e.msg, "secret-cause") {
			t.Errorf("%s: %v", name, e)
		}
		if !strings.Contains(f.logs.String(), "secret-cause") {
			t.Errorf("%s: the cause is not in the log: %s", name, f.logs)
		}
		a.broken.Store(false)
		f.must(list(t, c, key.Reveal()))
	}
}

// TestStreamOfRevokedKey: a stream ends soon after the key that began it.
func TestStreamOfRevokedKey(t *testing.T) {
	for name, dial := range protocols {
		t.Run(name, func(t *testing.T) {
			f := start(t, requireKey, func(c *server.Config) { c.Limits.Heartbeat = 5 * time.Millisecond })
			c := dial(f)
			key := f.issue("shop", server.Scopes())
			s := c.stream(bring(t.Context(), key.Reveal()), &fireoncev1.StreamJobEventsRequest{})
			defer s.close()
			for range 3 { // heartbeats
				_, err := s.next()
				f.must(err)
			}
			_, err := f.store.RevokeAPIKey(t.Context(), key.ID)
			f.must(err)
			f.clock.advance(server.KeyKept)
			for err == nil {
				_, err = s.next()
			}
			wantReason(t, err, credentialInvalid)
		})
	}
}

// TestStreamDeliversNothingAfterRevocation: an event that comes after its key is known
// to be revoked ends the stream instead of being delivered.
func TestStreamDeliversNothingAfterRevocation(t *testing.T) {
	for name, dial := range protocols {
		t.Run(name, func(t *testing.T) {
			for where, revoke := range map[string]func(f *fixture, c client, id string) error{
				"on this server": func(f *fixture, c client, id string) error {
					return c.call(bring(t.Context(), operatorKey), accessPath+"RevokeApiKey",
						&adminv1.RevokeApiKeyRequest{ApiKeyId: id}, &adminv1.RevokeApiKeyResponse{})
				},
				"on another server": func(f *fixture, _ client, id string) error {
					_, err := f.store.RevokeAPIKey(t.Context(), id)
					f.clock.advance(server.KeyKept)
					return err
				},
			} {
				f := start(t, withOperator, func(c *server.Config) { c.Limits.Heartbeat = time.Hour })
				c := dial(f)
				key := f.issue(server.DefaultProject, server.Scopes())
				s := c.stream(bring(t.Context(), key.Reveal()), &fireoncev1.StreamJobEventsRequest{})
				defer s.close()
				_, err := s.next() // the first heartbeat
				f.must(err)
				f.must(revoke(f, c, key.ID))
				f.must(c.call(bring(t.Context(), operatorKey), scheduleJob, f.request("late"), &fireoncev1.ScheduleJobResponse{}))
				if e, err := s.next(); err == nil {
					t.Errorf("revoked %s: delivered %v", where, e)
				} else {
					wantReason(t, err, credentialInvalid)
				}
			}
		})
	}
}
