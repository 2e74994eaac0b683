// Package recur evaluates the specs of recurring schedules: which beats a schedule has, under which names.
//
// It is pure but for Zones, which reads time zone data. It has no clock, no goroutines and no database. docs/schedules.md has the rules.
//
// A beat's name is its identity: the caller stores one job per name. So each rule here is made such that a name
// does not depend on when, where or how often the schedule is evaluated, and not on the version of the zone data.
//
// Libraries read cron expressions and RRULEs and say what matches on a clock without transitions; the zones are ours.
// docs/design.md has the reasons.
package recur
