// Package firing decides about the firings of schedules: which make a job, wait, are skipped,
// are caught up after an outage, or pause the schedule. Decide is a pure function, and
// store.DueSchedules.Fire writes its decision in one transaction.
package firing
