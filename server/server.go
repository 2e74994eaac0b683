package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"time"

	"buf.build/go/protovalidate"
	"github.com/google/uuid"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/cache"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/contract"
	"github.com/fireonce/fireonce/internal/inflight"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/metrics"
	"github.com/fireonce/fireonce/internal/oauth"
	"github.com/fireonce/fireonce/internal/recur"
	"github.com/fireonce/fireonce/internal/redact"
	"github.com/fireonce/fireonce/internal/schedule"
	"github.com/fireonce/fireonce/internal/seal"
	"github.com/fireonce/fireonce/internal/tracing"
	"github.com/fireonce/fireonce/internal/vault"
	"github.com/fireonce/fireonce/server/wire"
	"github.com/fireonce/fireonce/store"
)

// Vault seals the credentials of connections. *vault.Vault is one.
type Vault interface {
	seal.Vault
	// KeyIDs returns the keys of the start, the one that seals first. Missing returns those of
	// the named keys that do not exist. NextKeyID returns the key that seals after the next
	// start, if it is another.
	KeyIDs() []string
	Missing(used []string) []string
	NextKeyID() string
	// Rewrap seals what keyID has sealed with the key that Seal uses. It fails like Open.
	Rewrap(sealed []byte, keyID string, at vault.Binding) ([]byte, error)
	// Recognizes reports whether a fingerprint is that of a connection's secret, also one
	// that was taken under an older key.
	Recognizes(secret []byte, connection [16]byte, fingerprint string) bool
}

// Refresher returns the credential to use in place of one that may have expired. *oauth.Renewer
// is one.
type Refresher interface {
	Fresh(ctx context.Context, conn store.Connection, cred connector.Credential) (connector.Credential, error)
}

// Config configures a Server. Store, Connectors and Vault are required.
type Config struct {
	redact.All

	Store Store
	// Creator, when set, stores submitted jobs in place of Store: an engine's, which may
	// start them immediately.
	Creator    Creator
	Connectors *connector.Registry
	Vault      Vault
	// OAuthApps are the apps that accounts log in by; nil: none. OAuthClient asks their
	// platforms for tokens, and Refresher keeps those fresh.
	OAuthApps   *oauth.Apps
	OAuthClient *oauth.Client
	Refresher   Refresher
	// Log receives one line per call, without payloads and secrets; nil: none.
	Log *slog.Logger
	// Metrics counts calls and jobs that end by them; nil: they are not counted.
	Metrics *metrics.Metrics
	// Tracer makes spans of calls; nil: there are none.
	Tracer *tracing.Tracer
	// Version is shown by GET /status.
	Version string
	// APIKey, when set, is the operator's: it may do everything, in DefaultProject. Every call
	// must come with it or with a key of the store, as "Authorization: Bearer". Without it and
	// RequireKey every client that reaches the port may do everything in DefaultProject, so only
	// loopback names and AllowedHosts are served.
	APIKey string
	// NextAPIKey, when set, is as good as APIKey, so that the operator's key can be
	// replaced while servers run.
	NextAPIKey string
	// Keep is how long the keys of erased jobs stay bound; its other times mean nothing.
	Keep store.Keep
	// Namespace is the installation's part of every effect key (store.Meta).
	Namespace string
	// StoreID is the store's identity (store.Meta), which page tokens and cursors carry.
	StoreID job.ID
	// Worker names the engine in this process, for GET /status.
	Worker string
	// RequireKey makes every call come with a key when there is no APIKey, too.
	RequireKey bool
	// AllowedOrigins are the web origins that may call from a browser, e.g.
	// "https://app.example.org"; none: CORS is off.
	AllowedOrigins []string
	// AllowedHosts are names other than loopback ones that a call may be addressed
	// to when no key is required, without port.
	AllowedHosts []string
	// Dashboard has the dashboard's built files, with index.html at its root; nil: there is none.
	Dashboard fs.FS
	// DashboardURL is where browsers see it, with the path of a proxy before it; nil: at the
	// address of this port.
	DashboardURL *url.URL
	// Try answers at TryPath, unless calls need a key: a receiver for trying. Nil: nothing does.
	Try http.Handler
	// NewID makes ids; nil: UUIDs of version 7.
	NewID func() job.ID
	// Media probes the files of jobs that are scheduled, for warnings; nil: they are not probed.
	Media Media
	// Scheduler evaluates schedules, and makes the jobs that clients ask them for. nil: one
	// of the server's own, which fires nothing by itself.
	Scheduler *schedule.Scheduler
	// Quiet waits until nothing is due and nothing under way, and returns how long nothing
	// will be due, at most limit (engine.Engine.Quiet). nil: the server has no worker.
	Quiet func(ctx context.Context, limit time.Duration) (time.Duration, error)
	// Now is the clock that requested times are checked with; nil: time.Now.
	Now    func() time.Time
	Limits Limits
	// Quotas bound what a project and a peer may take.
	Quotas Quotas
}

// Media finds out in short time whether a file is there. kit.Media is one.
type Media interface {
	// Probe fails with *connector.Refusal.
	Probe(ctx context.Context, ref *fireoncev1.MediaRef) error
}

// Limits bound what one server takes on. A zero field takes its default.
type Limits struct {
	// Request is the size of a request in bytes; default 1 MiB.
	Request int
	// Batch is the size of a BatchScheduleJobsRequest; default 16 MiB.
	Batch int
	// SmallWork bounds the bytes of requests up to 64 KiB that are worked on at a time,
	// LargeWork those of larger ones, of all callers together; defaults 16 MiB and
	// 32 MiB. One project holds at most half of each.
	SmallWork, LargeWork int
	// DefaultDeadline is for calls without one, MaxDeadline for all unary calls;
	// defaults 30 s and 60 s.
	DefaultDeadline, MaxDeadline time.Duration
	// StreamDuration is the longest life of a stream; default 15 min.
	StreamDuration time.Duration
	// Heartbeat is the time between two heartbeats; default 15 s.
	Heartbeat time.Duration
	// Poll is the longest time between two looks at the end of the event log,
	// while there are streams; default 1 s.
	Poll time.Duration
	// Write is the time for one message to a stream's reader; default 10 s.
	Write time.Duration
	// Steps bounds the steps in which a call computes times of schedules; default recur.MaxSteps.
	Steps int
}

func (l Limits) withDefaults() Limits {
	or(&l.Request, 1<<20)
	or(&l.Batch, 16<<20)
	or(&l.Steps, recur.MaxSteps)
	or(&l.SmallWork, 16<<20)
	or(&l.LargeWork, 32<<20)
	or(&l.DefaultDeadline, 30*time.Second)
	or(&l.MaxDeadline, 60*time.Second)
	or(&l.StreamDuration, 15*time.Minute)
	or(&l.Heartbeat, 15*time.Second)
	or(&l.Poll, time.Second)
	or(&l.Write, 10*time.Second)
	return l
}

func or[T int | time.Duration](value *T, fallback T) {
	if *value <= 0 {
		*value = fallback
	}
}

// DefaultProject is the operator's, and every caller's where no key is required.
const DefaultProject = "default"

// Server answers the API.
type Server struct {
	cfg Config
	// store has bounded scans. What calls do not wait for uses cfg.Store.
	store  *scanStore
	jobs   Creator
	log    *slog.Logger
	tokens tokens
	// credentialRequired are the connectors that do nothing without a credential.
	credentialRequired []string
	// keepKeys is how long keys of ended jobs are honored.
	keepKeys    store.Keep
	auth        *authenticator
	sessions    *sessions
	streams     *openStreams
	tail        *tail
	fanout      *eventFanout
	metaCache   *cache.TTL[struct{}, store.Meta]
	serverCache *cache.TTL[struct{}, []store.Server]
	connections *connectionCache
	// callbacks has the connections whose callbacks are made.
	callbacks *cache.TTL[ownedID, bool]
	keys      *keyReader
	health    *health
	rules     protovalidate.Validator
	methods   map[string]wire.Method
	budget    wire.Budget
	services  Services
	handler   http.Handler
	causes    *causes
	// turnedAway bounds what refusals write to the log.
	turnedAway turnedAway
	quotas     Quotas
	quotaLog   *quotaLog
	// admission decides whether jobs may be stored.
	admission *admission
	// probes are the files that are looked at now.
	probes chan struct{}
	// runs are the calls of RunDue that are under way.
	runs chan struct{}
	// previews are the calls of PreviewSchedule that are computed now.
	previews *inflight.Budget
}

// New makes a server. It does not use the store.
func New(cfg Config) (*Server, error) {
	switch {
	case cfg.Store == nil:
		return nil, errors.New("server: no store")
	case cfg.StoreID.IsZero():
		return nil, errors.New("server: no store id")
	case cfg.Connectors == nil:
		return nil, errors.New("server: no connectors")
	case cfg.Vault == nil:
		return nil, errors.New("server: no vault")
	case cfg.APIKey == "" && cfg.NextAPIKey == "" && !cfg.RequireKey && slices.Contains(cfg.AllowedOrigins, "*"):
		return nil, errors.New("server: every web page may call (origin *), and no API key stops it: set one")
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.NewID == nil {
		cfg.NewID = newID
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Creator == nil {
		cfg.Creator = cfg.Store
	}
	cfg.Limits = cfg.Limits.withDefaults()
	if cfg.Scheduler == nil {
		cfg.Scheduler = schedule.New(schedule.Config{
			Store: cfg.Store, Connectors: cfg.Connectors, Zones: recur.NewZones(""), Namespace: cfg.Namespace, NewID: cfg.NewID, Log: cfg.Log,
		})
	}
	if cfg.APIKey == "" && !cfg.RequireKey {
		cfg.Quotas = cfg.Quotas.withoutCallers()
	}
	quotaLog, causes := newQuotaLog(cfg.Log, cfg.Now), &causes{}
	s := &Server{
		cfg: cfg, store: newScanStore(cfg.Store), jobs: cfg.Creator, log: cfg.Log, tokens: tokens{store: cfg.StoreID},
		credentialRequired: cfg.Connectors.CredentialRequired(),
		keepKeys:           store.Keep{Keys: job.KeyKept, EndlessKeys: cfg.Connectors.EndlessKeys()},
		auth:               newAuthenticator(cfg, quotaLog, causes), causes: causes,
		quotas: cfg.Quotas, streams: newOpenStreams(cfg.Quotas, quotaLog),
		tail:      newTail(cfg.Store, cfg.Limits.Poll, cfg.Limits.DefaultDeadline),
		metaCache: cache.New[struct{}, store.Meta](cache.Options{Max: 1, Age: metaMaxAge, Timeout: cfg.Limits.DefaultDeadline, Now: cfg.Now}),
		serverCache: cache.New[struct{}, []store.Server](cache.Options{
			Max: 1, Age: serversMaxAge, Timeout: cfg.Limits.DefaultDeadline, Now: cfg.Now,
		}),
		fanout: &eventFanout{}, connections: newConnectionCache(cfg.Store, cfg.Limits.DefaultDeadline), callbacks: newCallbackCache(cfg.Limits.DefaultDeadline), keys: newKeyReader(cfg.Store, cfg.Now), health: newHealth(),
		probes: make(chan struct{}, maxMediaProbes), runs: make(chan struct{}, maxRuns), previews: inflight.New(maxPreviews, previewWait), budget: wire.NewBudget(cfg.Limits.SmallWork, cfg.Limits.LargeWork),
		quotaLog: quotaLog, admission: newAdmission(cfg.Store, cfg.Quotas, cfg.Now, cfg.Limits.DefaultDeadline, quotaLog),
	}
	var err error
	if s.methods, err = wire.Methods(); err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	if s.rules, err = contract.Rules(); err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	jobs := &jobService{Server: s}
	s.services = Services{
		Jobs: jobs, Connections: &connectionService{Server: s}, Schedules: &scheduleService{Server: s},
		Subscriptions: &subscriptionService{Server: s},
		Bulk:          &bulkService{jobService: jobs}, Stats: newStatsService(s), Incidents: &incidentService{jobService: jobs}, Access: &accessService{Server: s}, Servers: &serverService{Server: s},
		Pauses: &pauseService{Server: s},
	}
	if s.sessions, err = newSessions(s); err != nil {
		return nil, err
	}
	if s.handler, err = s.routes(); err != nil {
		return nil, err
	}
	s.cfg.Metrics.Gauge("streams", "Event streams that are open.", nil, func() float64 { return float64(s.streams.count()) })
	return s, nil
}

// Handler answers the API and the landing page. It wants a server that speaks
// HTTP/2 too: see HTTPServer.
func (s *Server) Handler() http.Handler { return s.handler }

// NotReady fails health checks and readiness from now on. Everything else goes on.
func (s *Server) NotReady() { s.health.stop() }

// Shutdown ends the event streams with UNAVAILABLE / SHUTTING_DOWN, lets no new
// one begin, and waits for their ends. Health checks fail from now on. Calls
// that are no streams go on: shut the http.Server down after this.
func (s *Server) Shutdown(ctx context.Context) error {
	s.health.stop()
	err := s.streams.close(ctx)
	// Their writes end in any case: the store is closed after this.
	s.auth.keys.close()
	s.admission.close()
	if err != nil {
		return fmt.Errorf("end the event streams: %w", err)
	}
	return nil
}

// newID makes a UUID of version 7. It panics when the system has no randomness: there is no safe
// way to go on.
func newID() job.ID { return job.ID(uuid.Must(uuid.NewV7())) }
