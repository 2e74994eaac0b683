/* The send protocol on a target that dedupes on our key inside its key window
 * (KEYED): an unknown attempt is repeated under the same key, at once, while the
 * round's first arm is younger than half the window. Times are countdowns, but for
 * the key's age. With LOST, a sender may be taken for gone at any moment, dead or not.
 * With LATEKEY, the target looks for the key, acts, and then stores it: it does not
 * dedupe in flight. README.md has the words and the runs.
 */
#define A 3             /* attempts */
#define S 1             /* send window */
#define L 1             /* wire and platform */
#define FENCE (S+L+1)
#define HALF 4
#define WINDOW (2*HALF) /* how long the receiver remembers a key, from its first effect on */

#ifdef FULLWINDOW       /* repeats go on until the window ends */
#define YOUNG (age < WINDOW)
#define OLDEST WINDOW
#else
#define YOUNG (age < HALF)
#define OLDEST HALF
#endif
#ifdef NORECHECK        /* the age is looked at when a repeat is decided, not when it is armed */
#define STILL_YOUNG true
#else
#define STILL_YOUNG YOUNG
#endif
#ifdef CLOCKBACK        /* assumption: the database's clock is not set back by half the window */
#define BACK HALF
#else
#define BACK (HALF-S-L)
#endif
#ifdef SHORTMEMORY      /* assumption: the receiver keeps its word */
#define MEMORY (HALF/2)
#else
#define MEMORY WINDOW
#endif
#if defined(LATEKEY) && !defined(EARLY) /* a repeat waits for the fence of the attempt before it */
#define FENCED (left == 0)
#else
#define FENCED true
#endif
#ifdef NEWKEY           /* a repeat has a key of its own */
#define KEY(a) a
#else
#define KEY(a) 1
#endif

mtype = { SCHEDULED, SENDING, AMBIGUOUS, RETRYING, NEEDS, SUCCEEDED, FAILED }
mtype = { IDLE, WIRE, LOOKED, ACTED, REFUSED, GONE }

mtype st = SCHEDULED;
byte att = 0;
bit doubt[A+1];
byte left = 0;          /* the fence, on the database's clock */
byte age = 0;           /* since the first arm, on the database's clock; counted no further than matters */
byte back = 0;          /* how far that clock was set back */

mtype wire[A+1] = IDLE;
byte tm[A+1];           /* IDLE: send window left; WIRE: until it acts */
byte known[A+1];        /* how long the receiver still knows a key */
byte effects = 0;

bit unseen[A+1];        /* LATEKEY: the key was not there when the request came */
#define BUSY(a) (wire[a] == WIRE || wire[a] == LOOKED)
#define LONE (doubt[1] + doubt[2] + doubt[3] == 1)
#define MAYBE (doubt[1] || doubt[2] || doubt[3])
#define AGES (att > 0 && age < OLDEST + BACK - back)
inline down(x) { if :: x > 0 -> x-- :: else fi }
inline trueNo() { assert(!((st == RETRYING || st == FAILED) && effects > 0)) }

inline refusedOrUnsent(a) {
  doubt[a] = 0;
  if
#ifdef BELIEVEREFUSAL   /* the newest answer settles the job */
  :: st == SENDING && att == a || st == AMBIGUOUS || st == NEEDS ->
#else
  :: (st == SENDING && att == a || st == AMBIGUOUS || st == NEEDS) && !MAYBE ->
#endif
     if :: att < A -> st = RETRYING :: st = FAILED fi;
     doubt[1] = 0; doubt[2] = 0; doubt[3] = 0;
     trueNo()
  :: else -> if :: st == SENDING && att == a -> st = AMBIGUOUS :: else fi
  fi
}

inline arm() {
  st = SENDING; att++; my = att; doubt[my] = 1; left = FENCE; tm[my] = S+1;
  if :: my == 1 -> age = 0 :: else fi
}

active [2] proctype Worker() {
  byte my = 0;
end:
  do
  :: if
     :: atomic { (st == SCHEDULED || st == RETRYING) && att < A -> arm() }
     :: atomic { st == AMBIGUOUS && att < A && YOUNG && FENCED -> my = att };
        atomic {                                        /* prepared, however long it took */
          if
          :: st == AMBIGUOUS && att == my && STILL_YOUNG && FENCED ->
#ifdef REACH_REPEAT
             assert(false);
#endif
#ifdef REACH_BOTH       /* the attempt before may still be written, or is on its way */
             assert(!(BUSY(my) || tm[my] > 0 && wire[my] == IDLE));
#endif
             arm()
          :: else -> my = 0; goto end
          fi }
     fi;
     if
     :: atomic { tm[my] > 0 -> wire[my] = WIRE; tm[my] = L }
     :: atomic { tm[my] == 0 -> refusedOrUnsent(my); goto out }
     :: goto out                                        /* killed */
     fi;
     if
     :: atomic { wire[my] == ACTED ->
          st = SUCCEEDED; doubt[1] = 0; doubt[2] = 0; doubt[3] = 0;
          assert(effects > 0) }
     :: atomic { wire[my] == REFUSED -> if :: st == SUCCEEDED :: else -> refusedOrUnsent(my) fi }
     :: atomic { if :: st == SENDING && att == my -> st = AMBIGUOUS :: else fi }
     :: skip                                            /* killed */
     fi;
out: atomic { my = 0 }
  od
}

active proctype Reconciler() {
end:
  do
  :: atomic { st == SENDING && left == 0 -> st = AMBIGUOUS }
#ifdef LOST             /* its server seems to be gone; the fence stays */
  :: atomic { st == SENDING && LONE -> st = AMBIGUOUS }
#endif
  :: atomic { st == AMBIGUOUS && (!YOUNG || att == A) -> st = NEEDS }
  /* The time to keep trying is over, at any moment. */
  :: atomic { st == AMBIGUOUS ->
#ifdef TIMEPROVES       /* what is unknown by then is taken for no effect */
       st = FAILED; trueNo()
#else
       st = NEEDS
#endif
     }
  :: atomic { st == RETRYING -> st = FAILED; trueNo() }
  od
}

active proctype Platform() {
  byte a;
end:
  do
  :: atomic { wire[1] == WIRE || wire[2] == WIRE || wire[3] == WIRE ->
       if
       :: wire[1] == WIRE -> a = 1
       :: wire[2] == WIRE -> a = 2
       :: wire[3] == WIRE -> a = 3
       fi;
#ifdef LATEKEY
       wire[a] = LOOKED; unseen[a] = (known[KEY(a)] == 0);
       a = 0 }
  :: atomic { wire[1] == LOOKED || wire[2] == LOOKED || wire[3] == LOOKED ->
       if
       :: wire[1] == LOOKED -> a = 1
       :: wire[2] == LOOKED -> a = 2
       :: wire[3] == LOOKED -> a = 3
       fi;
#define NEW(a) (unseen[a])
#else
#define NEW(a) (known[KEY(a)] == 0)
#endif
       tm[a] = 0;
       if
       :: !NEW(a) -> wire[a] = ACTED          /* known: answered, and nothing done */
#ifdef REACH_DEDUPE
          ; assert(false)
#endif
       :: NEW(a) ->
          wire[a] = ACTED; known[KEY(a)] = MEMORY; effects++;
#ifdef REACH_SECOND
          assert(a == 1);
#endif
          assert(effects <= 1);
#ifndef EFFECTS_ONLY
          assert(!(st == RETRYING || st == FAILED))
#endif
       :: wire[a] = REFUSED                             /* also a repeat of what was done */
       :: wire[a] = GONE
       fi;
       a = 0 }
  od
}

active proctype Clock() {
end:
  do
  :: atomic { !(BUSY(1) && tm[1] == 0) && !(BUSY(2) && tm[2] == 0) && !(BUSY(3) && tm[3] == 0) &&
       (tm[1] > 0 || tm[2] > 0 || tm[3] > 0 || left > 0 || known[1] > 0 || known[2] > 0 || known[3] > 0 ||
        AGES) ->
       down(tm[1]); down(tm[2]); down(tm[3]); down(left);
       down(known[1]); down(known[2]); down(known[3]);
       if :: AGES -> age++ :: else fi }
  :: atomic { back < BACK && age > 0 -> back++; age-- }
#ifndef LATEKEY
  :: atomic { left > 0 -> left = 0 }                    /* or forward: an early repeat is harmless */
#endif
  od
}
