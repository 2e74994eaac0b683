/* The rules of send.pml, each with what a run may put in its place. */

/* ---- Rules --------------------------------------------------------------- */

#ifdef NOEPOCH                  /* an intent is written whoever holds the claim, whatever came since */
#define MAYARM(me) (seq < A)
#else
#define MAYARM(me) (st == CLAIMED && owner == me && !QUARANTINED)
#endif

#ifdef TTLRESET                 /* an intent whose time is over is taken for unsent */
#define SWEPT doubt[att] = 0; st = RETRYING
#else
#define SWEPT st = AMBIGUOUS; reachSwept()
#endif

#ifdef NOGRACE                  /* looks begin as soon as the outcome is unknown */
#define FENCE_PASSED true
#else
#define FENCE_PASSED (left == 0)
#endif

#ifdef NOADDRESS                /* a refusal settles whatever is under way */
#define ANSWERS(a) (st == SENDING || (st == AMBIGUOUS || st == NEEDS) && doubt[a])
#else
#define ANSWERS(a) (st == SENDING && att == a || (st == AMBIGUOUS || st == NEEDS) && doubt[a])
#endif

#ifdef LATEDROP                 /* an answer counts only while its attempt is under way */
#define TAKES_LATE(a) (st == SENDING && att == a)
#else
#define TAKES_LATE(a) true
#endif

#ifdef READERR                  /* a look that failed counts as one that found nothing */
#define ERROR_IS_ABSENCE true
#else
#define ERROR_IS_ABSENCE false
#endif

#ifdef NOLOOKLEASE              /* an absence counts whoever owns the looks by then */
#define HELD(me) true
#else
#define HELD(me) (lookLease == me)
#endif

#ifdef CANCELBLIND              /* a cancel ends a job in any state */
#define CANCEL_AT_ONCE true
#else
#define CANCEL_AT_ONCE (st == SCHEDULED || st == RETRYING || st == CLAIMED)
#endif

#ifdef WINDOW                   /* a job has run out of time: how long it may take to begin, or is tried after */
#define begin() begun = 1
#define anew() begun = 0
#ifdef BEGUNEXPIRES             /* the start window ends a job also after it has begun */
#define BEGUN false
#else
#define BEGUN begun
#endif
#else
#define begin() skip
#define anew() skip
#endif

#ifdef ZOMBIE                   /* assumption: nobody is frozen between the check and the write */
#define WRITE(tr) skip
#define lateWrite(tr) atomic { wire[tr] = WIRE; tm[tr] = L }
#else
#define WRITE(tr) wire[tr] = WIRE; tm[tr] = L
#define lateWrite(tr) skip
#endif

#ifdef LATESTART                /* the send window is measured from when the arm is known */
#define armWindow 0
#define startClock(tr) atomic { tm[tr] = S+1 }
#else
#define armWindow (S+1)
#define startClock(tr) skip
#endif

/* ---- Time ---------------------------------------------------------------- */

#ifdef SLOWPLATFORM             /* assumption: what was written acts within L ticks */
#define TICKABLE(a) !(wire[a] == ACTED && tm[a] == 0)
#elif defined(SLOWREAD)         /* assumption: what took effect is visible within V ticks */
#define TICKABLE(a) !(wire[a] == WIRE && tm[a] == 0)
#else
#define TICKABLE(a) !((wire[a] == WIRE || wire[a] == ACTED) && tm[a] == 0)
#endif
#define SOMETHING (tm[1] > 0 || tm[2] > 0 || tm[A] > 0 || left > 0 || spacing > 0 || stale > 0 || OWN_RUNS || LOST_RUNS)

inline down(x) { if :: x > 0 -> x-- :: else fi }

#ifdef STALE
bit staled = 0;
#endif

/* The engine's own clock: a process remembers when it may look, whatever the
 * database's clock says (internal/engine/not_before.go). The workers and lookers of a
 * run with CLOCK are one process. */
#ifdef CLOCK
#define JUMPS 2
#ifdef RESTART                  /* a process starts again and remembers nothing; or another one looks */
#define forgetOwn() own = 0
#endif
byte jumps = 0;
byte own = 0;
#ifdef CLOCKTRUST               /* the database's clock alone says when a look may begin */
#define OWN_PASSED true
#define OWN_RUNS false
#define rememberArm() skip
#define rememberUnknown(tr) skip
#define rememberLook() skip
#define downOwn() skip
#else
#define OWN_PASSED (own == 0)
#define OWN_RUNS (own > 0)
#ifdef FORGETFENCE              /* the fence is remembered when the send has returned, not from the arm on */
byte since[A+1];
#define rememberArm() since[seq] = FENCE+V
#define rememberUnknown(tr) own = (own > since[tr] -> own : since[tr])
#define downOwn() down(own); down(since[1]); down(since[2])
#else
#define rememberArm() own = FENCE+V
#define rememberUnknown(tr) skip
#define downOwn() down(own)
#endif
#ifdef FORGETLOOK               /* absences are spaced on the database's clock alone */
#define rememberLook() skip
#else
#define rememberLook() own = (own > SPACING -> own : SPACING)
#endif
#endif
#else
#define OWN_PASSED true
#define OWN_RUNS false
#define rememberArm() skip
#define rememberUnknown(tr) skip
#define rememberLook() skip
#define downOwn() skip
#endif

inline arm() {
  st = SENDING; owner = 0; att++; seq++;
  doubt[att] = 1; left = FENCE+V;
  tm[seq] = armWindow;
  rememberArm()
}

inline closeAll() {
  doubt[1] = 0; doubt[2] = 0; doubt[A] = 0
}

#define VISIBLE (wire[1] == SEEN || wire[2] == SEEN || wire[A] == SEEN)

/* ---- Failover that loses commits ------------------------------------------ */

#ifdef FAILOVER
bit quarantined = 0;
mtype savedSt; byte savedAtt, savedOwner, savedLeft; bit savedDoubt[A+1];
#ifdef NOQUARANTINE             /* a database that lost commits goes on at once */
#define QUARANTINED false
#else
#define QUARANTINED quarantined
#endif
#ifdef RELEASESOON              /* a release leaves the fences of the restored state as they are */
#define RAISE_FENCE skip
#else
#define RAISE_FENCE left = FENCE+V
#endif
#ifdef OLDWORKER                /* servers of the lost state go on reporting to the restored one */
#define OLD_ARE_GONE true
#define OF_THE_LOST false
#else
#define OLD_ARE_GONE (idle[1] && idle[W])
#define OF_THE_LOST quarantined
#endif
#ifdef RELEASEAS                /* recover --as retry: what may have been sent starts again */
#define HOLD_DOUBTFUL skip
#else
#define HOLD_DOUBTFUL st = NEEDS; owner = 0
#endif
#define LOST_RUNS (savedLeft > 0)
#define downLost() down(savedLeft)

#define runFailover() run Failover()
#else
#define QUARANTINED false
#define OF_THE_LOST false
#define LOST_RUNS false
#define downLost() skip
#define runFailover() skip
#endif

/* ---- Liveness ------------------------------------------------------------- */

#ifdef LIVE
#define LIVE_RUN true
#define ENDED (st == SUCCEEDED || st == FAILED || st == CANCELED || st == EXPIRED || st == NEEDS)
ltl ends { (<> calm) -> (<> [] ENDED) }
bit turn = 0;
active proctype Idle() { end: do :: turn = 1 - turn od }   /* a world that stands still goes on for ever, too */
#else
#define LIVE_RUN false
#endif
#ifdef NOLEASEEND               /* a claim has no end */
#define LEASE_OVER false
#else
#define LEASE_OVER ((!calm || idle[owner]) && !QUARANTINED)
#endif
#ifdef NOSWEEP                  /* an intent without an outcome is left alone */
#define FENCE_OVER false
#else
#define FENCE_OVER (st == SENDING && left <= V)
#endif
#ifdef UNREADABLE               /* the platform can never be read */
#define READABLE false
#define BROKEN_READS true
#else
#define READABLE true
#define BROKEN_READS !calm
#endif
#ifdef UNREADABLE
#define LOOKS 3
byte looks = 0;
#define forgetLooks() looks = 0
#ifdef NOBUDGET                 /* looks have no budget */
#define countLook() skip
#else
#define countLook() looks++; if :: looks == LOOKS -> st = NEEDS; clearLooks() :: else fi
#endif
#else
#define forgetLooks() skip
#define countLook() skip
#endif
#define MAYLOOK (FENCE_PASSED && spacing == 0 && OWN_PASSED)
