package server

import (
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/weburl"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: a caller may give a job's effect key itself, to take over an effect
// that other code has begun.
//   - It needs a scope of its own: a caller that may choose keys can make the receiver drop
//     another effect.
//   - It never has the form of derived keys, which could be another job's.
//   - It is used once at a receiver, in all projects together, forever. What counts as one
//     receiver is coarse on purpose: too coarse refuses a job, too fine drops an effect.
//   - A new effect of the same job needs another one, which only a person can give.

// mayGiveEffectKey refuses an effect key that the caller may not give. Empty: none.
func mayGiveEffectKey(who caller, key string) error {
	switch {
	case key == "":
		return nil
	case !who.has(ScopeEffectKeysWrite):
		return refuse(fireoncev1.ErrorReason_ERROR_REASON_SCOPE_MISSING,
			"this API key lacks the scope "+ScopeEffectKeysWrite, "scope", ScopeEffectKeysWrite)
	case job.ReservedEffectKey(key):
		return refuse(fireoncev1.ErrorReason_ERROR_REASON_KEY_RESERVED,
			`effect keys that start with "fo", digits and "_" belong to Fireonce`, "field", "effect_key")
	default:
		return nil
	}
}

// checkEffectKey makes the checks that need no connection.
func checkEffectKey(who caller, req *fireoncev1.ScheduleJobRequest) error {
	if req.GetEffectKey() != "" && req.GetDelivery() == fireoncev1.Delivery_DELIVERY_AT_LEAST_ONCE {
		return badField("delivery", "effect_key", "AT_LEAST_ONCE makes new effects, and effect_key is for one: use ONCE_OR_ASK, or leave effect_key out")
	}
	return mayGiveEffectKey(who, req.GetEffectKey())
}

// effectKeyAt returns the digest of a job's own effect key at its receiver; zero: it has none.
func effectKeyAt(conn *store.Connection, spec job.Spec) (digest [32]byte, err error) {
	if spec.OwnEffectKey == "" {
		return digest, nil
	}
	if conn.Class != job.Keyed {
		return digest, badField("effect_key", "effect_class",
			fmt.Sprintf("needs a KEYED connection, whose receiver drops an effect key that it has seen; this one is %s", conn.Class))
	}
	return job.EffectKeyDigest(receiverOf(conn.Connector, spec.HoldKey), spec.OwnEffectKey), nil
}

// accountHold is the hold key of connectors whose connections are accounts.
const accountHold = "account"

// receiverOf names the receiver that drops duplicates: host and port, or, where the hold key is
// the account, all accounts of the platform. A host is named in ASCII and lower case, however it
// was typed, also by a custom connector. It has one receiver at the usual ports of http and https,
// which share their handler as a rule, and a name is the same with a dot at its end.
func receiverOf(connector, holdKey string) string {
	if holdKey == accountHold {
		return "connector " + connector
	}
	u, err := url.Parse(holdKey)
	if err != nil || u.Host == "" {
		return holdKey
	}
	host, port := u.Hostname(), u.Port()
	if name, err := weburl.Host(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if port == "" || port == "80" || port == "443" {
		return "host " + host
	}
	return "host " + net.JoinHostPort(host, port)
}

// sameReceiver keeps a job with its own effect key at the receiver where that was taken.
func sameReceiver(snap job.Snapshot, holdKey string) error {
	const connector = "" // of one connection, and so the same
	if snap.OwnEffectKey == "" || receiverOf(connector, snap.HoldKey) == receiverOf(connector, holdKey) {
		return nil
	}
	return badField("payload", "effect_key", "goes to another receiver than the one that the job's effect_key is for: cancel the job and make a new one")
}

func effectKeyNeeded() *fault {
	return badField("effect_key", "required",
		"RESEND makes a new effect, and this job was given its effect key: give the one of the new effect")
}

func effectKeyTaken() *fault {
	return refuse(fireoncev1.ErrorReason_ERROR_REASON_EFFECT_KEY_TAKEN,
		"another effect at this receiver had this effect key; nothing was stored", "field", "effect_key")
}
