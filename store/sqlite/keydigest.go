package sqlite

import (
	"database/sql/driver"
	"fmt"

	"modernc.org/sqlite"

	"github.com/fireonce/fireonce/internal/job"
)

// The migration to digests computes those of the keys that are stored.
func init() {
	sqlite.MustRegisterDeterministicScalarFunction("fireonce_key_digest", 2,
		func(_ *sqlite.FunctionContext, args []driver.Value) (driver.Value, error) {
			project, ok := args[0].(string)
			key, also := args[1].(string)
			if !ok || !also {
				return nil, fmt.Errorf("fireonce_key_digest: %T and %T are no texts", args[0], args[1])
			}
			return digestOf(project, key), nil
		})
}

// digestOf is the digest under which a key is bound.
func digestOf(project, key string) []byte {
	sum := job.KeyDigest(project, key)
	return sum[:]
}
