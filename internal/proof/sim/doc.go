// Package sim simulates the engine: real engines and schedulers over the store in memory
// and a scripted platform, hours in milliseconds, on a clock of testing/synctest. A seed
// decides all that happens, and the same seed replays the same world, step by step. Checks
// of the protocol's invariants, written from the documents, run after every step.
//
// The package consists of tests: `make sim` runs them, and internal/proof/mutant breaks the
// protocol's rules for them to notice.
package sim
