//go:build race

package main

// underRace: packages are compiled with mutants. make sim-short runs these tests, without
// the race detector.
const underRace = true
