package node

// tellNotes logs that the newest state of the database cannot be noted outside of it, or
// can be again.
func (c Config) tellNotes(err error) {
	if err != nil {
		c.Log.Error("what was seen of the database cannot be noted: a restore may go unnoticed", "err", err,
			"then", "make the folder of --state-dir writable; notes go on by themselves")
		return
	}
	c.Log.Info("what was seen of the database is noted again")
}
