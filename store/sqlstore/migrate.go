package sqlstore

import (
	"context"
	"embed"
	"errors"
	"fmt"
)

// ErrSchema: the database's schema is not the one that this program knows: newer, or older
// and not to be migrated.
var ErrSchema = errors.New("schema version")

// SchemaVersion returns the version to which migrations bring a database: that of the last one.
func SchemaVersion(migrations embed.FS) (version int64, err error) {
	files, err := migrations.ReadDir("migrations")
	if err == nil && len(files) > 0 {
		_, err = fmt.Sscanf(files[len(files)-1].Name(), "%d_", &version)
	}
	return version, named("schema version", err)
}

// Migrate checks that a schema is the one that this program wants, and brings an older one up to
// date if it may. It refuses a newer one, because this program would not follow the newer rules.
func Migrate(ctx context.Context, version, wanted int64, may bool, up func(context.Context) error) error {
	switch {
	case version > wanted:
		return fmt.Errorf("%w %d is newer than %d, the newest that this program knows", ErrSchema, version, wanted)
	case version == wanted:
		return nil
	case !may:
		return fmt.Errorf("%w %d is older than %d: migrate first", ErrSchema, version, wanted)
	default:
		return up(ctx)
	}
}
