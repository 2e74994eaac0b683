package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Rules of this file:
//   - a URL may have everything that pgx accepts, including several hosts and pool_*
//     parameters. Its settings stay, except those that durability and the meaning of times
//     depend on;
//   - settings are made with SET after connecting, because poolers in front of a server
//     refuse or ignore unknown startup parameters. A pooler must keep a session for each
//     connection (session pooling): sessions hold settings, prepared statements, advisory
//     locks and LISTEN;
//   - no error contains a password, or a part of one.

const (
	// oldestServer has transaction ids of 64 bits, and is the oldest version that is still
	// tested.
	oldestServer = 140000
	// defaultConns bounds the pool without another setting.
	defaultConns = 12
	// connectTimeout bounds one attempt to connect if the URL has no limit.
	connectTimeout = 10 * time.Second
	pingTimeout    = 5 * time.Second
)

// The settings of our sessions, unless the URL has them. A process that stopped during a
// transaction would keep its locks, and delay the log's readers, until the last of these
// settings ends it.
//
// Every statement finds its rows by an index. A plan that was made while the tables were
// small may scan instead, and it is kept until the tables are analyzed: without the settings
// against scans, each batch would read whole tables until then. The high cost that these
// settings set must not start the JIT compiler. And since no statement has a second good
// plan, none is planned for its parameters.
var sessionSettings = map[string]string{
	"plan_cache_mode":                     "force_generic_plan",
	"enable_seqscan":                      "off",
	"enable_hashjoin":                     "off",
	"enable_mergejoin":                    "off",
	"jit":                                 "off",
	"statement_timeout":                   "15s",
	"lock_timeout":                        "10s",
	"idle_in_transaction_session_timeout": "10s",
}

// parse reads the URL.
func parse(opts Options) (*pgxpool.Config, error) {
	plain, err := pgx.ParseConfig(opts.URL)
	if err != nil {
		return nil, withoutSecrets(err)
	}
	config, err := pgxpool.ParseConfig(opts.URL)
	if err != nil {
		return nil, withoutSecrets(err)
	}
	if _, named := plain.RuntimeParams["pool_max_conns"]; !named {
		config.MaxConns = defaultConns
	}
	if config.PingTimeout == 0 {
		config.PingTimeout = pingTimeout
	}
	conn := config.ConnConfig
	if conn.ConnectTimeout == 0 {
		conn.ConnectTimeout = connectTimeout
	}
	if len(conn.Fallbacks) > 0 && conn.ValidateConnect == nil {
		// Of several hosts, take the writable one.
		conn.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	if conn.RuntimeParams["application_name"] == "" {
		conn.RuntimeParams["application_name"] = "fireonce"
	}
	return config, nil
}

// withoutSecrets describes what is wrong with a URL without quoting it: a badly escaped
// password can be anywhere in it.
func withoutSecrets(err error) error {
	var bad *pgconn.ParseConfigError
	if !errors.As(err, &bad) {
		return errors.New("the database's URL cannot be read")
	}
	text := strings.TrimPrefix(bad.Error(), "cannot parse `")
	if _, rest, ok := strings.Cut(text, "`: "); ok {
		text = rest
	}
	if inner := errors.Unwrap(bad); inner != nil {
		text = strings.TrimSuffix(text, " ("+inner.Error()+")")
	}
	return fmt.Errorf("the database's URL cannot be read: %s", text)
}

// session makes the settings of one session, with one statement: connecting costs each of its
// round trips.
func session(ctx context.Context, conn *pgx.Conn) error {
	var set strings.Builder
	set.WriteString(`SELECT set_config('synchronous_commit',
		CASE current_setting('synchronous_commit') WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, false),
		set_config('TimeZone', 'UTC', false)`)
	for name, value := range sessionSettings {
		if _, named := conn.Config().RuntimeParams[name]; !named {
			fmt.Fprintf(&set, ", set_config('%s', '%s', false)", name, value)
		}
	}
	_, err := conn.Exec(ctx, set.String())
	return named("session settings", err)
}

// checkServer refuses a server that could lose what it has confirmed, that is read-only, or
// that is too old.
func checkServer(ctx context.Context, conn *pgx.Conn) error {
	var version int
	var name, fsync string
	var standby, readOnly bool
	err := conn.QueryRow(ctx, `SELECT current_setting('server_version_num')::integer, current_setting('server_version'),
		current_setting('fsync'), pg_is_in_recovery(), current_setting('default_transaction_read_only')::boolean`).
		Scan(&version, &name, &fsync, &standby, &readOnly)
	switch {
	case err != nil:
		return opening(ctx, err)
	case version < oldestServer:
		return fmt.Errorf("%w: PostgreSQL %s is older than %d", ErrUnsafe, name, oldestServer/10000)
	case fsync != "on":
		return fmt.Errorf("%w: fsync is off, so a crash can lose what was confirmed and send it again", ErrUnsafe)
	case standby:
		return fmt.Errorf("%w: it is a standby; name the primary, or all hosts", ErrUnsafe)
	case readOnly:
		return fmt.Errorf("%w: default_transaction_read_only is on", ErrUnsafe)
	default:
		return nil
	}
}
