package witness

// Reporter reports failing notes, once for each series of failures. Without a note a restore
// may go unnoticed, so an operator must learn of the failure.
type Reporter struct {
	// Report is called with the error of the first note that failed, and with nil for the
	// first successful note after it. It may be nil.
	Report  func(error)
	failing bool
}

// Noted records the outcome of a note.
func (r *Reporter) Noted(err error) {
	if failing := err != nil; failing != r.failing {
		r.failing = failing
		if r.Report != nil {
			r.Report(err)
		}
	}
}
