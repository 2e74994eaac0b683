package node

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/fireonce/fireonce/internal/hostclock"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/client"
)

// Rules of this file: the doctor reads and changes nothing. Each finding describes the state and,
// unless it is good, the remedy. A failure makes a server fail, refuse to start, or break a
// promise; a warning may.

// doctorTime bounds all questions together.
const doctorTime = 30 * time.Second

// finding is what one check found.
type finding struct {
	Check  string `json:"check"`
	Status string `json:"status"` // statusOK, statusWarning, statusFailure
	Found  string `json:"found"`
	// Do is the remedy; empty: none is needed.
	Do string `json:"do,omitempty"`
}

const (
	statusOK      = "ok"
	statusWarning = "warning"
	statusFailure = "failure"
)

// doctor collects findings.
type doctor struct {
	cfg      Config
	database Database
	findings []finding
}

func (d *doctor) ok(check, found string, args ...any) {
	d.findings = append(d.findings, finding{Check: check, Status: statusOK, Found: fmt.Sprintf(found, args...)})
}

func (d *doctor) warn(check, do, found string, args ...any) {
	d.findings = append(d.findings, finding{Check: check, Status: statusWarning, Found: fmt.Sprintf(found, args...), Do: do})
}

func (d *doctor) fail(check, do, found string, args ...any) {
	d.findings = append(d.findings, finding{Check: check, Status: statusFailure, Found: fmt.Sprintf(found, args...), Do: do})
}

func doctorCommand(version string) *cli.Command {
	flags := newServeFlags(version)
	flags.group = "Output"
	return &cli.Command{
		Name:  "doctor",
		Usage: "check what a server would run with, and print what to do",
		Description: "Takes the flags and variables of `serve`: give it the same ones. It looks at clock, database, disk, keys, egress, " +
			"TLS and user, beside a server that runs or before one starts, and changes nothing. An SQLite file is taken for a " +
			"moment while no server has it; PostgreSQL is asked over one connection. Exit code 1: something is a failure.\n\n" + variables,
		Flags: append(flags.list, &cli.BoolFlag{
			Name: "json", Category: flags.group, Usage: "print JSON: an array of check, status, found and do",
		}),
		CustomHelpTemplate: serveHelp,
		Action: func(ctx context.Context, cmd *cli.Command) error {
			cfg, err := flags.read(cmd)
			if err != nil {
				return err
			}
			_, database, err := cfg.check()
			d := &doctor{cfg: cfg, database: database}
			if err != nil { // a server would not start; the rest is worth knowing all the same
				d.fail("configuration", "", "%s", err)
				if d.database, err = ParseDatabase(cfg.Database); err != nil {
					return d.report(cmd)
				}
			}
			ctx, cancel := context.WithTimeout(ctx, doctorTime)
			defer cancel()
			d.examine(ctx)
			return d.report(cmd)
		},
	}
}

func (d *doctor) examine(ctx context.Context) {
	d.clock()
	if d.database.url != "" {
		d.postgres(ctx)
	} else {
		d.sqlite(ctx)
	}
	d.folders()
	d.keyFiles()
	d.connectors()
	d.egress()
	d.tls(time.Now())
	d.user()
}

// report prints the findings. It fails if one is a failure.
func (d *doctor) report(cmd *cli.Command) error {
	failures, rows := 0, [][]string{{"CHECK", "STATUS", "FOUND"}}
	for _, f := range d.findings {
		status := f.Status
		if status != statusOK {
			status = strings.ToUpper(status)
		}
		if f.Status == statusFailure {
			failures++
		}
		// A driver's message may have several lines.
		rows = append(rows, []string{f.Check, status, strings.Join(strings.Fields(f.Found), " ")})
		if f.Do != "" {
			rows = append(rows, []string{"", "", "→ " + f.Do})
		}
	}
	if err := client.PrintList(cmd, d.findings, rows); err != nil {
		return err
	}
	if failures > 0 {
		return fmt.Errorf("failures: %d of %d findings", failures, len(d.findings))
	}
	return nil
}

func (d *doctor) clock() {
	if !hostclock.Synchronized() {
		d.warn("clock", "run chrony or systemd-timesyncd here", "the kernel reports no synchronization of this machine's clock")
		return
	}
	d.ok("clock", "this machine's clock is kept synchronized")
}

// schema judges the version of a schema.
func (d *doctor) schema(has, wants int64) {
	switch {
	case has == 0:
		d.ok("schema", "there is none yet; the first `serve` makes it")
	case has < wants:
		d.warn("schema", "start the new version, or run `fireonce migrate`; make a backup before", "version %d; this program needs %d", has, wants)
	case has > wants:
		d.fail("schema", "run the newer version of fireonce that has made it", "version %d; this program knows %d", has, wants)
	default:
		d.ok("schema", "version %d", has)
	}
}

func (d *doctor) user() {
	if os.Geteuid() == 0 {
		d.warn("user", "run it as a user of its own that runs nothing else", "it runs as root")
		return
	}
	d.ok("user", "it runs as user %d", os.Geteuid())
}
