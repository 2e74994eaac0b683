package engine_test

import (
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/lookup"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// expire returns when the connection's present credential ends.
func (w *world) expire(at time.Time) {
	w.t.Helper()
	conn := w.connection()
	_, err := w.store.ChangeConnection(w.t.Context(), store.ConnectionChange{
		Project: conn.Project, ID: conn.ID, Version: conn.Version,
		Credential: &store.Sealed{Version: conn.CredentialVersion + 1, KeyID: "k", Data: []byte("sealed"), Expires: at},
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// TestHoldSaysWhy: the hold has the most exact cause that the platform, the renewal or the
// credential's end names.
func TestHoldSaysWhy(t *testing.T) {
	ended := func(why job.AuthCause) func() error {
		return func() error { return &connector.Refusal{Kind: job.FailAuth, Auth: why, Msg: "Reconnect this account"} }
	}
	for name, tt := range map[string]struct {
		said    job.AuthCause // by the platform
		expired bool
		renew   func() error // the result of a renewal; nil: the login cannot be renewed
		want    job.AuthCause
	}{
		"refused":                         {want: job.AuthRefused},
		"refused, past its end":           {expired: true, want: job.AuthExpired},
		"expired, by the platform's word": {said: job.AuthExpired, want: job.AuthExpired},
		"a permission":                    {said: job.AuthPermission, want: job.AuthPermission},
		"a permission, past its end":      {said: job.AuthPermission, expired: true, want: job.AuthPermission},
		"a barred account":                {said: job.AuthAccountBarred, want: job.AuthAccountBarred},
		"an ended login":                  {renew: ended(job.AuthLoginEnded), want: job.AuthLoginEnded},
		"an ended login, past its end":    {expired: true, renew: ended(job.AuthLoginEnded), want: job.AuthLoginEnded},
		"a lost renewal":                  {renew: ended(job.AuthRenewalLost), want: job.AuthRenewalLost},
		"a barred account, renewed":       {said: job.AuthAccountBarred, renew: ended(job.AuthLoginEnded), want: job.AuthAccountBarred},
	} {
		always := func(int) bool { return true }
		for at, g := range map[string]guarded{"opened": {atOpen: always, why: tt.said}, "sent": {atSend: always, why: tt.said}} {
			t.Run(name+" when it is "+at, func(t *testing.T) {
				onBoth(t, func(t *testing.T, w *world) {
					if tt.renew != nil {
						w.refresh(&refresher{fail: tt.renew})
					}
					w.guard(&g)
					if tt.expired {
						w.expire(time.Now())
					}
					w.start()
					id := w.submit("k")
					w.pass(time.Minute)
					conn := w.connection()
					if conn.AuthHoldAt.IsZero() || conn.AuthHoldCause != tt.want {
						t.Fatalf("held since %v for %s, want %s\n%s", conn.AuthHoldAt, conn.AuthHoldCause, tt.want, w.story(id))
					}
					hold, err := w.store.Hold(t.Context(), conn.ID, w.job(id).HoldKey)
					if want := (store.Hold{AuthAt: conn.AuthHoldAt, Auth: tt.want, Reason: conn.AuthHoldReason}); err != nil || hold != want {
						t.Errorf("the job's hold is %+v, %v; want %+v", hold, err, want)
					}
					w.stop() // the engine would try the new credential, and be refused again
					w.rotate()
					if conn := w.connection(); !conn.AuthHoldAt.IsZero() || conn.AuthHoldCause != 0 {
						t.Errorf("held since %v for %s after a new credential", conn.AuthHoldAt, conn.AuthHoldCause)
					}
				}, class(job.Opaque))
			})
		}
	}
}

// TestLookSaysWhy: a look whose credential is refused holds with the cause that it saw.
func TestLookSaysWhy(t *testing.T) {
	for _, why := range []job.AuthCause{0, job.AuthAccountBarred} {
		seen := lookup.Unseen(&connector.Refusal{Kind: job.FailAuth, Auth: why, Msg: "no"})
		if want := max(why, job.AuthRefused); seen.Kind != job.FailAuth || seen.Auth != want {
			t.Errorf("a look refused for %s says %s", why, seen.Auth)
		}
	}
	if seen := lookup.Unseen(&connector.Refusal{Kind: job.FailAuth, Err: connector.ErrNotAllowed, Msg: "no"}); seen.Kind != 0 || seen.Auth != 0 {
		t.Errorf("a look that was not allowed says %v, %s", seen.Kind, seen.Auth)
	}
}
