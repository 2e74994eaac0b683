package postgres

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store/column"
)

// Rules of this file: single values have the domain's types, as those of SQLite do. The zero
// time and the zero optional id are NULL; times are UTC. A zero job.ID is written as it is,
// since it may be the start of a list, and a NULL is read as zero.

// writeValues makes a connection read and write times and ids this way. It must come before
// writeColumns: lists take their elements' types.
func writeValues(conn *pgx.Conn) {
	types := conn.TypeMap()
	register(types, "timestamptz", pgtype.TimestamptzOID, "_timestamptz", pgtype.TimestamptzArrayOID, &timeCodec{
		TimestamptzCodec: pgtype.TimestamptzCodec{ScanLocation: time.UTC},
	})
	register(types, "uuid", pgtype.UUIDOID, "_uuid", pgtype.UUIDArrayOID, idCodec{})
}

func register(types *pgtype.Map, name string, oid uint32, list string, listOID uint32, codec pgtype.Codec) {
	element := &pgtype.Type{Name: name, OID: oid, Codec: codec}
	types.RegisterType(element)
	types.RegisterType(&pgtype.Type{Name: list, OID: listOID, Codec: &pgtype.ArrayCodec{ElementType: element}})
}

// timeCodec is the driver's codec, with the zero time as NULL.
type timeCodec struct{ pgtype.TimestamptzCodec }

// PlanEncode implements pgtype.Codec.
func (c *timeCodec) PlanEncode(m *pgtype.Map, oid uint32, format int16, value any) pgtype.EncodePlan {
	if _, ok := value.(time.Time); ok && format == pgtype.BinaryFormatCode {
		return timePlan{}
	}
	return c.TimestamptzCodec.PlanEncode(m, oid, format, value)
}

// PlanScan implements pgtype.Codec.
func (c *timeCodec) PlanScan(m *pgtype.Map, oid uint32, format int16, target any) pgtype.ScanPlan {
	if _, ok := target.(*time.Time); ok && format == pgtype.BinaryFormatCode {
		return timePlan{}
	}
	return c.TimestamptzCodec.PlanScan(m, oid, format, target)
}

type timePlan struct{}

// Encode implements pgtype.EncodePlan.
func (timePlan) Encode(value any, buf []byte) ([]byte, error) {
	t, ok := value.(time.Time)
	if !ok {
		return nil, fmt.Errorf("%T is no time", value)
	}
	if t.IsZero() {
		return nil, nil // NULL
	}
	return binary.BigEndian.AppendUint64(buf, uint64(t.UnixMicro()-epoch)), nil
}

// Scan implements pgtype.ScanPlan. Infinity, which no column has, is refused.
func (timePlan) Scan(src []byte, target any) error {
	t, ok := target.(*time.Time)
	switch {
	case !ok:
		return fmt.Errorf("%T is no time", target)
	case src == nil:
		*t = time.Time{}
		return nil
	case len(src) != 8:
		return fmt.Errorf("a time of %d bytes", len(src))
	}
	us := int64(binary.BigEndian.Uint64(src))
	if us == infinity || us == minusInfinity {
		return fmt.Errorf("an infinite time")
	}
	*t = time.UnixMicro(us + epoch).UTC()
	return nil
}

// The times "infinity" and "-infinity" in the binary format.
const (
	infinity      = 1<<63 - 1
	minusInfinity = -1 << 63
)

// idCodec is the driver's codec for the domain's ids.
type idCodec struct{ pgtype.UUIDCodec }

// PlanEncode implements pgtype.Codec.
func (c idCodec) PlanEncode(m *pgtype.Map, oid uint32, format int16, value any) pgtype.EncodePlan {
	switch value.(type) {
	case job.ID, column.OptionalID:
		if format == pgtype.BinaryFormatCode {
			return idPlan{}
		}
	}
	return c.UUIDCodec.PlanEncode(m, oid, format, value)
}

// PlanScan implements pgtype.Codec.
func (c idCodec) PlanScan(m *pgtype.Map, oid uint32, format int16, target any) pgtype.ScanPlan {
	switch target.(type) {
	case *job.ID, *column.OptionalID:
		if format == pgtype.BinaryFormatCode {
			return idPlan{}
		}
	}
	return c.UUIDCodec.PlanScan(m, oid, format, target)
}

type idPlan struct{}

// Encode implements pgtype.EncodePlan.
func (idPlan) Encode(value any, buf []byte) ([]byte, error) {
	switch id := value.(type) {
	case job.ID:
		return append(buf, id[:]...), nil
	case column.OptionalID:
		if id == (column.OptionalID{}) {
			return nil, nil // NULL
		}
		return append(buf, id[:]...), nil
	default:
		return nil, fmt.Errorf("%T is no id", value)
	}
}

// Scan implements pgtype.ScanPlan.
func (idPlan) Scan(src []byte, target any) error {
	var id job.ID
	if src != nil && copy(id[:], src) != len(src) {
		return fmt.Errorf("an id of %d bytes", len(src))
	}
	switch to := target.(type) {
	case *job.ID:
		*to = id
	case *column.OptionalID:
		*to = column.OptionalID(id)
	default:
		return fmt.Errorf("%T is no id", target)
	}
	return nil
}
