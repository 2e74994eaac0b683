/* The send protocol on a target with two phases (HANDLE): an attempt gets a
 * handle, saves it, and then makes its one commit request. What was committed is
 * polled by the handle. Times are countdowns. README.md has the words and the runs.
 */
#define A 2             /* attempts */
#define S 1             /* send window */
#define L 2             /* wire and platform */
#define V 1             /* read lag */
#define FENCE (S+L+1)

mtype = { SCHEDULED, SENDING, ACCEPTED, AMBIGUOUS, RETRYING, NEEDS, SUCCEEDED, FAILED, CANCELED }
mtype = { IDLE, WIRE, TAKEN, LOST }              /* a commit request */
mtype = { NEW, WORKING, PUBLISHED, REFUSED }     /* what the platform does under a handle */

mtype st = SCHEDULED;
byte att = 0;
byte saved[A+1];        /* the handle of an attempt, as the database knows it; 0: none */
byte left = 0;          /* fence and read lag */
bit cancel = 0;

mtype wire[A+1] = IDLE;
mtype done[A+1] = NEW;  /* by handle */
byte uses[A+1];         /* the handle that an attempt commits */
byte tm[A+1];
byte effects = 0;

inline down(x) { if :: x > 0 -> x-- :: else fi }

inline trueNo() {
#ifdef EFFECTS_ONLY
  skip
#else
  assert(!((st == RETRYING || st == FAILED || st == CANCELED) && effects > 0))
#endif
}

inline withoutEffect() {
  if
  :: cancel -> st = CANCELED
  :: !cancel && att < A -> st = RETRYING
  :: !cancel -> st = FAILED
  fi;
  trueNo()
}

#ifdef EARLYPOLL        /* a handle that nothing was committed under is a proof at once */
#define FENCE_PASSED true
#else
#define FENCE_PASSED (left == 0)
#endif
#ifdef SAMEHANDLE       /* an unknown commit is made again, at once, under its handle */
#define AGAIN (st == AMBIGUOUS && att < A && saved[att] != 0 && !cancel)
#else
#define AGAIN false
#endif
#ifdef CANCELBLIND      /* a cancel ends a job in any state */
#define CANCEL_AT_ONCE true
#else
#define CANCEL_AT_ONCE (st == SCHEDULED || st == RETRYING)
#endif

active [2] proctype Worker() {
  byte my = 0;
end:
  do
  :: if
     :: atomic { (st == SCHEDULED || st == RETRYING) && att < A ->
          st = SENDING; att++; my = att; left = FENCE+V; tm[my] = S+1; uses[my] = my }
     :: atomic { AGAIN ->
          st = SENDING; att++; my = att; left = FENCE+V; tm[my] = S+1;
          uses[my] = saved[my-1]; saved[my] = uses[my] }
     fi;
#ifndef NOSAVE          /* the handle is saved with the answer, not before the commit */
     if
     :: atomic { saved[my] = uses[my] }
     :: goto out                                        /* killed before it is saved */
     fi;
#endif
     if
     :: atomic { tm[my] > 0 -> wire[my] = WIRE; tm[my] = L }
     :: atomic { tm[my] == 0 ->
          if :: st == SENDING && att == my && uses[my] == my -> withoutEffect()
             :: st == SENDING && att == my && uses[my] != my -> st = AMBIGUOUS
             :: else fi;
          goto out }
     :: goto out                                        /* killed */
     fi;
     if
     :: atomic { wire[my] == TAKEN && done[uses[my]] != REFUSED ->  /* the answer: accepted */
          saved[my] = uses[my];
          if
          :: att == my && (st == SENDING || st == AMBIGUOUS || st == NEEDS) -> st = ACCEPTED
          :: else
          fi }
     :: atomic { if :: st == SENDING && att == my -> st = AMBIGUOUS :: else fi }
     :: skip                                            /* killed */
     fi;
out: atomic { my = 0 }
  od
}

active proctype Reconciler() {
end:
  do
  :: atomic { st == SENDING && left <= V -> st = AMBIGUOUS }
  :: atomic { st == AMBIGUOUS && saved[att] != 0 && FENCE_PASSED ->       /* poll */
       if
       :: done[saved[att]] == PUBLISHED -> st = SUCCEEDED; assert(effects > 0)
       :: done[saved[att]] == WORKING -> st = ACCEPTED
#ifdef REACH_POLLED
          ; assert(false)
#endif
       :: done[saved[att]] == REFUSED || done[saved[att]] == NEW -> withoutEffect()
       fi }
  :: atomic { st == AMBIGUOUS && saved[att] == 0 && left == 0 ->          /* look by content */
       if
       :: done[1] == PUBLISHED || done[2] == PUBLISHED -> st = SUCCEEDED
       :: else -> withoutEffect()
       fi }
  :: atomic { st == ACCEPTED && done[saved[att]] == PUBLISHED -> st = SUCCEEDED; assert(effects > 0) }
  :: atomic { st == ACCEPTED && done[saved[att]] == REFUSED -> withoutEffect() }
  :: atomic { st == ACCEPTED || st == AMBIGUOUS && left == 0 ->           /* polls used up */
#ifdef RECOMMIT         /* what was accepted and does not end is sent again */
       withoutEffect()
#else
       st = NEEDS
#endif
     }
  od
}

active proctype Platform() {
  byte a;
end:
  do
  :: atomic { wire[1] == WIRE || wire[2] == WIRE ->
       if :: wire[1] == WIRE -> a = 1 :: wire[2] == WIRE -> a = 2 fi;
       tm[a] = 0;
       if
       :: wire[a] = TAKEN;
          if :: done[uses[a]] == NEW -> done[uses[a]] = WORKING :: else fi
       :: wire[a] = LOST
       fi;
       a = 0 }
  :: atomic { done[1] == WORKING || done[2] == WORKING ->                 /* as slow as it likes */
       if :: done[1] == WORKING -> a = 1 :: done[2] == WORKING -> a = 2 fi;
       if
       :: done[a] = PUBLISHED; effects++;
#ifdef REACH_SECOND
          assert(a == 1);
#endif
          assert(effects <= 1);
          trueNo()
       :: done[a] = REFUSED
       fi;
       a = 0 }
  od
}

active proctype Client() {
end:
  atomic { st != SUCCEEDED && st != FAILED ->
    cancel = 1;
    if
    :: CANCEL_AT_ONCE -> st = CANCELED; trueNo()
    :: else
    fi }
}

active proctype Clock() {
end:
  do
  :: atomic { !(wire[1] == WIRE && tm[1] == 0) && !(wire[2] == WIRE && tm[2] == 0) &&
       (tm[1] > 0 || tm[2] > 0 || left > 0) ->
       down(tm[1]); down(tm[2]); down(left) }
  od
}
