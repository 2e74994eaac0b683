/* Failover that loses commits.
 *
 * An asynchronous standby has some commit as its last one, and becomes the
 * database. What was committed since is lost, and nobody knows what it was.
 *
 * The release may come at any moment, and treats what may be looked at as armed then. */
proctype Failover() {
  atomic { savedSt = st; savedAtt = att; savedOwner = owner; savedLeft = left;
    savedDoubt[1] = doubt[1]; savedDoubt[2] = doubt[2]; savedDoubt[A] = doubt[A] };
  atomic {
    st = savedSt; att = savedAtt; owner = savedOwner; left = savedLeft;
    doubt[1] = savedDoubt[1]; doubt[2] = savedDoubt[2]; doubt[A] = savedDoubt[A];
    savedSt = 0; savedAtt = 0; savedOwner = 0; savedLeft = 0;
    savedDoubt[1] = 0; savedDoubt[2] = 0; savedDoubt[A] = 0;
    clearLooks(); quarantined = 1 };
  atomic { quarantined && OLD_ARE_GONE ->
    quarantined = 0;
    if
    :: st == SCHEDULED || st == RETRYING || st == CLAIMED -> HOLD_DOUBTFUL
    :: st == SENDING || st == AMBIGUOUS -> RAISE_FENCE
    :: else
    fi;
    trueNo();
    reachRestored() }
}
