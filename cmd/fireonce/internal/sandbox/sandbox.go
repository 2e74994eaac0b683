// Package sandbox is `fireonce sandbox`: fakes of the platforms on this machine, a server whose
// connections lead to them, and a page that shows what was really posted, sent or charged beside
// what Fireonce believes. No other package of the program imports it, or the fakes: a production
// server has none.
package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/fireonce/fireonce/internal/connector/builtin"
	"github.com/fireonce/fireonce/internal/proof/loopback"
	"github.com/fireonce/fireonce/internal/tracing"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/client"
	"github.com/fireonce/fireonce/cmd/fireonce/internal/exit"
	"github.com/fireonce/fireonce/cmd/fireonce/internal/node"
)

const (
	// ServerPort is the default port of Fireonce.
	ServerPort = 8080
	// FirstPort is the default port of the page. The platforms are at the ports after it.
	FirstPort = 8090

	namePage   = "page"
	nameServer = "fireonce"
	stateFile  = "sandbox.json"
	// sandboxWork is how long the fakes work on what takes the platforms minutes.
	sandboxWork = time.Second
	// keep is how long ended jobs are kept.
	keep = 30 * 24 * time.Hour
)

// Options make a sandbox.
type Options struct {
	// Dir is the folder for everything. It is made if there is none. A start on a used one
	// continues it.
	Dir string
	// ServerPort and FirstPort are the ports; 0 takes free ones, negative the default ones, or
	// those of the directory.
	ServerPort, FirstPort int
	// Version is the program's.
	Version string
}

// Sandbox is a running sandbox.
type Sandbox struct {
	// Ports are where everything listens, by name.
	Ports map[string]int

	opts    Options
	sites   []*site
	relay   *relay
	journal *journal
	page    *loopback.Server
	node    *node.Node
	board   *board
	log     *os.File
	end     context.CancelFunc
	late    sync.WaitGroup
	beliefs sync.WaitGroup
}

// state is the file in a directory that describes its sandbox.
type state struct {
	Version int            `json:"version"`
	Ports   map[string]int `json:"ports"`
}

const stateVersion = 1

// Start starts everything. ctx bounds only the start.
func Start(ctx context.Context, opts Options) (*Sandbox, error) {
	life, end := context.WithCancel(context.Background())
	s := &Sandbox{opts: opts, sites: sites(), end: end, Ports: make(map[string]int)}
	s.board = newBoard(s.sites)
	if err := s.start(ctx, life); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *Sandbox) start(ctx, life context.Context) error {
	known, err := s.readState()
	if err != nil {
		return err
	}
	if err := s.open(life, known); err != nil {
		return err
	}
	if err := s.restore(); err != nil {
		return fmt.Errorf("go on with what was there: %w", err)
	}
	for _, one := range s.sites {
		if one.server != nil {
			one.server.Serve(one)
		}
	}
	if err := s.startServer(ctx, known); err != nil {
		return err
	}
	if err := s.writeState(); err != nil {
		return err
	}
	api, err := client.Dial(s.URL(nameServer), "")
	if err != nil {
		return err
	}
	if err := connect(ctx, api, s); err != nil {
		return fmt.Errorf("make the connections: %w", err)
	}
	s.beliefs.Go(func() { s.board.follow(life, api) })
	s.page.Serve(newPage(s))
	return nil
}

// readState reads the state of a directory, makes a missing directory, and refuses one with other
// files in it.
func (s *Sandbox) readState() (state, error) {
	if err := os.MkdirAll(s.opts.Dir, 0o700); err != nil {
		return state{}, err
	}
	text, err := os.ReadFile(filepath.Join(s.opts.Dir, stateFile))
	if errors.Is(err, os.ErrNotExist) {
		there, err := os.ReadDir(s.opts.Dir)
		if err == nil && len(there) > 0 {
			err = exit.Usagef("--dir %s: has files in it, and is no sandbox's; name a new or an empty directory", s.opts.Dir)
		}
		return state{}, err
	}
	if err != nil {
		return state{}, err
	}
	var out state
	if err := json.Unmarshal(text, &out); err != nil || out.Version != stateVersion {
		return state{}, exit.Usagef("--dir %s: its %s is not one that this version wrote; name a new directory", s.opts.Dir, stateFile)
	}
	if s.opts.FirstPort > 0 && s.opts.FirstPort != out.Ports[namePage] || s.opts.ServerPort > 0 && s.opts.ServerPort != out.Ports[nameServer] {
		return state{}, exit.Usagef("--dir %s: its jobs and connections lead to port %d and the ports from %d on; leave --port and --server-port out, or name a new directory",
			s.opts.Dir, out.Ports[nameServer], out.Ports[namePage])
	}
	return out, nil
}

func (s *Sandbox) writeState() error {
	text, err := json.MarshalIndent(state{stateVersion, s.Ports}, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(s.opts.Dir, stateFile), append(text, '\n'), 0o600)
}

// port returns the port for a name; n counts from the page on.
func (s *Sandbox) port(known state, name string, n int) int {
	switch {
	case known.Ports[name] != 0:
		return known.Ports[name]
	case s.opts.FirstPort == 0:
		return 0
	case s.opts.FirstPort < 0:
		return FirstPort + n
	default:
		return s.opts.FirstPort + n
	}
}

// open opens the ports and the journal.
func (s *Sandbox) open(life context.Context, known state) error {
	var err error
	at := s.port(known, namePage, 0)
	if s.page, err = loopback.ListenAt(at); err != nil {
		return taken("the page", at, err)
	}
	s.Ports[namePage] = s.page.Port()
	for i, one := range s.sites {
		one.changed, one.end, one.late = s.board.changed, life, &s.late
		one.struck, one.kept, one.first = make(map[[32]byte]bool), make(map[string]Fault), make(map[string]time.Time)
		at := s.port(known, one.Name, i+1)
		if one.made.Handler == nil {
			if s.relay, err = startRelay(one, at); err != nil {
				return taken(one.Title, at, err)
			}
			s.Ports[one.Name], one.base = int(s.relay.Addr().Port()), string(s.relay.Addr())
			continue
		}
		if one.server, err = loopback.ListenAt(at); err != nil {
			return taken(one.Title, at, err)
		}
		s.Ports[one.Name], one.base = one.server.Port(), one.server.URL()
		if one.made.At != nil {
			one.made.At(one.base)
		}
	}
	return nil
}

// taken names what a port is for, in the error that it is taken.
func taken(who string, port int, err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("port %d of this machine, where %s is to be, is taken: stop what listens there (another sandbox?), or name other ports with --port and --server-port",
			port, who)
	}
	return fmt.Errorf("listen for %s: %w", who, err)
}

// restore restores the fakes from the journal.
func (s *Sandbox) restore() error {
	byName := make(map[string]*site)
	for _, one := range s.sites {
		byName[one.Name] = one
	}
	var err error
	s.journal, err = openJournal(filepath.Join(s.opts.Dir, "platforms.jsonl"), func(r request) error {
		one := byName[r.Site]
		switch {
		case one == nil:
			return fmt.Errorf("no platform %q", r.Site)
		case one.made.Handler == nil:
			s.relay.restore(r)
		default:
			one.restore(r)
		}
		return nil
	})
	for _, one := range s.sites {
		one.journal = s.journal
	}
	return err
}

// startServer starts Fireonce, which has a log file of its own.
func (s *Sandbox) startServer(ctx context.Context, known state) error {
	var err error
	if s.log, err = os.OpenFile(filepath.Join(s.opts.Dir, "fireonce.log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600); err != nil {
		return err
	}
	at := max(0, s.opts.ServerPort)
	switch {
	case known.Ports[nameServer] != 0:
		at = known.Ports[nameServer]
	case s.opts.ServerPort < 0:
		at = ServerPort
	}
	s.node, err = node.Start(ctx, node.Config{
		Listen: net.JoinHostPort("127.0.0.1", strconv.Itoa(at)), Database: "sqlite:" + filepath.Join(s.opts.Dir, "fireonce.db"),
		Dev: true, Sandbox: true, BreakAfter: -1, Grace: node.SandboxGrace, KeepJobs: keep, KeepEvents: keep,
		PlatformURLs: s.platformURLs(),
		Log:          slog.New(tracing.LogHandler(slog.NewTextHandler(s.log, nil))), Version: s.opts.Version,
	})
	if err != nil {
		return taken("Fireonce", at, err)
	}
	s.Ports[nameServer] = s.node.Port()
	return nil
}

// platformURLs are the fakes of the platforms that are one service at one address.
func (s *Sandbox) platformURLs() map[string]string {
	out := make(map[string]string)
	for _, one := range s.sites {
		if p, _ := builtin.Find(one.Connector); p.Address != "" {
			out[p.Name] = one.base
		}
	}
	return out
}

// URL returns the address of a part of the sandbox, by its name.
func (s *Sandbox) URL(name string) string {
	return "http://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(s.Ports[name]))
}

// Page is where the page is, and Server where Fireonce is.
func (s *Sandbox) Page() string { return s.URL(namePage) }

// Server is the base URL of Fireonce.
func (s *Sandbox) Server() string { return s.URL(nameServer) }

// Names are the parts with a port, in the order of the default ports.
func (s *Sandbox) Names() []string {
	return slices.SortedFunc(maps.Keys(s.Ports), func(a, b string) int { return s.Ports[a] - s.Ports[b] })
}

// Run serves until ctx ends or the server fails, and ends everything in order.
func (s *Sandbox) Run(ctx context.Context) error {
	err := s.node.Run(ctx)
	s.node = nil
	return errors.Join(err, s.close())
}

// close ends what was started.
func (s *Sandbox) close() error {
	s.end()
	var errs []error
	if s.node != nil { // the start failed after that of the server
		ended, end := context.WithCancel(context.Background())
		end()
		errs = append(errs, s.node.Run(ended))
	}
	s.beliefs.Wait()
	s.late.Wait()
	errs = append(errs, s.page.Close())
	for _, one := range s.sites {
		errs = append(errs, one.server.Close())
	}
	if s.relay != nil {
		errs = append(errs, s.relay.Close())
	}
	if s.journal != nil {
		errs = append(errs, s.journal.close())
	}
	if s.log != nil {
		errs = append(errs, s.log.Close())
	}
	return errors.Join(errs...)
}

// loopbackNames are this machine's names for itself.
var loopbackNames = []string{"127.0.0.1", "localhost"}

// local serves under these names only: a web page whose name resolves to this machine must not
// press the buttons.
func local(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			host = r.Host
		}
		if !slices.Contains(loopbackNames, host) {
			http.Error(w, "the sandbox is at 127.0.0.1 only", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// Platform is one platform of a sandbox.
type Platform struct {
	Name   string
	Faults []Fault
}

// Platforms lists the platforms of a sandbox, in the page's order.
func Platforms() (out []Platform) {
	for _, one := range sites() {
		out = append(out, Platform{one.Name, one.faults})
	}
	return out
}

// Things returns what a platform has, the oldest first.
func (s *Sandbox) Things(name string) []Thing { return s.site(name).seen().Things }
