package job

// MayReplace reports whether this result of an attempt replaces an earlier one. An
// answer of the platform replaces an unknown result, and nothing replaces a success.
// An unknown result does not replace a proof, unless it has a handle: then the
// platform has accepted an attempt that was thought to be refused, unsent or absent.
func (s Settled) MayReplace(was Result) bool {
	switch s.Result {
	case ResultSucceeded:
		return true
	case ResultRejected, ResultNotSent, ResultAccepted:
		return was != ResultSucceeded
	case ResultUnknown:
		proof := was == ResultRejected || was == ResultNotSent || was == ResultAbsent
		return was != ResultSucceeded && (!proof || s.Handle != "")
	default:
		return was.Open()
	}
}

// SaysNoEffect reports whether the decision, written on a job in state from, asserts
// that no attempt had an effect. It may be written only if no attempt is open.
func (d Decision) SaysNoEffect(from State) bool {
	switch d.To {
	case Retrying, Failed, Canceled, Expired:
		return d.To != from
	default:
		return false
	}
}
