// Package notice makes the notices of subscriptions: it reads the event log of each subscription's
// project from where the subscription stands, decides what to tell, and stores the notice, its job
// and the new position in one step of the store. The engine sends the job like any other.
//
// Rules of this package:
//
//   - a decision is a function of the subscription, the events after its position and the time;
//   - one notice of a subscription is under way. While it is, events wait in the log;
//   - a notice whose job ends without success is made again with the same payload, under the
//     same effect key. Nothing is skipped;
//   - no person is asked about a notice: one whose outcome stays unknown is sent again.
package notice
