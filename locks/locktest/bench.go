package locktest

import "testing"

// Steps is for a benchmark that calls several things in turn. The function that it
// returns calls one, and has its time counted if it has the name timed, or if
// timed is "".
func Steps(b *testing.B, timed string) (step func(name string, call func() error)) {
	b.Helper()
	b.ReportAllocs()
	return func(name string, call func() error) {
		if name != timed && timed != "" {
			b.StopTimer()
			defer b.StartTimer()
		}
		if err := call(); err != nil {
			b.Fatal(err)
		}
	}
}
