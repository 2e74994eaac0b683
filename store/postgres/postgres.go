// Package postgres keeps a store in one PostgreSQL database, for any number of
// processes at once.
//
// Rules of this package:
//
//   - One method is one short transaction at READ COMMITTED; batches are one
//     statement a step, and concurrent calls share a transaction (coalesce.go).
//   - Locks are taken in one order: a connection's claim row, jobs by id, gates and
//     effects by their keys, ready rows by connection and hold key. Claims wait for
//     no job.
//   - Times are the database's, in microseconds.
//   - An event's position is its transaction's id and its number in it. Readers of
//     the whole log stop at the horizon: before the oldest transaction that is
//     still under way.
//   - Conversions between rows and values live in convert.go only.
package postgres
