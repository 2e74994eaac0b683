/* Two jobs with the same content in one account, on a target that can be looked
 * up: nobody can tell their objects apart by looking. Each wants an object of its
 * own. Times are countdowns. README.md has the words and the runs.
 */
#define S 1             /* send window */
#define L 1             /* wire and platform */
#define V 1             /* read lag */
#define FENCE (S+L+1)
#define J 3             /* jobs are 1 and 2 */
#define O 5             /* objects are 1 to 4, by attempt: 2*(job-1)+attempt */

mtype = { SCHEDULED, SENDING, AMBIGUOUS, RETRYING, NEEDS, SUCCEEDED, FAILED }
mtype = { IDLE, WIRE, ACTED, SEEN, REFUSED, LOST }

mtype st[J] = SCHEDULED;
byte att[J];
byte left[J];
byte mark[J];           /* what was there before the job's first attempt, a bit for each object */
byte object[J];         /* what settled the job */

mtype wire[O] = IDLE;
byte tm[O];
byte effects = 0, made[J];

#define BIT(o) (1 << (o-1))
inline down(x) { if :: x > 0 -> x-- :: else fi }

#ifdef NOGATE           /* both may have an open intent at once */
#define GATE_FREE true
#else
#define GATE_FREE (st[3-j] != SENDING && st[3-j] != AMBIGUOUS)
#endif
#ifdef NOOWNER          /* an object that settled the other job is a candidate */
#define MINE(o) true
#else
#define MINE(o) (object[3-j] != o)
#endif
#define RECENT(o) ((mark[j] & BIT(o)) == 0)
#ifdef TWINDOUBT        /* what is found while the other job is in doubt may be the other's */
#define CERTAIN (st[3-j] != NEEDS)
#else
#define CERTAIN true
#endif
#define CANDIDATE(o) (wire[o] == SEEN && MINE(o) && RECENT(o) -> 1 : 0)
#define SEEN_BIT(o) (wire[o] == SEEN -> BIT(o) : 0)

/* No more jobs have succeeded than there are objects, and none by the other's. */
inline trueYes() {
  assert(!(st[1] == SUCCEEDED && st[2] == SUCCEEDED && (effects < 2 || object[1] == object[2])))
}
inline trueNo() { assert(!((st[j] == RETRYING || st[j] == FAILED) && made[j] > 0)) }

inline withoutEffect() {
  left[j] = 0;
  if :: att[j] < 2 -> st[j] = RETRYING :: st[j] = FAILED fi;
  trueNo()
}

inline readMark() {
  if
  :: att[j] == 0 -> mark[j] = SEEN_BIT(1) + SEEN_BIT(2) + SEEN_BIT(3) + SEEN_BIT(4)
  :: else
  fi
}

proctype Worker(byte j) {
  byte o = 0;
end:
  do
  :: atomic { (st[j] == SCHEDULED || st[j] == RETRYING) && att[j] < 2 && GATE_FREE ->
       readMark();
       st[j] = SENDING; att[j]++; o = 2*(j-1) + att[j]; left[j] = FENCE+V; tm[o] = S+1 };
     if
     :: atomic { tm[o] > 0 -> wire[o] = WIRE; tm[o] = L }
     :: atomic { tm[o] == 0 ->
          if :: st[j] == SENDING && 2*(j-1)+att[j] == o -> withoutEffect() :: else fi; goto out }
     :: goto out                                        /* killed */
     fi;
     if
     :: atomic { (wire[o] == ACTED || wire[o] == SEEN) ->
          st[j] = SUCCEEDED; object[j] = o;             /* a direct answer, however late */
          left[j] = 0; trueYes() }
     :: atomic { wire[o] == REFUSED ->
          if
          :: (st[j] == SENDING || st[j] == AMBIGUOUS || st[j] == NEEDS) && 2*(j-1)+att[j] == o -> withoutEffect()
          :: else
          fi }
     :: atomic { if :: st[j] == SENDING && 2*(j-1)+att[j] == o -> st[j] = AMBIGUOUS :: else fi }
     :: skip                                            /* killed */
     fi;
out: atomic { o = 0 }
  od
}

proctype Reconciler(byte j) {
  byte n = 0;
end:
  do
  :: atomic { st[j] == SENDING && left[j] <= V -> st[j] = AMBIGUOUS }
  :: atomic { st[j] == AMBIGUOUS && left[j] == 0 ->
       n = CANDIDATE(1) + CANDIDATE(2) + CANDIDATE(3) + CANDIDATE(4);
       if
       :: n == 0 -> withoutEffect()
       :: n == 1 && CERTAIN ->
#ifdef REACH_FOUND
          assert(false);
#endif
          st[j] = SUCCEEDED;
          if
          :: CANDIDATE(1) == 1 -> object[j] = 1
          :: CANDIDATE(2) == 1 -> object[j] = 2
          :: CANDIDATE(3) == 1 -> object[j] = 3
          :: CANDIDATE(4) == 1 -> object[j] = 4
          fi;
          trueYes()
       :: n > 1 || n == 1 && !CERTAIN -> st[j] = NEEDS  /* several candidates */
       fi;
       n = 0 }
#ifdef GIVEUP           /* assumption: what is visible is read before the looks are used up */
  :: atomic { st[j] == AMBIGUOUS && left[j] == 0 -> st[j] = NEEDS }       /* the gate opens */
#endif
  od
}

active proctype Platform() {
  byte o;
end:
  do
  :: atomic { wire[1] == WIRE || wire[2] == WIRE || wire[3] == WIRE || wire[4] == WIRE ->
       if
       :: wire[1] == WIRE -> o = 1
       :: wire[2] == WIRE -> o = 2
       :: wire[3] == WIRE -> o = 3
       :: wire[4] == WIRE -> o = 4
       fi;
       if
       :: wire[o] = ACTED; tm[o] = V; effects++; made[1+(o-1)/2]++;
          assert(made[1+(o-1)/2] <= 1)
       :: wire[o] = REFUSED; tm[o] = 0
       :: wire[o] = LOST; tm[o] = 0
       fi;
       o = 0 }
  :: atomic { wire[1] == ACTED || wire[2] == ACTED || wire[3] == ACTED || wire[4] == ACTED ->
       if
       :: wire[1] == ACTED -> o = 1
       :: wire[2] == ACTED -> o = 2
       :: wire[3] == ACTED -> o = 3
       :: wire[4] == ACTED -> o = 4
       fi;
       wire[o] = SEEN; tm[o] = 0; o = 0 }
  od
}

#define TICKABLE(o) !((wire[o] == WIRE || wire[o] == ACTED) && tm[o] == 0)

active proctype Clock() {
end:
  do
  :: atomic { TICKABLE(1) && TICKABLE(2) && TICKABLE(3) && TICKABLE(4) &&
       (tm[1] > 0 || tm[2] > 0 || tm[3] > 0 || tm[4] > 0 || left[1] > 0 || left[2] > 0) ->
       down(tm[1]); down(tm[2]); down(tm[3]); down(tm[4]); down(left[1]); down(left[2]) }
  od
}

#ifdef REACH_BOTH
#define both (st[1] == SUCCEEDED && st[2] == SUCCEEDED)
active proctype Both() { end: both -> assert(false) }
#endif

init { atomic { run Worker(1); run Worker(2); run Reconciler(1); run Reconciler(2) } }
