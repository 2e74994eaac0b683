/* The send protocol on a target that can be looked up (OBSERVABLE): one job,
 * some workers, some lookers, one platform, one database. README.md says what
 * the names mean, what was left out, and which run uses which switch.
 *
 * All times are countdowns in ticks. Nothing counts up, so time has no end and
 * the state space is finite. Where the length of a wait decides nothing (a lease,
 * a back-off, the start window) the wait may end at any moment, which is more than
 * the code can do.
 */
#ifndef A
#define A 2             /* attempts */
#endif
#ifndef W
#define W 2             /* workers */
#endif
#ifndef R
#define R 2             /* lookers */
#endif
#define S 1             /* send window: a write begins at most S ticks after the arm */
#define L 2             /* wire and platform: a written request acts within L ticks */
#define V 1             /* read lag: an effect is visible within V ticks */
#define FENCE (S+L+1)   /* answer deadline and grace */
#ifdef STALE
#define P 1             /* a replica that is behind serves looks for at most P ticks */
#define SPACING (P+1)
#else
#define P 0
#define SPACING 0
#endif
#ifndef N
#define N 1             /* complete absences that prove one */
#endif

mtype = { SCHEDULED, CLAIMED, SENDING, AMBIGUOUS, RETRYING, NEEDS, SUCCEEDED, FAILED, CANCELED, EXPIRED }
mtype = { IDLE, WIRE, ACTED, SEEN, REFUSED, LOST }

/* The database. */
mtype st = SCHEDULED;
byte att = 0;           /* attempts that were armed: the fence's number */
byte owner = 0;         /* the claim token: whose claim it is */
bit doubt[A+1];          /* attempts without a proof either way */
byte left = 0;          /* the last attempt's fence and read lag, on the database's clock */
byte spacing = 0;       /* until the next look may begin, on the database's clock */
byte negs = 0;          /* complete absences in this chain */
byte lookLease = 0;     /* who owns the chain of looks */
byte by = 0;            /* the attempt whose effect is recorded */
bit cancel = 0;         /* a cancel was asked */
#ifdef WINDOW
bit begun = 0;          /* an attempt, or a start that failed, since the submit or RetryJob */
#endif

/* The world. */
mtype wire[A+1] = IDLE; /* what became of the request of an attempt */
byte tm[A+1];           /* IDLE: send window left; WIRE: until it acts; ACTED: until it is visible */
byte seq = 0;           /* attempts that there really were */
byte effects = 0;
byte stale = 0;         /* how long the replica stays behind */
bit calm = 0;           /* faults have stopped */
bit idle[W+1] = 1;      /* a worker that has nothing in hand */

#include "rules.pml"
#include "asserts.pml"

/* ---- What the database accepts ------------------------------------------ */

inline clearLooks() { negs = 0; spacing = 0; lookLease = 0; forgetLooks() }

/* Every attempt is proven to have had no effect. */
inline withoutEffect() {
  clearLooks();
  if
  :: cancel -> st = CANCELED; reachCanceled()
  :: !cancel && seq < A -> st = RETRYING
  :: !cancel -> st = FAILED                 /* also because the time to keep trying is over */
  fi;
  trueNo()
}

inline succeeded(a) {
  if
  :: a > att -> skip                        /* no such attempt: dropped, and logged */
  :: a <= att && st == SUCCEEDED ->
     duplicateSeen(a)
  :: a <= att && st != SUCCEEDED && TAKES_LATE(a) ->
     reachLate();
     st = SUCCEEDED; by = a; closeAll(); clearLooks(); owner = 0
  :: else -> lostWord()
  fi
}

inline refusedOrUnsent(a) {
  if
  :: a > att || OF_THE_LOST -> skip
  :: a <= att && !OF_THE_LOST && ANSWERS(a) -> doubt[a] = 0; withoutEffect()
  :: else -> doubt[a] = 0
  fi
}

inline unknown(a) {
  if :: st == SENDING && att == a -> st = AMBIGUOUS :: else fi
}

/* ---- Who acts ------------------------------------------------------------ */

proctype Worker(byte me) {
  byte my = 0, tr = 0;  /* number of the attempt, and which one it really is */
end:
  do
  :: atomic { (st == SCHEDULED || st == RETRYING) && seq < A && !QUARANTINED ->
       st = CLAIMED; owner = me; idle[me] = 0 };
     if                                               /* prepare: nothing is sent */
     :: atomic { MAYARM(me) -> arm(); begin(); my = att; tr = seq }
#ifdef WINDOW
     :: atomic { MAYARM(me) -> st = RETRYING; owner = 0; begin(); goto out } /* a start that failed */
#endif
     :: atomic { !MAYARM(me) -> goto out }
     :: atomic { !calm -> goto out }                  /* killed */
     fi;
     startClock(tr);
     if
     :: atomic { tm[tr] > 0 -> WRITE(tr) }            /* the check and the write are one */
     :: atomic { tm[tr] == 0 -> refusedOrUnsent(my); goto out }
     :: atomic { !calm -> goto out }                  /* killed before the write */
     fi;
     lateWrite(tr);
     if                                               /* however late it is heard or stored */
     :: atomic { (wire[tr] == ACTED || wire[tr] == SEEN) -> succeeded(my) }
     :: atomic { wire[tr] == REFUSED -> refusedOrUnsent(my) }
     :: atomic { unknown(my); rememberUnknown(tr) }     /* timeout, reset, 5xx */
     :: !calm                                         /* killed: no outcome */
     fi;
out: atomic { my = 0; tr = 0; idle[me] = 1 }
  od
}

/* Leases, fences and windows that are over. */
proctype Sweeper() {
end:
  do
  :: atomic { st == CLAIMED && LEASE_OVER ->
       owner = 0; if :: att == 0 -> st = SCHEDULED :: else -> st = RETRYING fi }
  :: atomic { FENCE_OVER -> SWEPT }
#ifdef WINDOW
  :: atomic { (st == SCHEDULED || st == RETRYING || st == CLAIMED) && !QUARANTINED ->
       if
       :: BEGUN -> reachOver(); st = FAILED
       :: else -> reachExpired(); st = EXPIRED
       fi;
       owner = 0; trueNo(); trueExpired() }
#endif
  od
}

proctype Looker(byte me) {
  byte e = 0; bit found = 0, broken = 0;
end:
  do
  :: atomic { st == AMBIGUOUS && lookLease == 0 && MAYLOOK && !QUARANTINED ->
       lookLease = me; e = att;
       if
       :: READABLE -> found = VISIBLE
       :: stale > 0 -> found = 0                      /* complete, and yet behind */
       :: BROKEN_READS -> broken = 1
       fi };
     atomic {
       if
       :: found && e <= att && st != SUCCEEDED ->     /* evidence, whoever holds the lease */
          reachFound(); st = SUCCEEDED; by = e; closeAll(); clearLooks(); owner = 0; trueYes()
       :: !found && (!broken || ERROR_IS_ABSENCE) && st == AMBIGUOUS && att == e && HELD(me) ->
          negs++; lookLease = 0;
          if
          :: negs >= N -> closeAll(); withoutEffect()
          :: else -> spacing = SPACING; rememberLook()
          fi
       :: broken && !ERROR_IS_ABSENCE && HELD(me) && st == AMBIGUOUS && att == e ->
          lookLease = 0; countLook()
       :: else
       fi;
       e = 0; found = 0; broken = 0 }
  :: atomic { st == AMBIGUOUS && lookLease != 0 && !calm -> lookLease = 0 } /* look's lease over */
#ifdef GIVEUP
  :: atomic { st == AMBIGUOUS && MAYLOOK && !QUARANTINED && lookLease == 0 ->
       st = NEEDS; clearLooks() }                     /* looks used up: a person */
#endif
  od
}

proctype Platform() {
  byte a;
end:
  do
  :: atomic { wire[1] == WIRE || wire[2] == WIRE || (A > 2 && wire[A] == WIRE) ->
       if
       :: wire[1] == WIRE -> a = 1
       :: wire[2] == WIRE -> a = 2
       :: A > 2 && wire[A] == WIRE -> a = A
       fi;
       if
       :: wire[a] = ACTED; tm[a] = V; effects++;
          reachSecond(a);
          assert(effects <= 1);
          trueYet()
       :: wire[a] = REFUSED; tm[a] = 0
       :: wire[a] = LOST; tm[a] = 0
       fi;
       a = 0 }
  :: atomic { wire[1] == ACTED || wire[2] == ACTED || (A > 2 && wire[A] == ACTED) ->
       if
       :: wire[1] == ACTED -> a = 1
       :: wire[2] == ACTED -> a = 2
       :: A > 2 && wire[A] == ACTED -> a = A
       fi;
       wire[a] = SEEN; tm[a] = 0; a = 0 }
  od
}

/* What a client may ask for. */
proctype Client() {
end:
  do
#ifdef CANCEL
  :: atomic { !cancel && !calm && st != SUCCEEDED && st != FAILED && st != CANCELED && st != EXPIRED ->
       cancel = 1;
       if
       :: CANCEL_AT_ONCE -> st = CANCELED; owner = 0; clearLooks(); trueNo()
       :: else
       fi }
#endif
#ifdef RETRYJOB
  :: atomic { (st == FAILED || st == EXPIRED) && seq < A && !calm -> st = RETRYING; anew(); trueNo() }
#endif
  :: atomic { LIVE_RUN && !calm -> calm = 1 }
  od
}

proctype Clock() {
  byte a;
end:
  do
  :: atomic { TICKABLE(1) && TICKABLE(2) && (A < 3 || TICKABLE(A)) && SOMETHING ->
       down(tm[1]); down(tm[2]); if :: A > 2 -> down(tm[A]) :: else fi;
       down(left); down(spacing); down(stale); downOwn(); downLost() }
#ifdef STALE
  :: atomic { !staled -> staled = 1; stale = P }
#endif
#ifdef CLOCK
  :: atomic { jumps < JUMPS ->                        /* somebody sets the database's clock */
       jumps++;
       if
       :: left = 0; spacing = 0                       /* forward, by any amount ... */
       :: down(left); down(spacing)
       :: left > 0 && left < FENCE+V -> left++        /* back */
       :: spacing > 0 && spacing < SPACING -> spacing++
       fi }
#ifdef RESTART
  :: atomic { own > 0 -> forgetOwn() }
#endif
#endif
  od
}

#ifdef FAILOVER
#include "failover.pml"
#endif

init {
  atomic {
    run Clock(); run Platform(); run Sweeper(); run Client();
    run Worker(1); if :: W > 1 -> run Worker(2) :: else fi;
    run Looker(1); if :: R > 1 -> run Looker(2) :: else fi;
    runFailover()
  }
}
