//go:build race

package main

// underRace: a package is compiled for each mutant. make sim-short runs these tests, without
// the race detector.
const underRace = true
