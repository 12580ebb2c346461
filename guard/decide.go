package guard

// Decide is the rule of the last door: what a row that another run left means
// for a run that wants the date. live tells whether that run's lease is live.
// Every store follows it, the Postgres one in SQL; the contract suite walks
// through all of it.
func Decide(prior *Run, live bool, again Rerun) Verdict {
	switch {
	case prior == nil:
		return Granted
	case live:
		return Held
	case prior.State == Succeeded && !again.Succeeded:
		return AlreadyDone
	case prior.State == Failed && !again.Failed:
		return WasFailed
	case prior.State == Running && !again.Unknown:
		return IsUnknown
	}
	return Granted
}
