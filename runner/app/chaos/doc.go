// Package chaos proves that lockrun keeps its promises while everything around
// it breaks. It has nothing but tests.
//
// Many copies of the real program contend for a few names and dates, against
// real Redis and Postgres servers, while a seeded schedule kills, hangs, empties
// and cuts off servers, wires, supervisors and clocks, one fault alone or two at
// a time. The commands that lockrun runs are jobs of this package: they write
// their start, every beat of their lives and their end to a file of their own,
// and to a ledger behind the fence.
//
// A judge that believes nothing that lockrun says compares this with the exit
// codes, the record and what is left when all is quiet. It is a pure function of
// a history, and hand-made histories show that it sees each kind of violation.
//
// The judge would be worth nothing if it never found anything. So the package
// also builds lockrun with one door taken out, by patches of its source text,
// and demands that the violation is found, while the real program goes through
// the same schedule unharmed.
//
// The short form is a part of go test. The long one takes as long as one likes:
//
//	go test -v ./runner/app/chaos -run TestChaos -timeout 0 -args -for 30m
//
// Each schedule prints its seed. The same schedule again:
//
//	go test -v ./runner/app/chaos -run TestChaos -args -seed 4711
//
// What is not promised is not demanded: the two supervisors of one run are
// never attacked together, and clocks differ by a constant. A machine that
// stands still for longer than the kill margin lets a job live a little too
// long; a witness measures such pauses, and the summary counts what they excuse.
package chaos
