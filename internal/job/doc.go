// Package job is the pure core of Fireonce: what a job is, which states it may
// move between, and the one function, Decide, that judges what a piece of
// evidence means for it. It imports the standard library only and reads no
// clock, so every rule of the send protocol can be tested as a function of
// values.
//
// The engine gathers evidence, Decide judges it, a store writes the decision
// under guards of its own. Nothing else in the project may decide a state.
package job
