package witness

// Reporter reports notes that fail, once for each row of failures. Without its note a
// restore may go unnoticed, so an operator has to learn of it.
type Reporter struct {
	// Report gets the error of the first note that failed, and nil for the first one
	// after it that did not. It may be nil.
	Report  func(error)
	failing bool
}

// Noted takes the outcome of a note.
func (r *Reporter) Noted(err error) {
	if failing := err != nil; failing != r.failing {
		r.failing = failing
		if r.Report != nil {
			r.Report(err)
		}
	}
}
