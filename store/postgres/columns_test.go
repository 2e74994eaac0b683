//go:build unix

package postgres

import (
	"bytes"
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
		return rapid.SampledFrom([]time.Time{{}, endOfTime, time.Unix(0, 0), time.UnixMicro(rapid.Int64Range(-1e15, 1e15).Draw(t, "µs"))}).Draw(t, "time")
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
