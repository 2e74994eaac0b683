package hostile_test

import (
	"compress/gzip"
	"io"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/proof/hostile"
)

var sizes = hostile.Sizes{Request: 64 << 10, Batch: 1 << 20}

// find returns the case of a name.
func find(t *testing.T, name string) hostile.Case {
	t.Helper()
	for c := range hostile.Cases(sizes) {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("no case %q", name)
	return hostile.Case{}
}

// TestNames: a case is found by its name, in each run.
func TestNames(t *testing.T) {
	var first []string
	seen := make(map[string]bool)
	for c := range hostile.Cases(sizes) {
		if seen[c.Name] {
			t.Errorf("%q comes twice", c.Name)
		}
		seen[c.Name], first = true, append(first, c.Name)
	}
	i := 0
	for c := range hostile.Cases(sizes) {
		if c.Name != first[i] {
			t.Fatalf("case %d is %q, and was %q", i, c.Name, first[i])
		}
		i++
	}
	if len(first) < 3000 || hostile.Count(sizes) != len(first) {
		t.Errorf("%d cases, counted as %d", len(first), hostile.Count(sizes))
	}
	for _, part := range []string{"ScheduleJob payload.email.to", "StreamJobEvents filter.job_ids", "Health/Check", "/oauth/callback", "Connect GET", "native", "labels entries"} {
		if !strings.Contains(strings.Join(first, "\n"), part) {
			t.Errorf("no case has %q", part)
		}
	}
}

// TestCasesAreWhatTheySay: a list that is filled decodes to as many elements.
func TestCasesAreWhatTheySay(t *testing.T) {
	c := find(t, "/fireonce.v1.JobService/ScheduleJob payload.email.to empty elements, Connect, write key")
	r, err := c.Request(t.Context(), "http://127.0.0.1:1", "open sesame")
	if err != nil {
		t.Fatal(err)
	}
	if r.Header.Get("Authorization") != "Bearer open sesame" || r.Header.Get("Content-Encoding") != "gzip" {
		t.Errorf("headers %v", r.Header)
	}
	unzip, err := gzip.NewReader(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(unzip)
	if err != nil {
		t.Fatal(err)
	}
	var m fireoncev1.ScheduleJobRequest
	if err := proto.Unmarshal(data, &m); err != nil {
		t.Fatal(err)
	}
	if n := len(m.GetPayload().GetEmail().GetTo()); n < 30_000 || len(data) > sizes.Request {
		t.Errorf("%d elements in %d bytes", n, len(data))
	}
}
