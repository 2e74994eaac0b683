// Package schedule makes recurring schedules fire. It reads their messages of the contract,
// fills their templates in, and has internal/firing decide and the store write what is due.
package schedule
