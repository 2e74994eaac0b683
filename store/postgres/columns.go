package postgres

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/fireonce/fireonce/internal/job"
)

// Rules of this file: batches go to the database column by column, so most arguments are
// lists. The driver creates a value for each element; this code writes a list of a known type
// directly. A nil list is NULL. The driver handles all other types.

// writeColumns makes a connection write lists this way.
func writeColumns(conn *pgx.Conn) {
	types := conn.TypeMap()
	encode[job.ID](types, pgtype.UUIDArrayOID, pgtype.UUIDOID, func(b []byte, v job.ID) ([]byte, bool) {
		return append(b, v[:]...), true
	})
	encode[string](types, pgtype.TextArrayOID, pgtype.TextOID, func(b []byte, v string) ([]byte, bool) {
		return append(b, v...), true
	})
	encode[[]byte](types, pgtype.ByteaArrayOID, pgtype.ByteaOID, func(b, v []byte) ([]byte, bool) {
		return append(b, v...), v != nil
	})
	encode[int64](types, pgtype.Int8ArrayOID, pgtype.Int8OID, func(b []byte, v int64) ([]byte, bool) {
		return binary.BigEndian.AppendUint64(b, uint64(v)), true
	})
	encode[int16](types, pgtype.Int2ArrayOID, pgtype.Int2OID, func(b []byte, v int16) ([]byte, bool) {
		return binary.BigEndian.AppendUint16(b, uint16(v)), true
	})
	encode[bool](types, pgtype.BoolArrayOID, pgtype.BoolOID, func(b []byte, v bool) ([]byte, bool) {
		if v {
			return append(b, 1), true
		}
		return append(b, 0), true
	})
	encode[time.Time](types, pgtype.TimestamptzArrayOID, pgtype.TimestamptzOID, func(b []byte, v time.Time) ([]byte, bool) {
		return binary.BigEndian.AppendUint64(b, uint64(v.UnixMicro()-epoch)), true
	})
}

// epoch is PostgreSQL's epoch, 2000-01-01, in microseconds of Unix time.
const epoch = 946684800 * 1e6

// encode makes lists of T written as arrays of a type. put appends an element, false: NULL.
func encode[T any](types *pgtype.Map, array, element uint32, put func([]byte, T) ([]byte, bool)) {
	known, ok := types.TypeForOID(array)
	if !ok {
		return
	}
	own := *known
	own.Codec = columnCodec[T]{Codec: known.Codec, plan: listPlan[T]{element: element, put: put}}
	types.RegisterType(&own)
}

// columnCodec is a driver's codec that writes []T by itself.
type columnCodec[T any] struct {
	pgtype.Codec
	plan listPlan[T]
}

// PlanEncode implements pgtype.Codec.
func (c columnCodec[T]) PlanEncode(m *pgtype.Map, oid uint32, format int16, value any) pgtype.EncodePlan {
	if _, ok := value.([]T); ok && format == pgtype.BinaryFormatCode {
		return c.plan
	}
	return c.Codec.PlanEncode(m, oid, format, value)
}

// listPlan writes a list in the binary format of arrays.
type listPlan[T any] struct {
	element uint32
	put     func([]byte, T) ([]byte, bool)
}

// Encode implements pgtype.EncodePlan.
func (c listPlan[T]) Encode(value any, buf []byte) ([]byte, error) {
	list, ok := value.([]T)
	if !ok {
		return nil, fmt.Errorf("%T is no column", value)
	}
	if list == nil {
		return nil, nil // NULL
	}
	buf = binary.BigEndian.AppendUint32(buf, 1) // dimensions
	nulls := len(buf)
	buf = binary.BigEndian.AppendUint32(buf, 0)
	buf = binary.BigEndian.AppendUint32(buf, c.element)
	buf = binary.BigEndian.AppendUint32(buf, uint32(len(list)))
	buf = binary.BigEndian.AppendUint32(buf, 1) // the first index
	for _, v := range list {
		at := len(buf)
		buf = binary.BigEndian.AppendUint32(buf, 0)
		var there bool
		if buf, there = c.put(buf, v); there {
			binary.BigEndian.PutUint32(buf[at:], uint32(len(buf)-at-4))
			continue
		}
		buf = buf[:at]
		buf = binary.BigEndian.AppendUint32(buf, null)
		binary.BigEndian.PutUint32(buf[nulls:], 1)
	}
	return buf, nil
}

// null is the length of a NULL: -1.
const null = 1<<32 - 1
