// Package costly generates schedules whose times are costly to compute.
package costly

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/fireonce/fireonce/internal/recur"
)

// Spec returns a spec within the limits of recur, which may still refuse it.
func Spec(seed uint64) recur.Spec {
	g := &generator{rand.New(rand.NewPCG(seed, 29))} //nolint:gosec // repeatable is what it must be
	s := recur.Spec{ID: "costly", Generation: 1, Zone: g.of("UTC", "Europe/Vienna", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca")}
	for range g.IntN(4) {
		s.Cron = append(s.Cron, g.cron())
	}
	for range g.IntN(3) {
		s.RRules = append(s.RRules, g.rule())
	}
	for range g.IntN(3) {
		every := time.Duration(10+g.IntN(100)) * time.Second
		if g.may(2) {
			every = time.Duration(1+g.IntN(8000)) * time.Hour
		}
		s.Intervals = append(s.Intervals, recur.Interval{Every: every, Phase: time.Duration(g.IntN(10)) * time.Second})
	}
	if len(s.Cron)+len(s.RRules)+len(s.Intervals) == 0 || g.may(2) {
		s.Cron = append(s.Cron, "* * * * *")
	}
	if g.may(6) {
		for len(s.Cron) < 10 {
			s.Cron = append(s.Cron, g.cron())
		}
	}
	if g.may(2) {
		s.Jitter = time.Duration(1+g.IntN(86_400)) * time.Second
	}
	if g.may(4) {
		s.Start = time.Date(1970+g.IntN(229), 1, 1, 0, 0, 0, 0, time.UTC)
	}
	g.exclude(&s.Exclude)
	return s
}

type generator struct{ *rand.Rand }

func (g *generator) may(of int) bool          { return g.IntN(of) == 0 }
func (g *generator) of(list ...string) string { return list[g.IntN(len(list))] }

func (g *generator) cron() string {
	return g.of(
		"* * * * *", "*/5 * * * *", "0 * * * *", "0 0 31 12 *", "0 0 29 2 *", "0 0 29 2 1", "59 23 * * 7", "0 12 1 * *", "30 2 * * *",
		"*/7 */5 1-31/3 */2 *", "0 0 L * *", "0 0 LW,1W,15W * *", "0 9 * * 1#1,5#L", "0-58 * * * *", "* * 1-30 * *", fmt.Sprintf("%d %d * * *", g.IntN(60), g.IntN(24)),
		fmt.Sprintf("0 0 1 %d *", 1+g.IntN(12)))
}

var hours = "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23"

func (g *generator) rule() recur.RRule {
	second := g.of("00", "00", "30")
	parts := []string{"FREQ=" + g.of(
		"DAILY", "DAILY;BYHOUR="+hours, "DAILY;BYHOUR="+hours+";BYSETPOS=1,2,3,4,5,6,-1,-2,-3,-4,-5,-6", "WEEKLY;BYDAY=MO,TU,WE,TH,FR,SA,SU", "WEEKLY;BYHOUR="+hours,
		"MONTHLY;BYMONTHDAY=31", "MONTHLY;BYDAY=5MO,-5TU", "MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1", "YEARLY", "YEARLY;BYMONTH=2;BYMONTHDAY=29",
		"YEARLY;BYMONTH=2;BYMONTHDAY=29;BYDAY=MO", "YEARLY;BYYEARDAY=366", "YEARLY;BYWEEKNO=51,-51;BYDAY=SU", "YEARLY;BYDAY=MO,TU,WE,TH,FR,SA,SU;BYHOUR="+hours,
		"YEARLY;BYDAY=MO,TU,WE,TH,FR,SA,SU;BYHOUR="+hours+";BYSETPOS=1,50,100,200,300,366,-1,-50,-100,-200,-300,-366", "DAILY;BYMONTH=2;BYMONTHDAY=29",
		"HOURLY", "HOURLY;BYMONTH=2;BYMONTHDAY=29", "HOURLY;BYMINUTE=0,10,20,30,40,50;BYSETPOS=1,-1", "MINUTELY", "MINUTELY;BYHOUR=0;BYMINUTE=7", "MINUTELY;BYMONTH=2;BYMONTHDAY=29",
		"YEARLY;BYWEEKNO=53", "YEARLY;BYWEEKNO=53;BYDAY=MO;BYHOUR="+hours, "MONTHLY;BYDAY=5MO,TU", "YEARLY;BYDAY=53MO,-53SU,TU")}
	if g.may(2) {
		parts = append(parts, fmt.Sprintf("INTERVAL=%d", []int{2, 3, 7, 28, 97, 400, 9999}[g.IntN(7)]))
	}
	switch {
	case g.may(3):
		parts = append(parts, fmt.Sprintf("COUNT=%d", []int{1, 100, 9_999, 10_000}[g.IntN(4)]))
	case g.may(6):
		parts = append(parts, fmt.Sprintf("UNTIL=%d0101", 1990+g.IntN(200)))
	}
	year := 1970
	if g.may(3) {
		year += g.IntN(200)
	}
	return recur.RRule{Rule: strings.Join(parts, ";"), Start: fmt.Sprintf("%d-%s-%sT00:00:%s", year, g.of("01", "02", "12"), g.of("01", "28"), second)}
}

func (g *generator) exclude(x *recur.Exclusions) {
	for range g.IntN(6) {
		r := g.rule()
		if g.may(4) && !strings.Contains(r.Rule, "BYHOUR") && !strings.Contains(r.Rule, "HOURLY") && !strings.Contains(r.Rule, "MINUTELY") {
			r.Start = r.Start[:len("2006-01-02")]
		}
		x.RRules = append(x.RRules, r)
	}
	if g.may(3) {
		for range 1 + g.IntN(19) {
			x.Cron = append(x.Cron, g.of("* * * 2-12 *", "0-58 * * * *", "* 0-22 * * *", "0 0 29 2 *", "0 0 29 2 1", "* * 1-30 * *", "* * * * 1-6", g.cron()))
		}
	}
	if g.may(4) {
		for year := range 200 {
			x.Dates = append(x.Dates, fmt.Sprintf("%d-01-02..%d-12-30", 1990+year, 1990+year))
		}
	}
	if g.may(6) {
		x.Calendars = []string{"AT"}
	}
}
