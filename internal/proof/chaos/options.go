package main

import (
	"flag"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/fireonce/fireonce/internal/proof/chaos/platform"
	"github.com/fireonce/fireonce/internal/proof/chaos/sites"
)

const (
	enginePostgres = "postgres"
	engineSQLite   = "sqlite"
)

// Times that servers run with: as short as a busy machine keeps.
const (
	grace = 4 * time.Second
	lease = 3 * time.Second
)

const (
	// delayMargin is left of the grace at least when a delayed write acts, also of a
	// request that was sent as late as it may be, when its attempt times out: the
	// platform may be short of a processor.
	delayMargin = 750 * time.Millisecond
	// longestDelay is far beyond the answer deadline, and before the fence in any case.
	longestDelay = grace - delayMargin
	// delayRate is the share of such writes. A feed has more of them: only its jobs are
	// sent again because something was not seen.
	delayRate, feedDelayRate = 0.08, 0.16
	// slowRate is the share of requests that a receiver without a lock works on for as long:
	// it looks for the key, works, acts, and then stores the key.
	slowRate = 0.08
)

// platformFaults are the platform's usual ones, but many writes act when no client waits
// for their answer any more: what looks before the fence finds nothing, and is wrong.
func platformFaults() platform.Faults {
	f := platform.DefaultFaults()
	f.Rates[platform.Delay] = delayRate
	feed := maps.Clone(f.Rates)
	feed[platform.Delay] = feedDelayRate
	unlocked := maps.Clone(f.Rates)
	unlocked[platform.Slow] = slowRate
	f.Faces = map[string]platform.Rates{platform.FaceFeed: feed, platform.FaceUnlocked: unlocked}
	f.Delay, f.Work = platform.Duration(longestDelay), platform.Duration(longestDelay)
	return f
}

// options are the command line.
type options struct {
	jobs    int // over all engines
	faults  int // over all engines; 0: one for jobsAFault
	engines []string
	servers int
	seed    uint64
	limit   time.Duration // of the load of one engine
	overlay string        // of a broken server
	outside bool
	// platforms is the campaign of the platforms that have a connector of their own.
	platforms bool
	// soak runs hostile clients beside the campaign, for minutes on each engine.
	soak bool
	// neighbors measures a bystander beside each attack of one other project.
	neighbors bool
	minutes   float64
	// binary is a server that is built already; empty: one is built.
	binary string
	// addressSpace limits each server's virtual memory in a soak, and ceiling is the most
	// that it may have resident; both in bytes.
	addressSpace uint64
	ceiling      int64
	// quotas are the servers' in a soak; none: their defaults.
	quotas []string
	keep   bool
}

const (
	defaultJobs = 22_000
	// jobsAFault is how many jobs there are for one fault of the nemesis.
	jobsAFault  = 75
	shortJobs   = 3_000
	shortFaults = 60
	outsideJobs = 1_400
	// Jobs at platforms take several requests each.
	platformJobs      = 4_000
	shortPlatformJobs = 1_500
	mostServers       = 9
	defaultLimit      = 24 * time.Hour
	soakMinutes       = 15
	mebibyte          = 1 << 20
)

// parse reads the command line.
func parse(args []string, out io.Writer) (options, error) {
	var o options
	var engine string
	var short bool
	var addressSpace, ceiling uint
	var quotas string
	set := flag.NewFlagSet("chaos", flag.ContinueOnError)
	set.SetOutput(out)
	set.IntVar(&o.jobs, "jobs", 0, "how many jobs, over all engines; 0: 22,000")
	set.IntVar(&o.faults, "faults", 0, fmt.Sprintf("how many process faults, over all engines; 0: one for %d jobs", jobsAFault))
	set.StringVar(&engine, "engine", "both", "postgres, sqlite or both")
	set.IntVar(&o.servers, "servers", 3, "servers on PostgreSQL; SQLite has one")
	set.Uint64Var(&o.seed, "seed", 1, "what the jobs, the faults and the platform's answers are made of")
	set.Float64Var(&o.minutes, "minutes", 0, "end the load of each engine after that; 0: when all jobs are submitted, of a soak after 15")
	set.BoolVar(&short, "short", false, "a few minutes, for CI: 3,000 jobs, 60 faults")
	set.StringVar(&o.overlay, "overlay", "", "build the server with the files of this `JSON` (go build -overlay): a broken server must fail the campaign")
	set.BoolVar(&o.outside, "outside", false, "measure what is outside the assumptions, instead")
	set.BoolVar(&o.platforms, "platforms", false, "jobs for the connectors of platforms, instead of webhooks and feeds")
	set.BoolVar(&o.soak, "soak", false, "hostile clients beside the honest ones and the faults, on one engine after the other")
	set.BoolVar(&o.neighbors, "neighbors", false, "measure a bystander beside each attack of another project, on one engine after the other; about 4 minutes each")
	set.StringVar(&o.binary, "binary", "", "run this `PROGRAM`, which was built with -tags failpoints, instead of building one")
	set.UintVar(&addressSpace, "memory", 4096, "in a soak, the virtual memory that each server may have, in `MiB`")
	set.UintVar(&ceiling, "ceiling", 512, "in a soak, the most that a server may have resident, in `MiB`")
	set.StringVar(&quotas, "quotas", "", "in a soak, the servers' `QUOTA,…`, which the project "+hostileProject+" must be seen to meet")
	set.BoolVar(&o.keep, "keep", false, "keep logs and databases also when nothing is wrong")
	if err := set.Parse(args); err != nil {
		return o, err
	}
	if set.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", set.Arg(0))
	}
	switch engine {
	case "both":
		o.engines = []string{enginePostgres, engineSQLite}
	case enginePostgres, engineSQLite:
		o.engines = []string{engine}
	default:
		return o, fmt.Errorf("-engine %q: must be postgres, sqlite or both", engine)
	}
	if o.servers < 1 || o.servers > mostServers {
		return o, fmt.Errorf("-servers must be 1 to %d", mostServers)
	}
	if o.jobs < 0 || o.faults < 0 || o.minutes < 0 {
		return o, fmt.Errorf("-jobs, -faults and -minutes must not be negative")
	}
	o.addressSpace, o.ceiling = uint64(addressSpace)*mebibyte, int64(ceiling)*mebibyte
	if quotas != "" {
		o.quotas = strings.Split(quotas, ",")
	}
	if o.neighbors {
		o.soak, o.servers = true, 1
	}
	if o.soak {
		return o, o.fillSoak()
	}
	o.fill(short)
	return o, nil
}

// fill puts in what was left open.
func (o *options) fill(short bool) {
	switch {
	case o.jobs > 0:
	case o.outside:
		o.jobs = outsideJobs
	case short && o.platforms:
		o.jobs = shortPlatformJobs
	case short:
		o.jobs = shortJobs
	case o.platforms:
		o.jobs = platformJobs
	default:
		o.jobs = defaultJobs
	}
	if o.faults == 0 {
		o.faults = max(o.jobs/jobsAFault, len(o.engines))
		if short && !o.platforms {
			o.faults = shortFaults
		}
	}
	o.limit = defaultLimit
	if o.minutes > 0 {
		o.limit = time.Duration(o.minutes * float64(time.Minute))
	}
}

// fillSoak does so for a soak. Its jobs and faults follow from how long it lasts.
func (o *options) fillSoak() error {
	if o.jobs > 0 || o.faults > 0 || o.outside || o.platforms {
		return fmt.Errorf("-soak goes with none of -jobs, -faults, -outside and -platforms")
	}
	if o.minutes == 0 {
		o.minutes = soakMinutes
	}
	times := soakTimes(o.minutes)
	o.limit = times.whole() + defaultLimit // its phases end the load
	o.jobs = len(o.engines) * int(times.whole().Seconds()*honestRate)
	o.faults = len(o.engines) * int(times.whole()/leastFault)
	return nil
}

// specs returns the jobs of the campaign.
func (o options) specs() func(i int) spec {
	if o.platforms {
		there, window := sites.All(), postWindow
		if o.jobs <= shortPlatformJobs {
			window = shortWindow
		}
		return func(i int) spec { return toldOf(platformSpecOf(o.seed, i, there, window), i) }
	}
	if !o.subscribes() {
		return func(i int) spec { return specOf(o.seed, i) }
	}
	return func(i int) spec { return toldOf(specOf(o.seed, i), i) }
}

// subscribes reports whether there are subscriptions.
func (o options) subscribes() bool { return !o.soak && !o.outside }

// recurs reports whether schedules fire beside the clients' jobs.
func (o options) recurs() bool { return !o.platforms && !o.soak && !o.outside }

// goesWrong returns what goes wrong at the platform.
func (o options) goesWrong() platform.Faults {
	f := platformFaults()
	if o.platforms {
		f = siteFaults()
	}
	if f.Faces == nil {
		f.Faces = make(map[string]platform.Rates)
	}
	f.Faces[platform.FaceTold] = toldRates
	return f
}

// share is an engine's part of something that all have; the first ones have what does
// not divide evenly.
func (o options) share(total int, engine string) int {
	n := len(o.engines)
	part := total / n
	if slices.Index(o.engines, engine) < total%n {
		part++
	}
	return part
}

// size is how many servers an engine has.
func (o options) size(engine string) int {
	if engine == engineSQLite {
		return 1
	}
	return o.servers
}
