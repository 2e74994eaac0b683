package oauth

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/seal"
	"github.com/fireonce/fireonce/store"
)

func TestRenewInTime(t *testing.T) {
	in(t, func(f *fixture) {
		r := f.node()
		f.wantToken(r, "access-0", 0)
		time.Sleep(2*time.Hour - early - time.Second)
		f.wantToken(r, "access-0", 0)
		time.Sleep(2 * time.Second)
		f.wantToken(r, "access-1", 1)
		f.wantToken(r, "access-1", 1)
		if c := f.conn(); c.CredentialVersion != 2 || !c.CredentialExpires.Equal(time.Now().Add(2*time.Hour)) {
			t.Errorf("connection: version %d, expires %v", c.CredentialVersion, c.CredentialExpires)
		}
		time.Sleep(2 * time.Hour)
		f.wantToken(r, "access-2", 2)
		if got := f.p.bodies[1]; got.Get("refresh_token") != "refresh-1" || got.Get("grant_type") != "refresh_token" {
			t.Errorf("asked %v", got)
		}
	})
}

// A token that lives for a minute is not renewed for every job.
func TestRenewShortLife(t *testing.T) {
	in(t, func(f *fixture) {
		f.p.life = time.Minute
		r := f.node()
		f.wantToken(r, "access-0", 0)
		time.Sleep(53 * time.Second)
		f.wantToken(r, "access-0", 0)
		time.Sleep(2 * time.Second)
		f.wantToken(r, "access-1", 1)
		time.Sleep(50 * time.Second)
		f.wantToken(r, "access-1", 1)
	}, func(token *connectionsv1.OAuth2Token) {
		token.ExpireTime = timestamppb.New(time.Now().Add(time.Minute))
	})
}

func TestRenewNothing(t *testing.T) {
	for name, edit := range map[string]func(*connectionsv1.OAuth2Token){
		"no refresh token": func(token *connectionsv1.OAuth2Token) { token.RefreshToken = "" },
		"no end":           func(token *connectionsv1.OAuth2Token) { token.ExpireTime = nil },
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(f *fixture) {
				time.Sleep(24 * time.Hour)
				f.wantToken(f.node(), "access-0", 0)
			}, edit)
		})
	}
}

func TestRenewKeepsRefreshToken(t *testing.T) {
	into := &connectionsv1.OAuth2Token{RefreshToken: "old", App: "x", ExpireTime: timestamppb.Now()}
	Token{Access: "new", Issued: time.Unix(1, 0)}.into(into)
	if into.GetRefreshToken() != "old" || into.GetAccessToken() != "new" || into.GetExpireTime() != nil || into.GetApp() != "x" {
		t.Errorf("%v", into)
	}
}

// Many jobs, on several servers, ask concurrently: the platform sees one request.
func TestRenewOnce(t *testing.T) {
	in(t, func(f *fixture) {
		f.p.fates = []fate{endless}
		time.Sleep(2 * time.Hour)
		nodes := []*Renewer{f.node(), f.node(), f.node()}
		var all sync.WaitGroup
		for i := range 30 {
			all.Go(func() {
				if got, err := f.fresh(nodes[i%3]); got != "access-1" || err != nil {
					t.Errorf("%q, %v", got, err)
				}
			})
		}
		time.Sleep(5 * time.Second)
		close(f.p.released)
		all.Wait()
		if f.p.asked() != 1 || f.p.dead {
			t.Errorf("%d requests; login ended: %t", f.p.asked(), f.p.dead)
		}
	})
}

// A server dies in mid-renewal: another one goes on when its turn is over.
func TestRenewAfterDeath(t *testing.T) {
	in(t, func(f *fixture) {
		time.Sleep(2*time.Hour - early + time.Second)
		turn, err := f.store.BeginRenewal(f.Context(), store.RenewalParams{Connection: f.id, Version: 1, Owner: newID(), Lease: turnLease})
		if err != nil || !turn.Granted {
			t.Fatal(turn, err)
		}
		r := f.node()
		f.wantToken(r, "access-0", 0) // lasts for now
		time.Sleep(turnLease)
		f.wantToken(r, "access-1", 1)
	})
}

// lost is the message for a login that ended in a renewal whose outcome is unknown.
const lost = "Reconnect this X account: its login was being renewed when an answer of X was lost"

// A server dies when it has new tokens, and has not stored them: the old refresh token is spent.
// The next server finds that, and reports it; where the platform accepts a repeat, the login goes
// on.
func TestRenewDeathBeforeStored(t *testing.T) {
	for name, grace := range map[string]bool{"the login has ended": false, "the platform allows for it": true} {
		t.Run(name, func(t *testing.T) {
			in(t, func(f *fixture) {
				var dying atomic.Bool
				dying.Store(true)
				f.store.change = func() error {
					if dying.Load() {
						return store.ErrUnavailable
					}
					return nil
				}
				f.p.grace = grace
				time.Sleep(2 * time.Hour)
				r := f.node()
				got := make(chan error, 1)
				go func() {
					_, err := f.fresh(r)
					got <- err
				}()
				time.Sleep(time.Second)
				ctx, cancel := context.WithCancel(f.Context())
				cancel()
				if err := r.Close(ctx); err == nil || <-got == nil {
					t.Fatal("it was stored")
				}
				dying.Store(false)
				next := f.node()
				f.refuses(next, job.FailHeld, "being renewed", 1)
				time.Sleep(turnLease)
				if grace {
					f.wantToken(next, "access-2", 2)
					return
				}
				f.refuses(next, job.FailAuth, lost, 2)
				f.ended(next, job.AuthRenewalLost)
			})
		})
	}
}

// ended expects that version 1 is refused for good, and why, after two requests.
func (f *fixture) ended(r *Renewer, why job.AuthCause) {
	f.Helper()
	var refusal *connector.Refusal
	renewed, err := r.Refused(f.Context(), f.conn(), 1)
	if renewed || !errors.As(err, &refusal) || refusal.Kind != job.FailAuth || refusal.Cause() != why || f.p.asked() != 2 {
		f.Errorf("%t, %v, %d requests; want %s", renewed, err, f.p.asked(), why)
	}
}

func TestRenewLostAnswer(t *testing.T) {
	t.Run("the platform has not seen it", func(t *testing.T) {
		in(t, func(f *fixture) {
			f.p.fates = []fate{lostBefore}
			time.Sleep(2 * time.Hour)
			f.wantToken(f.node(), "access-1", 2)
		})
	})
	t.Run("the platform has, and allows for it", func(t *testing.T) {
		in(t, func(f *fixture) {
			f.p.fates, f.p.grace = []fate{lostAfter}, true
			time.Sleep(2 * time.Hour)
			f.wantToken(f.node(), "access-2", 2)
		})
	})
	t.Run("the platform has, and does not", func(t *testing.T) {
		in(t, func(f *fixture) {
			f.p.fates = []fate{lostAfter}
			time.Sleep(2 * time.Hour)
			r := f.node()
			f.refuses(r, job.FailAuth, lost, 2)
			time.Sleep(time.Hour)
			f.refuses(r, job.FailAuth, lost, 2)
			f.ended(r, job.AuthRenewalLost)
		})
	})
	t.Run("twice, and then refused", func(t *testing.T) {
		in(t, func(f *fixture) {
			f.p.fates = []fate{lostAfter, lostBefore}
			time.Sleep(2 * time.Hour)
			r := f.node()
			f.refuses(r, job.FailHeld, "X could not be reached", 2)
			time.Sleep(restLeast)
			f.refuses(f.node(), job.FailAuth, lost, 3) // another server knows it, too
		})
	})
}

// What is no word of the platform about the login ends none: jobs go on with the old
// token, then wait, and the platform is left alone in between.
func TestRenewTransient(t *testing.T) {
	for name, fates := range map[string][]fate{
		"unreached": {unsent, unsent}, "busy": {status429, status429}, "no answer": {lostBefore, lostBefore, lostBefore, lostBefore},
		"server error": {status503, status503, status503, status503},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(f *fixture) {
				f.p.fates = fates
				per := len(fates) / 2
				time.Sleep(2*time.Hour - time.Minute)
				r := f.node()
				f.wantToken(r, "access-0", per)
				f.wantToken(r, "access-0", per) // at rest
				time.Sleep(time.Minute)
				refusal := f.refuses(r, job.FailHeld, "X could not be reached", 2*per)
				time.Sleep(refusal.RetryAfter - time.Second)
				f.refuses(r, job.FailHeld, "X could not be reached", 2*per)
				time.Sleep(time.Second)
				f.wantToken(r, "access-1", 2*per+1)
			})
		})
	}
}

func TestRenewRestsLonger(t *testing.T) {
	in(t, func(f *fixture) {
		for range 40 {
			f.p.fates = append(f.p.fates, lostBefore)
		}
		time.Sleep(2 * time.Hour)
		r := f.node()
		last := time.Duration(0)
		for i := range 10 {
			refusal := f.refuses(r, job.FailHeld, "could not be reached", 2*(i+1))
			if refusal.RetryAfter < last || refusal.RetryAfter > restMost {
				t.Errorf("rest %v after %v", refusal.RetryAfter, last)
			}
			last = refusal.RetryAfter
			time.Sleep(last)
		}
		if last != restMost {
			t.Errorf("the last rest is %v", last)
		}
	})
}

func TestRenewRefused(t *testing.T) {
	in(t, func(f *fixture) {
		f.p.dead = true
		time.Sleep(2 * time.Hour)
		r := f.node()
		f.refuses(r, job.FailAuth, "Reconnect this X account: X does not accept its login any more.", 1)
		f.refuses(r, job.FailAuth, "Reconnect this X account", 1)
	})
}

// The operator's mistake is no user's: no account has to reconnect.
func TestRenewMisconfigured(t *testing.T) {
	in(t, func(f *fixture) {
		f.p.fates = []fate{badApp}
		time.Sleep(2 * time.Hour)
		r := f.node()
		f.refuses(r, job.FailHeld, `OAuth app "x"; its operator`, 1)
		time.Sleep(restApp)
		f.wantToken(r, "access-1", 2)
	})
	in(t, func(f *fixture) {
		time.Sleep(2 * time.Hour)
		f.refuses(f.node(), job.FailHeld, `no OAuth app "gone" for X`, 0)
	}, func(token *connectionsv1.OAuth2Token) { token.App = "gone" })
}

// A credential names its app. An app that is registered with one server renews no token for a
// connection to another server, which would get it.
func TestRenewForAnotherServer(t *testing.T) {
	in(t, func(f *fixture) {
		time.Sleep(2 * time.Hour)
		r := f.node()
		cred, err := r.present(f.Context(), f.conn())
		f.ok(err)
		var token connectionsv1.Credential
		f.ok(proto.Unmarshal(cred.Data, &token))
		for _, c := range [][2]string{{"https://evil.example.org", ""}, {"https://social.example.org", "access-1"}} {
			base, want := c[0], c[1]
			settings, err := proto.Marshal(&connectionsv1.MastodonSettings{BaseUrl: base})
			f.ok(err)
			f.id = newID()
			f.connect(&token, func(c *store.Connection) { c.Connector, c.Settings = "mastodon", settings })
			got, err := r.Fresh(f.Context(), f.conn(), cred)
			token, _ := tokenOf(got)
			if token.GetAccessToken() != want || (err == nil) != (want != "") {
				t.Errorf("%s: token %q, error %v, %d requests", base, token.GetAccessToken(), err, f.p.asked())
			}
			time.Sleep(restApp)
		}
	}, func(token *connectionsv1.OAuth2Token) { token.App = "social" })
}

// A platform refuses a token that should be good: it is renewed once. If the next one is refused
// immediately, a renewal does not help.
func TestRefused(t *testing.T) {
	in(t, func(f *fixture) {
		r := f.node()
		refused := func(version int, want bool, requests int) {
			t.Helper()
			got, err := r.Refused(f.Context(), f.conn(), version)
			if got != want || want != (err == nil) || f.p.asked() != requests {
				t.Errorf("version %d: %t, %v, %d requests; want %t, %d", version, got, err, f.p.asked(), want, requests)
			}
		}
		refused(1, true, 1)
		refused(1, true, 1) // late word of the old one
		refused(2, false, 1)
		f.refuses(r, job.FailAuth, "Reconnect this X account", 1)

		other := f.node()
		time.Sleep(apart)
		if got, err := other.Refused(f.Context(), f.conn(), 2); !got || err != nil || f.p.asked() != 2 {
			t.Errorf("after a while: %t, %v, %d requests", got, err, f.p.asked())
		}
	})
}

// What was refused is not used any more, even if it cannot be renewed yet.
func TestRefusedTransient(t *testing.T) {
	in(t, func(f *fixture) {
		f.p.fates = []fate{unsent}
		r := f.node()
		_, err := r.Refused(f.Context(), f.conn(), 1)
		var refusal *connector.Refusal
		if !errors.As(err, &refusal) || refusal.Kind != job.FailHeld {
			t.Fatalf("error %v", err)
		}
		f.refuses(r, job.FailHeld, "could not be reached", 1)
		time.Sleep(refusal.RetryAfter)
		f.wantToken(r, "access-1", 2)
	})
}

func TestRefusedForGood(t *testing.T) {
	in(t, func(f *fixture) {
		if got, err := f.node().Refused(f.Context(), f.conn(), 1); got || err != nil || f.p.asked() != 0 {
			t.Errorf("%t, %v, %d requests", got, err, f.p.asked())
		}
	}, func(token *connectionsv1.OAuth2Token) { token.RefreshToken = "" })
}

// No caller gets new tokens before they are stored, and storing is retried until it succeeds.
func TestRenewStored(t *testing.T) {
	in(t, func(f *fixture) {
		var works atomic.Bool
		var failures atomic.Int32
		f.store.change = func() error {
			if works.Load() {
				return nil
			}
			failures.Add(1)
			return store.ErrUnavailable
		}
		time.Sleep(2 * time.Hour)
		r := f.node()
		got := make(chan string, 1)
		go func() {
			token, err := f.fresh(r)
			if err != nil {
				t.Error(err)
			}
			got <- token
		}()
		time.Sleep(5 * turnLease)
		synctest.Wait()
		select {
		case token := <-got:
			t.Fatalf("%q was given out, and is not stored", token)
		default:
		}
		// Another server does not use the spent token meanwhile.
		f.refuses(f.node(), job.FailHeld, "being renewed", 1)
		works.Store(true)
		if token := <-got; token != "access-1" || failures.Load() < 2 || f.p.asked() != 1 {
			t.Errorf("%q after %d failures, %d requests", token, failures.Load(), f.p.asked())
		}
		f.wantToken(r, "access-1", 1)
	})
}

// A write that took effect but was not confirmed is seen to have.
func TestRenewUnconfirmed(t *testing.T) {
	in(t, func(f *fixture) {
		lying := &unconfirmed{Store: f.store}
		time.Sleep(2 * time.Hour)
		r := f.node()
		r.Store = lying
		f.wantToken(r, "access-1", 1)
		if _, version := f.stored(); version != 2 || lying.lies != 1 {
			t.Errorf("version %d, %d lies", version, lying.lies)
		}
	})
}

type unconfirmed struct {
	Store
	lies int
}

func (u *unconfirmed) ChangeConnection(ctx context.Context, c store.ConnectionChange) (store.Connection, error) {
	out, err := u.Store.ChangeConnection(ctx, c)
	if u.lies++; err == nil && u.lies == 1 {
		return store.Connection{}, store.ErrUnconfirmed
	}
	return out, err
}

// The row in the database changes during a renewal. The tokens are not sealed for the changed row.
func TestRenewIsSealedForNobodyElse(t *testing.T) {
	for name, settings := range map[string][]byte{"changed in the database": []byte("evil"), "changed through the API": []byte("moved")} {
		t.Run(name, func(t *testing.T) {
			in(t, func(f *fixture) {
				time.Sleep(2 * time.Hour)
				f.p.fates = []fate{endless}
				f.p.released = make(chan struct{})
				r := f.node()
				ended := make(chan error, 1)
				go func() {
					_, err := f.fresh(r)
					ended <- err
				}()
				synctest.Wait()
				conn := f.conn()
				change := store.ConnectionChange{
					Project: conn.Project, ID: conn.ID, Version: conn.Version, Target: &store.ConnectionTarget{Settings: settings, Class: conn.Class},
				}
				old, err := f.store.Credential(f.Context(), conn.ID)
				f.ok(err)
				// A change in the database leaves the old seal.
				change.Seal = &store.Seal{KeyID: old.KeyID, Data: old.Data}
				legal := string(settings) == "moved"
				if legal {
					secret, err := seal.Open(f.keys, conn, old)
					f.ok(err)
					conn.Settings = settings
					change.Seal, err = seal.Again(f.keys, conn, secret)
					f.ok(err)
				}
				_, err = f.store.ChangeConnection(f.Context(), change)
				f.ok(err)
				close(f.p.released)
				if err := <-ended; (err == nil) != legal {
					t.Errorf("renewed: %v", err)
				}
				got, err := f.store.Credential(f.Context(), conn.ID)
				f.ok(err)
				if stored := got.Version == 2; stored != legal {
					t.Errorf("version %d is stored", got.Version)
				}
				if _, err := seal.Open(f.keys, f.conn(), got); (err == nil) != legal {
					t.Errorf("opened: %v", err)
				}
			})
		})
	}
}

// A person sets a new credential during a renewal: that one counts.
func TestRenewOvertaken(t *testing.T) {
	in(t, func(f *fixture) {
		f.p.fates = []fate{endless}
		time.Sleep(2 * time.Hour)
		r := f.node()
		failed := make(chan error, 1)
		go func() {
			_, err := f.fresh(r)
			failed <- err
		}()
		synctest.Wait()
		secret, err := proto.Marshal(&connectionsv1.Credential{Kind: &connectionsv1.Credential_Oauth2{Oauth2: &connectionsv1.OAuth2Token{
			AccessToken: "person", RefreshToken: "r", App: "x",
		}}})
		f.ok(err)
		sealed, err := seal.Credential(f.keys, f.conn(), 2, secret)
		f.ok(err)
		_, err = f.store.ChangeConnection(f.Context(), store.ConnectionChange{
			Project: "default", ID: f.id, Version: f.conn().Version,
			Credential: sealed,
		})
		f.ok(err)
		close(f.p.released)
		var refusal *connector.Refusal
		if err := <-failed; !errors.As(err, &refusal) || refusal.Kind != job.FailHeld {
			t.Errorf("error %v", err)
		}
		f.wantToken(r, "person", 1)
	})
}

// A copy of a database renews nothing: the tokens are the original's.
func TestRenewQuarantined(t *testing.T) {
	in(t, func(f *fixture) {
		time.Sleep(2 * time.Hour)
		f.ok(f.store.Quarantine(f.Context(), "a copy"))
		f.refuses(f.node(), job.FailHeld, "", 0)
	})
}

// A server that ends stores what it has asked for.
func TestRenewerClose(t *testing.T) {
	in(t, func(f *fixture) {
		f.p.fates = []fate{endless}
		time.Sleep(2 * time.Hour)
		r := f.node()
		ctx, cancel := context.WithCancel(f.Context())
		conn := f.conn()
		cred, err := r.present(ctx, conn)
		f.ok(err)
		gone := make(chan error, 1)
		go func() {
			_, err := r.Fresh(ctx, conn, cred)
			gone <- err
		}()
		synctest.Wait()
		cancel()
		if <-gone == nil {
			t.Error("who has gone got a token")
		}
		go func() {
			time.Sleep(time.Second)
			close(f.p.released)
		}()
		f.ok(r.Close(f.Context()))
		if token, version := f.stored(); token != "access-1" || version != 2 {
			t.Errorf("%q, version %d", token, version)
		}
		if _, err := r.Fresh(f.Context(), conn, cred); err == nil {
			t.Error("a renewer that is closed began another renewal")
		}
	})
}

// TestMoreRefusedThanAreKept: with one refused version more than fit, one is forgotten.
func TestMoreRefusedThanAreKept(t *testing.T) {
	in(t, func(f *fixture) {
		r := f.node()
		var ids []job.ID
		for range mostRefused + 1 {
			ids = append(ids, newID())
			r.refuse(ids[len(ids)-1], 1, nil)
		}
		forgotten := 0
		for _, id := range ids {
			if !r.isRefused(id, 1) {
				forgotten++
			}
		}
		if forgotten != 1 || !r.isRefused(ids[mostRefused], 1) {
			t.Errorf("%d of %d are forgotten", forgotten, len(ids))
		}
	})
}
