package server_test

import (
	"strings"
	"testing"

	"connectrpc.com/connect"

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

// TestReasonsStandWithTheirCode: a client that does not know a reason can tell its code by the
// hundred, and a reason that is added has room beside those of its code.
func TestReasonsStandWithTheirCode(t *testing.T) {
	hundreds := map[connect.Code]int32{
		connect.CodeInvalidArgument: 1, connect.CodeAlreadyExists: 2, connect.CodeNotFound: 3, connect.CodeFailedPrecondition: 4,
		connect.CodeAborted: 5, connect.CodeOutOfRange: 6, connect.CodeResourceExhausted: 7, connect.CodeUnavailable: 8,
		connect.CodePermissionDenied: 9, connect.CodeUnauthenticated: 10,
	}
	for n, name := range fireoncev1.ErrorReason_name {
		code := server.ReasonCode(fireoncev1.ErrorReason(n))
		if hundred, grouped := hundreds[code]; n != 0 && (!grouped || n/100 != hundred) {
			t.Errorf("%s = %d has code %v, whose reasons begin at %d00", name, n, code, hundred)
		}
	}
}

// TestGroups holds the groups of values that the contract's comments describe.
func TestGroups(t *testing.T) {
	for _, list := range []struct {
		names  map[int32]string
		groups int32
	}{
		{fireoncev1.FailureKind_name, 5},
		{fireoncev1.EventCause_name, 5},
		{fireoncev1.BlockedReason_Kind_name, 4},
		{fireoncev1.ConnectionStateCause_name, 4},
	} {
		for n, name := range list.names {
			if n != 0 && (n < 100 || n >= (list.groups+1)*100) {
				t.Errorf("%s = %d is in none of the groups 100 to %d00", name, n, list.groups)
			}
		}
	}
}

// TestEachValueHasItsNumber: every kind of failure that is stored, and every cause, has its own
// number in the contract, and the contract has no others.
func TestEachValueHasItsNumber(t *testing.T) {
	kinds := map[fireoncev1.FailureKind]bool{0: true}
	for k := job.FailAuth; k <= job.FailAlreadyPresent; k++ {
		wire := server.FailureToWire(k)
		if kinds[wire] || server.FailureFromWire(wire) != k {
			t.Errorf("%v is %v", k, wire)
		}
		kinds[wire] = true
	}
	if held := server.FailureToWire(job.FailHeld); held != 0 {
		t.Errorf("HELD, which is never stored, is %v", held)
	}
	causes := map[fireoncev1.EventCause]bool{0: true}
	for c := job.CauseSubmitted; c <= job.CauseAlreadyPresent; c++ {
		wire := server.CauseToWire(c)
		if causes[wire] || strings.TrimPrefix(wire.String(), "EVENT_CAUSE_") != c.String() {
			t.Errorf("%v is %v", c, wire)
		}
		causes[wire] = true
	}
	if len(kinds) != len(fireoncev1.FailureKind_name) || len(causes) != len(fireoncev1.EventCause_name) {
		t.Errorf("%d of %d kinds and %d of %d causes", len(kinds), len(fireoncev1.FailureKind_name), len(causes), len(fireoncev1.EventCause_name))
	}
	if server.FailureToWire(200)|fireoncev1.FailureKind(server.CauseToWire(200)) != 0 {
		t.Error("a number that the domain does not have is one of the contract")
	}
}

// TestNumbersMeanTheSame: these of the domain's numbers are the contract's, so the conversions
// need no tables.
func TestNumbersMeanTheSame(t *testing.T) {
	for _, list := range []struct {
		prefix string
		wire   map[int32]string
		name   func(uint8) string
	}{
		{"JOB_STATE_", fireoncev1.JobState_name, func(n uint8) string { return job.State(n).String() }},
		{"EFFECT_CLASS_", fireoncev1.EffectClass_name, func(n uint8) string { return job.Class(n).String() }},
		{"DELIVERY_", fireoncev1.Delivery_name, func(n uint8) string { return job.Delivery(n).String() }},
		{"ATTEMPT_OUTCOME_", fireoncev1.AttemptOutcome_name, func(n uint8) string { return job.Result(n).String() }},
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
