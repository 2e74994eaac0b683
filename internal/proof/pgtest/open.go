//go:build unix

package pgtest

import (
	"context"
	"fmt"
)

// What a program that is no test does with a cluster: the same, with errors.

// Open runs a cluster of the program's own, until Close. It is removed also when
// the program is killed.
func Open(opts Options) (*Cluster, error) { return create(opts) }

// Close stops the server and removes its data.
func (c *Cluster) Close() error { return c.remove() }

// Down stops the server and waits for its end.
func (c *Cluster) Down(how How) error { return c.down(how) }

// Up starts a stopped server again, under the same address.
func (c *Cluster) Up() error { return c.up() }

// CreateDatabase makes an empty database and returns its name.
func (c *Cluster) CreateDatabase(ctx context.Context) (string, error) {
	return c.createDatabase(ctx, emptyTemplate)
}

// emptyTemplate is PostgreSQL's own.
const emptyTemplate = "template1"

func (c *Cluster) createDatabase(ctx context.Context, template string) (string, error) {
	name := fmt.Sprintf("test_%d", c.names.Add(1))
	return name, c.admin(ctx, "CREATE DATABASE "+name+" OWNER "+role+" TEMPLATE "+template)
}

// Role owns the databases, for a proxy's URL.
const Role = role
