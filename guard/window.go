package guard

import "time"

// Meant tells whether Date is the date that was meant, when the store's clock
// says at: the start of lockrun by that clock lies between From and Before. A
// date that was given in full is always meant.
func (r *Request) Meant(at time.Time) bool {
	if r.From.IsZero() && r.Before.IsZero() {
		return true
	}
	start := at.Add(-r.Since())
	return !start.Before(r.From) && start.Before(r.Before)
}
