// Package job is the pure core of Fireonce. It defines what a job is, between
// which states it may move, and one function, Decide, that judges what a piece
// of evidence means for a job. It imports the standard library only and reads
// no clock, so every rule of the send protocol can be tested as a function of
// values.
//
// The engine gathers evidence, Decide judges it, and a store writes the decision
// under guards of its own. Nothing else in the project decides a state.
package job
