// Package recur evaluates the specs of recurring schedules: it computes the beats of a schedule, which are the times at
// which it fires, and their names.
//
// It is pure except for Zones, which reads time zone data. It has no clock, no goroutines and no database.
// docs/schedules.md has the rules.
//
// A beat's name is its identity: the caller stores one job per name. So a name depends neither on when, where or how
// often the schedule is evaluated, nor on the version of the zone data.
//
// Libraries parse cron expressions and RRULEs and find the matches on a clock without transitions, except for RRULEs that go by
// hours, minutes or numbers of weeks. This package applies the time zones. docs/decisions/calendars.md has the reasons.
package recur
