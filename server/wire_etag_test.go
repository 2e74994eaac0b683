package server_test

import (
	"testing"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/server"
)

// TestEtagsAreDigests: the etag of one version reveals neither the next one nor that of the same
// version of another job.
func TestEtagsAreDigests(t *testing.T) {
	f := start(t)
	a, b := f.schedule(f.request("a")), f.schedule(f.request("b"))
	if a.GetEtag() == b.GetEtag() {
		t.Errorf("etags %q and %q", a.GetEtag(), b.GetEtag())
	}
	res, err := f.cancel(&fireoncev1.CancelJobRequest{Job: &fireoncev1.CancelJobRequest_JobId{JobId: a.GetJobId()}, Etag: a.GetEtag()})
	f.must(err)
	if now := res.GetJob().GetEtag(); now == a.GetEtag() || now != server.EtagOf(f.id(a.GetJobId()), 2) {
		t.Errorf("after a change %q, before %q", now, a.GetEtag())
	}
	seen := map[string]bool{}
	for version := range int64(1000) {
		etag := server.EtagOf(job.ID{1}, version)
		if seen[etag] || len(etag) != 16 {
			t.Fatalf("version %d: %q", version, etag)
		}
		seen[etag] = true
	}
}
