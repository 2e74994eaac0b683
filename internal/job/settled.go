package job

// MayReplace tells whether this knowledge of an attempt replaces what was known
// before: what the platform said replaces doubt, and nothing replaces a success.
// Doubt takes back no proof, unless it brings a handle: then the platform has
// taken up what was thought to be refused, unsent or absent.
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

// SaysNoEffect tells whether writing the decision on a job in state from claims
// that no attempt had an effect. No attempt may be open then.
func (d Decision) SaysNoEffect(from State) bool {
	switch d.To {
	case Retrying, Failed, Canceled, Expired:
		return d.To != from
	default:
		return false
	}
}
