/* What send.pml asserts, and the controls. */

/* ---- What is asserted ----------------------------------------------------- */

#define SAYS_NO (!QUARANTINED && (st == SCHEDULED || st == RETRYING || st == FAILED || st == CANCELED || st == EXPIRED))

#ifdef EFFECTS_ONLY
#define trueNo() skip
#define trueYet() skip
#define trueYes() skip
#define trueExpired() skip
#define duplicateSeen(a) skip
#else
inline trueNo() { assert(!(SAYS_NO && effects > 0)) }
inline trueYet() { assert(!(SAYS_NO && effects > 0)) }
inline trueExpired() { assert(!(st == EXPIRED && begun)) }   /* EXPIRED says that nothing was tried */
inline trueYes() { assert(!(st == SUCCEEDED && effects == 0)) }
inline duplicateSeen(a) { assert(!(by != a && effects < 2)) }
#endif
#ifdef LATEDROP
#define lostWord() assert(!(st != SUCCEEDED && effects > 0 && LATEDROPPED))
#define LATEDROPPED true
#else
#define lostWord() skip
#endif

/* Controls: what must be reachable, or the protocol would be safe by doing nothing. */
#ifdef REACH_SECOND             /* a second attempt takes effect, the first did not */
#define reachSecond(a) assert(!(a == 2 && effects == 1))
#else
#define reachSecond(a) skip
#endif
#ifdef REACH_FOUND              /* a look finds the effect of an attempt whose answer was lost */
#define reachFound() assert(false)
#else
#define reachFound() skip
#endif
#ifdef REACH_LATE               /* an answer is taken after its attempt was given up */
#define reachLate() assert(st == SENDING)
#else
#define reachLate() skip
#endif
#ifdef REACH_CANCELED           /* a cancel waits for the proof, and gets it */
#define reachCanceled() assert(att == 0)
#else
#define reachCanceled() skip
#endif
#ifdef REACH_EXPIRED            /* a job ends by its start window, without a try */
#define reachExpired() assert(false)
#else
#define reachExpired() skip
#endif
#ifdef REACH_OVER               /* a job that has begun ends by its time to keep trying */
#define reachOver() assert(false)
#else
#define reachOver() skip
#endif
#ifdef REACH_SWEPT
#define reachSwept() assert(false)
#else
#define reachSwept() skip
#endif
#ifdef REACH_RESTORED           /* a database that lost commits is released with an intent that is open */
#define reachRestored() assert(st != SENDING)
#else
#define reachRestored() skip
#endif
