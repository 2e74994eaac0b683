//go:build unix

package postgres

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
	"pgregory.net/rapid"

	"github.com/fireonce/fireonce/internal/job"
)

// TestColumns: lists are written byte by byte as the driver writes them.
func TestColumns(t *testing.T) {
	f := newFleet(t, 1)
	conn, err := f.stores[0].pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	ours, theirs := conn.Conn().TypeMap(), pgtype.NewMap()
	ids := rapid.Custom(func(t *rapid.T) job.ID { return job.ID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id")) })
	uuids := func(ids []job.ID) any {
		if ids == nil {
			return []pgtype.UUID(nil)
		}
		out := make([]pgtype.UUID, len(ids))
		for i, id := range ids {
			out[i] = pgtype.UUID{Bytes: id, Valid: true}
		}
		return out
	}
	times := rapid.Custom(func(t *rapid.T) time.Time {
		return rapid.SampledFrom([]time.Time{{}, time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), time.Unix(0, 0), time.UnixMicro(rapid.Int64Range(-1e15, 1e15).Draw(t, "µs"))}).Draw(t, "time")
	})
	some := rapid.Custom(func(t *rapid.T) []byte {
		if rapid.Bool().Draw(t, "null") {
			return nil
		}
		return rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")
	})
	rapid.Check(t, func(t *rapid.T) {
		for oid, list := range map[uint32]any{
			pgtype.UUIDArrayOID: rapid.SliceOf(rapid.OneOf(ids, rapid.Just(job.ID{}))).Draw(t, "ids"), pgtype.TextArrayOID: rapid.SliceOf(rapid.String()).Draw(t, "texts"),
			pgtype.ByteaArrayOID: rapid.SliceOf(some).Draw(t, "bytes"), pgtype.Int8ArrayOID: rapid.SliceOf(rapid.Int64()).Draw(t, "longs"),
			pgtype.Int2ArrayOID: rapid.SliceOf(rapid.Int16()).Draw(t, "shorts"), pgtype.BoolArrayOID: rapid.SliceOf(rapid.Bool()).Draw(t, "bits"),
			pgtype.TimestamptzArrayOID: rapid.SliceOf(times).Draw(t, "times"),
		} {
			known := list
			if ids, ok := list.([]job.ID); ok {
				known = uuids(ids)
			}
			want, err := theirs.Encode(oid, pgtype.BinaryFormatCode, known, nil)
			if err != nil {
				t.Fatal(err)
			}
			got, err := ours.Encode(oid, pgtype.BinaryFormatCode, list, nil)
			if err != nil || !bytes.Equal(got, want) || (got == nil) != (want == nil) {
				t.Fatalf("%T: %x and not %x: %v", list, got, want, err)
			}
		}
	})
}

// TestNoListIsNull: a list that a query negates or counts is never nil, which would be NULL.
// Its statement would then write or find nothing, or NULL.
func TestNoListIsNull(t *testing.T) {
	t.Parallel()
	negated := regexp.MustCompile(`(?:<> ALL \(|cardinality\()@(\w+)::`)
	lists := make(map[string]bool)
	for _, folder := range []string{".", "../sqlstore"} {
		paths, err := filepath.Glob(folder + "/queries*.sql")
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range negated.FindAllStringSubmatch(string(text), -1) {
				lists[m[1]] = true
			}
		}
	}
	// Jobs are those that the statement writes; without any it is not sent.
	checked := map[string]string{
		"full_connections": "FullConnections: sqlstore.Listed(", "full_projects": "FullProjects: sqlstore.Listed(",
		"freed": "Freed: sqlstore.Listed(", "waiting": "states.Waiting = sqlstore.Listed(", "jobs": "",
		"except_ids": "ExceptIds: Listed(",
	}
	var code strings.Builder
	paths, err := filepath.Glob("../*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		code.Write(text)
	}
	for name := range lists {
		if want, known := checked[name]; !known || !strings.Contains(code.String(), want) {
			t.Errorf("@%s: is it made by sqlstore.Listed? Add where to this test", name)
		}
	}
	if len(lists) < len(checked) {
		t.Errorf("only %v were found", lists)
	}
}
