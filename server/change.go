package server

import (
	"errors"
	"fmt"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: what changes one object of any kind reads it, decides, and writes for the
// version that was read; if the object has changed between, all of that is repeated. A change that
// is in place already succeeds before the etag is compared. The etag is compared before every other
// check, because the client judged by another state.

// decideAgain calls change until it fails with something else than store.ErrStale, or has done so
// store.MaxDecisions times; then stale has the error for the object as it was read last.
func decideAgain[T any](change func() (T, error), stale func(T) error) (T, error) {
	var last T
	for range store.MaxDecisions {
		var err error
		if last, err = change(); !errors.Is(err, store.ErrStale) {
			return last, err
		}
	}
	return last, stale(last)
}

// checkEtag refuses a change of an object whose version is not the one that the client has read.
// Without an etag it passes.
func checkEtag(etag, kind string, id job.ID, version int64) error {
	if etag == "" || etag == etagOf(id, version) {
		return nil
	}
	return etagMismatch(kind, id, version)
}

// etagMismatch is the error for an object that has changed since the client, or this server, read it.
func etagMismatch(kind string, id job.ID, version int64) *fault {
	etag := etagOf(id, version)
	return refuse(fireoncev1.ErrorReason_ERROR_REASON_ETAG_MISMATCH,
		fmt.Sprintf("%s %s has changed since it was read; its etag is now %s", kind, id, etag),
		kind+"_id", id.String(), "etag", etag)
}
