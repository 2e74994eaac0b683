package server_test

import (
	"strings"
	"testing"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/vault"
	"github.com/fireonce/fireonce/server"
	"github.com/fireonce/fireonce/store"
)

// TestEveryReasonHasACode: a reason that is added to the contract is added to
// the table.
func TestEveryReasonHasACode(t *testing.T) {
	for n, name := range fireoncev1.ErrorReason_name {
		if code := server.ReasonCode(fireoncev1.ErrorReason(n)); (n == 0) != (code == 0) {
			t.Errorf("%s has code %d", name, code)
		}
	}
}

// TestNumbersMeanTheSame: the domain's numbers are the contract's, so the
// conversions need no tables. Only these names differ.
func TestNumbersMeanTheSame(t *testing.T) {
	const failurePrefix = "FAILURE_KIND_"
	differ := map[string]string{
		failurePrefix + "WINDOW_OVER": failurePrefix + "EXPIRED", // for users it is the job's end
		failurePrefix + "HELD":        "",                        // never stored
	}
	for _, list := range []struct {
		prefix string
		wire   map[int32]string
		name   func(uint8) string
	}{
		{"JOB_STATE_", fireoncev1.JobState_name, func(n uint8) string { return job.State(n).String() }},
		{failurePrefix, fireoncev1.FailureKind_name, func(n uint8) string { return job.FailureKind(n).String() }},
		{"EFFECT_CLASS_", fireoncev1.EffectClass_name, func(n uint8) string { return job.Class(n).String() }},
		{"DELIVERY_", fireoncev1.Delivery_name, func(n uint8) string { return job.Delivery(n).String() }},
		{"ATTEMPT_OUTCOME_", fireoncev1.AttemptOutcome_name, func(n uint8) string { return job.Result(n).String() }},
		{"EVENT_CAUSE_", fireoncev1.EventCause_name, func(n uint8) string { return job.Cause(n).String() }},
		{"PROOF_", fireoncev1.Effect_Proof_name, func(n uint8) string { return job.Proof(n).String() }},
		{"VERDICT_", fireoncev1.Observation_Verdict_name, func(n uint8) string { return job.Verdict(n).String() }},
		{"DECISION_", fireoncev1.Resolution_Decision_name, func(n uint8) string { return job.Ruling(n).String() }},
	} {
		for n := uint8(1); n < 30; n++ {
			name, wire := list.name(n), list.wire[int32(n)]
			if name == "UNSPECIFIED" || name == "NONE" {
				name = ""
			} else {
				name = list.prefix + name
			}
			if other, known := differ[name]; known {
				name = other
			}
			if name != wire {
				t.Errorf("%d is %q here and %q in the contract", n, name, wire)
			}
		}
	}
}

func TestConnectionDisabled(t *testing.T) {
	f := start(t)
	id := job.ID{7, 15: 7}
	_, _, err := f.store.CreateConnection(t.Context(), store.NewConnection{
		Key: "gone", Connection: store.Connection{ID: id, Project: server.DefaultProject, Connector: "gone", Class: job.Opaque},
	})
	f.must(err)
	err = overGRPC(f).call(t.Context(), scheduleJob, f.request("k", func(r *scheduleRequest) { r.Connection = onConnection(id.String()) }),
		&fireoncev1.ScheduleJobResponse{})
	wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_CONNECTION_DISABLED)
}

// TestNewRefuses configurations that could not be served, or not safely.
func TestNewRefuses(t *testing.T) {
	f := start(t)
	connectors, err := connector.NewRegistry()
	f.must(err)
	safe, err := vault.New(make([]byte, 32))
	f.must(err)
	good := server.Config{Store: f.store, StoreID: job.ID{1}, Connectors: connectors, Vault: safe}
	if _, err := server.New(good); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*server.Config){
		"no store":      func(c *server.Config) { c.Store = nil },
		"no store id":   func(c *server.Config) { c.StoreID = job.ID{} },
		"no connectors": func(c *server.Config) { c.Connectors = nil },
		"no vault":      func(c *server.Config) { c.Vault = nil },
		"origin *":      func(c *server.Config) { c.AllowedOrigins = []string{"*"} },
	} {
		cfg := good
		spoil(&cfg)
		if _, err := server.New(cfg); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
