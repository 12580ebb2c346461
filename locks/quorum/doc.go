// Package quorum is the first door: a lock over independent Redis masters
// (redsync decides, one value on a majority of the configured nodes is the
// lock). Of the hosts that wake up together it lets one go on, and it tells the
// others who that is. It may lie, after a failover, an eviction or a restart
// without persistence; nothing rests on it alone.
//
// # What goes over the wire
//
// All nodes are asked at once, each on one connection that is kept.
//
//	acquire   SET NX PX, GET, PTTL in one pipeline: one round trip, for the
//	          winner and for a loser, who learns from it who holds the lock.
//	          Whoever won some nodes but no majority gives them back: one more.
//	renew     one script, one round trip. A node that restarted empty gets the
//	          key again, while the trust window is open and never afterwards.
//	release   one script, one round trip: deletes the key if the value is ours
//	          and leaves a token for one waiter.
//	wait      one blocking pop on one node, on a connection of its own, and after
//	          ten seconds without a token PTTL on as many others as it takes to
//	          meet a majority that is free (two of three): 0.3 commands a second.
//
// A new connection costs the round trips of TCP and TLS, and one more if there is
// a login (HELLO).
//
// # How long a free lock may stay unnoticed
//
// A release leaves a token, which wakes one waiter at once. The key of a holder
// that died ends with its ttl; waiters know when and look within a second after
// it. Where the token was lost as well, because the release did not reach the node
// that they wait at or because whoever took it has died, they look every ten
// seconds, with a second of jitter. A look that finds the lock gone, or a node in
// trouble, leads to a question to all nodes; as long as one is, each look does.
//
// # How long a node may take
//
// Once a majority has granted what was asked, the others have until 300 ms after
// the question (ttl/6 if that is shorter) and are then left behind: a hung node
// costs that much and no more. As long as a majority is missing, the nodes get
// up to 3 s (ttl/6 if shorter): far nodes with TLS need a second for the first
// connection, and so does a host on which two hundred of us start at once. Who
// loses waits that long as well, because what a slow node grants late must be
// given back. Requests that were left behind end by themselves within that time.
//
// # Split votes
//
// When contenders share out the nodes, nobody has the lock and nobody is told
// "held". All give back what they won and ask again after a random pause, those
// who won nothing after a longer one. Pauses double, so that one of them comes
// through alone; with a pause longer than a round trip every second question
// does. After twelve questions it is a [locks.UnavailableError]: to say "held"
// would be a lie, as nobody is known to run. That happens when nodes are down
// and a dead contender's key blocks one of the remaining ones, which lasts one
// ttl at most.
//
// # Rights
//
// The smallest set of rights for a Redis user:
//
//	ACL SETUSER lockrun on >PASSWORD resetkeys ~lockrun:* resetchannels -@all
//	    +set +get +del +pexpire +pttl +eval +rpush +blpop
//
// +select is needed as well for a database other than 0. Keys are
// lockrun:lock:NAME and lockrun:wake:NAME and no others.
package quorum
