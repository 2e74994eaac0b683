package job

import (
	"testing"
	"time"
)

// TestPolicyInForce checks that a policy has the same waits before and after its defaults
// are filled in.
func TestPolicyInForce(t *testing.T) {
	t.Parallel()
	for _, p := range []RetryPolicy{
		{}, {MaxAttempts: 3}, {MinBackoff: time.Second}, {MaxBackoff: 10 * time.Second}, {MinBackoff: time.Minute, MaxBackoff: 2 * time.Minute},
		{MaxBackoff: 2 * time.Hour}, {AttemptTimeout: time.Minute}, {Multiplier: 1.5}, {KeepTrying: time.Minute},
		{Delays: []time.Duration{time.Minute, 3 * time.Hour}}, {Delays: []time.Duration{time.Minute, 3 * time.Hour}, MaxBackoff: time.Hour},
	} {
		q := p.InForce()
		waits := q.MinBackoff > 0 && q.MaxBackoff >= q.MinBackoff && q.Multiplier >= 1
		if q.MaxAttempts == 0 || waits == (len(q.Delays) > 0) || q.KeepTrying == 0 || q.AttemptTimeout == 0 {
			t.Errorf("%+v is %+v in force", p, q)
		}
		if p.Attempts() != q.Attempts() || p.Timeout() != q.Timeout() || p.Keep() != q.Keep() || !q.Equal(q.InForce()) {
			t.Errorf("%+v: %+v", p, q)
		}
		for n := 1; n < 10; n++ {
			if p.Backoff(n, 0.5) != q.Backoff(n, 0.5) {
				t.Errorf("%+v: wait %d is %v and %v", p, n, p.Backoff(n, 0.5), q.Backoff(n, 0.5))
			}
		}
	}
}
