package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/fireonce/fireonce/internal/proof/chaos/fleet"
	"github.com/fireonce/fireonce/internal/proof/chaos/nemesis"
	"github.com/fireonce/fireonce/internal/proof/chaos/platform"
	"github.com/fireonce/fireonce/internal/proof/chaos/sites"
)

// stage is what one engine's campaign runs on: a platform, a database, servers.
type stage struct {
	dir      string
	platform *platform.Process
	edge     *platform.Edge // in front of it
	db       *database
	fleet    *fleet.Fleet
	to       targets
	keys     soakKeys // none: calls need no key

	mu         sync.Mutex
	nemesis    *nemesis.Nemesis // told of deaths; nil: not yet
	unexpected []error          // servers that ended by themselves
}

// setUp makes a stage in a folder.
func setUp(ctx context.Context, o options, engine, dir, binary string) (_ *stage, err error) {
	s := &stage{dir: dir}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	command := []string{self, "platform"}
	if o.platforms {
		command = []string{self, "platforms", dir}
	}
	if s.platform, err = platform.Spawn(ctx, command, platform.Options{
		Log: filepath.Join(dir, "platform.log"), Seed: o.seed,
	}); err != nil {
		return nil, err
	}
	if s.edge, err = platform.StartEdge(s.platform.URL, o.seed); err != nil { //nolint:contextcheck // a listener on loopback is there immediately
		return nil, err
	}
	places, err := s.platform.Sites(ctx)
	if err != nil {
		return nil, err
	}
	s.db = openSQLite(dir)
	if engine == enginePostgres {
		if s.db, err = openPostgres(); err != nil { //nolint:contextcheck // it lives until it is closed
			return nil, err
		}
	}
	flags, variables := toSites(dir, places)
	servers := fleet.Options{
		Binary: binary, Dir: dir, Servers: o.size(engine), Database: s.db.url, Died: s.died, Env: variables,
		// Receivers fail most of the time, and every job is to be tried: internal/proof/sim has circuit breakers.
		Args: append([]string{
			"--dev", "--key-file", "chaos.key", "--log-level", "warn", "--grace", grace.String(), "--lease", lease.String(), "--breaker-after", "0",
		}, flags...),
	}
	if o.soak {
		if s.keys, err = (operator{binary: binary, dir: dir, database: s.db.url}).makeKeys(ctx); err != nil {
			return nil, err
		}
		servers.Key, servers.AddressSpace = s.keys.honest, o.addressSpace
		servers.Args = append(servers.Args, "--require-api-key", "--grpc-listen", "127.0.0.1:0")
		for _, q := range o.quotas {
			servers.Args = append(servers.Args, "--quota", q)
		}
	}
	s.fleet = fleet.New(servers)
	if err := s.startAll(ctx); err != nil {
		return nil, err
	}
	connecting, cancel := context.WithTimeout(ctx, stuckAfter)
	defer cancel()
	if s.to, err = connectAll(connecting, s.fleet, s.platform.URL, s.edge.URL()); err != nil {
		return nil, err
	}
	s.to.places = places
	s.to.sites, err = connectSites(connecting, s.fleet, places)
	return s, err
}

// toSites returns the flags and variables of servers that send to sites; none: they send
// to none.
func toSites(dir string, places map[string]platform.Place) (flags, variables []string) {
	if len(places) == 0 {
		return nil, nil
	}
	for _, name := range []string{sites.X, sites.Slack, sites.TikTok, sites.Resend} {
		flags = append(flags, "--platform-url", name+"="+places[name].Address)
	}
	return flags, []string{
		fmt.Sprintf("FIREONCE_HASTEN=%d", sites.Hasten), "SSL_CERT_FILE=" + filepath.Join(dir, sites.Certificate),
	}
}

// startAll starts every server. The first makes the key that all share.
func (s *stage) startAll(ctx context.Context) error {
	if err := s.fleet.Start(ctx, 0, fleet.Life{}); err != nil {
		return err
	}
	return s.each(func(i int) error {
		if i == 0 {
			return nil
		}
		return s.fleet.Start(ctx, i, fleet.Life{})
	})
}

// stopAll ends every server in order.
func (s *stage) stopAll() {
	_ = s.each(func(i int) error { // it does not fail
		s.stop(i)
		return nil
	})
}

// stop ends a server in order. One that does not is a finding, and the campaign goes on.
func (s *stage) stop(server int) {
	if _, err := s.fleet.Stop(server); err != nil {
		s.died(server, fleet.Life{}, fmt.Errorf("server %d did not end in order: %w", server, err))
	}
}

func (s *stage) each(do func(server int) error) error {
	errs := make([]error, s.fleet.Size())
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() { errs[i] = do(i) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// died is called for servers that ended by themselves.
func (s *stage) died(server int, life fleet.Life, unexpected error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case unexpected != nil:
		s.unexpected = append(s.unexpected, fmt.Errorf("%w\n%s", unexpected, lastWords(s.fleet.Log(server, wholeLog))))
	case s.nemesis != nil:
		s.nemesis.Died(life)
	}
}

const (
	// wholeLog is far more than a server writes, stacks of a crash included.
	wholeLog = 64 << 20
	// wordsKept is how much of the log of a server that ended by itself is printed.
	wordsKept = 1 << 10
)

// lastWords returns where a log states why its process ended: the beginning of its last
// crash, or the end of a log without one. A crash is followed by every stack.
func lastWords(log string) string {
	for _, crash := range []string{"fatal error: ", "panic: "} {
		if at := strings.LastIndex(log, crash); at >= 0 {
			return log[at:min(len(log), at+wordsKept)]
		}
	}
	return log[max(0, len(log)-wordsKept):]
}

func (s *stage) watchedBy(n *nemesis.Nemesis) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nemesis = n
}

// fell returns the servers' unexpected ends.
func (s *stage) fell() []error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unexpected
}

// close ends everything. Safe to call twice.
func (s *stage) close() error {
	var errs []error
	if s.fleet != nil {
		s.fleet.Close()
	}
	if s.db != nil {
		errs = append(errs, s.db.close())
		s.db = nil
	}
	if s.edge != nil {
		errs = append(errs, s.edge.Close())
		s.edge = nil
	}
	if s.platform != nil {
		errs = append(errs, s.platform.Stop())
		s.platform = nil
	}
	return errors.Join(errs...)
}
