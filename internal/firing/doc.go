// Package firing decides what becomes of a schedule's firings: which make a job, wait, are
// skipped, are caught up after an outage, or pause the schedule. Decide is a pure function;
// store.DueSchedules.Fire writes what it decided in one transaction.
package firing
