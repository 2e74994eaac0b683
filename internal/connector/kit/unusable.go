package kit

import (
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/job"
)

// Rules of this file: settings, credentials and frozen bytes were checked when they were
// stored. If one cannot be used now, it is damaged, or of another version, and no later
// attempt helps.

// UnusableSettings is the refusal of a connection whose stored settings cannot be used.
func UnusableSettings(err error) *connector.Refusal {
	return unusable("the connection's settings are not usable", err)
}

// UnusableCredential is the refusal of a connection whose stored credential cannot be used.
func UnusableCredential(err error) *connector.Refusal {
	return unusable("the connection's credential is not usable", err)
}

// UnreadableFrozen is the refusal of a job whose frozen bytes cannot be read. what is their
// content: "post", "e-mail".
func UnreadableFrozen(what string, err error) *connector.Refusal {
	return unusable("the stored "+what+" is not readable", err)
}

func unusable(msg string, err error) *connector.Refusal {
	return &connector.Refusal{Kind: job.FailPermanent, Msg: msg, Err: err}
}
