package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"

	"github.com/fireonce/fireonce/internal/proof/chaos/attack"
)

// Projects of a soak: the honest clients' and the attackers'.
const (
	honestProject  = "honest"
	hostileProject = "hostile"
)

// soakKeys are the API keys of a soak.
type soakKeys struct {
	honest  string
	hostile attack.Keys
}

// operator runs the program's own commands on a database that no server has open.
type operator struct {
	binary, dir, database string
}

// makeKeys prepares the database, as an operator does whose servers are to require a key
// from their first start on.
func (op operator) makeKeys(ctx context.Context) (k soakKeys, err error) {
	if _, err := op.run(ctx, "migrate", "--database", op.database); err != nil {
		return k, err
	}
	const everything = "jobs:read,jobs:write,connections:read,connections:write,schedules:read"
	for _, it := range []struct {
		project, name, scopes string
		first, revoked        bool
		key                   *string
	}{
		{project: honestProject, name: "honest", scopes: everything, first: true, key: &k.honest},
		{project: hostileProject, name: "writer", scopes: everything, first: true, key: &k.hostile.Write},
		{project: hostileProject, name: "reader", scopes: "jobs:read", key: &k.hostile.Read},
		{project: hostileProject, name: "former", scopes: everything, revoked: true, key: &k.hostile.Revoked},
	} {
		id, secret, err := op.makeKey(ctx, it.project, it.name, it.scopes, it.first)
		if err != nil {
			return k, err
		}
		if it.revoked {
			if _, err := op.run(ctx, "apikeys", "revoke", "--database", op.database, id); err != nil {
				return k, err
			}
		}
		*it.key = secret
	}
	return k, nil
}

func (op operator) makeKey(ctx context.Context, project, name, scopes string, first bool) (id, secret string, err error) {
	args := []string{"apikeys", "create", "--database", op.database, "--project", project, "--name", name, "--scopes", scopes, "--json"}
	if first {
		args = append(args, "--new-project")
	}
	text, err := op.run(ctx, args...)
	if err != nil {
		return "", "", err
	}
	var made struct {
		Secret string
		APIKey struct{ APIKeyID string }
	}
	if err := json.Unmarshal(text, &made); err != nil || made.Secret == "" || made.APIKey.APIKeyID == "" {
		return "", "", fmt.Errorf("the answer to `fireonce apikeys create` is not understood: %w", err)
	}
	return made.APIKey.APIKeyID, made.Secret, nil
}

func (op operator) run(ctx context.Context, args ...string) ([]byte, error) {
	var out, failed bytes.Buffer
	cmd := exec.CommandContext(ctx, op.binary, args...) //nolint:gosec // the binary that was built for this
	cmd.Dir, cmd.Stdout, cmd.Stderr = op.dir, &out, &failed
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("fireonce %s: %w: %s", strings.Join(args[:2], " "), err, failed.String())
	}
	return out.Bytes(), nil
}
