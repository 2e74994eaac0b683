package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fireonce/fireonce/internal/vault"
	"github.com/fireonce/fireonce/internal/witness"
	"github.com/fireonce/fireonce/store"
)

// keysVariable holds the sealing keys themselves.
const keysVariable = "FIREONCE_KEYS"

// keySource is where the sealing keys are. One of the two fields is set.
type keySource struct{ list, file string }

// String names the source, and nothing of its content.
func (s keySource) String() string {
	if s.list != "" {
		return keysVariable
	}
	return "key file " + s.file
}

// stateDir is the folder of the key file, if files can be made there: the default of
// Config.StateDir.
func (s keySource) stateDir() string {
	if dir := filepath.Dir(s.file); s.list == "" && witness.Writable(dir) {
		return dir
	}
	return ""
}

// load reads the keys. The key file must exist.
func (s keySource) load() (*vault.Vault, error) {
	if s.list != "" {
		v, err := vault.ParseKeys(s.list)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", keysVariable, err)
		}
		return v, nil
	}
	return vault.LoadKeyFile(s.file)
}

// open reads the keys for a database. A key file is made only for one that has no
// secrets yet: a new key beside old secrets would hide that the old one is lost.
func (s keySource) open(ctx context.Context, db store.Sealing, now func() time.Time, log *slog.Logger) (*vault.Vault, error) {
	used, err := db.CredentialKeys(ctx)
	if err != nil {
		return nil, fmt.Errorf("read which keys seal the credentials: %w", err)
	}
	if s.list == "" {
		if _, err := os.Stat(s.file); errors.Is(err, os.ErrNotExist) {
			if len(used) > 0 {
				return nil, fmt.Errorf("the database holds credentials that are sealed with key %s, and there is no key file %s: "+
					"put it back, or name it with --key-file", strings.Join(used, ", "), s.file)
			}
			if _, err := vault.LoadOrCreateKeyFile(s.file); err != nil {
				return nil, err
			}
			// Another server may have made one, too. Neither could open what the other seals.
			log.Info("a key file was created: back it up apart from the database, and copy it to every other server of this database", "file", s.file)
		}
	}
	keys, err := vault.Follow(s.load, now)
	if err != nil {
		return nil, err
	}
	if missing := keys.Missing(used); len(missing) > 0 {
		return nil, fmt.Errorf("the database holds credentials that are sealed with key %s, and %s has only key %s: use the right one",
			strings.Join(missing, ", "), s, strings.Join(keys.KeyIDs(), ", "))
	}
	return keys, nil
}
