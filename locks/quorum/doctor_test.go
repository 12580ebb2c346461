package quorum

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"lockrun/locks"
	"lockrun/locks/locktest"
)

// examined returns what is not right, as "status check: text", of a real ttl.
func examined(t *testing.T, urls ...string) []string {
	t.Helper()
	timing, err := locks.NewTiming(time.Minute, -1)
	if err != nil {
		t.Fatal(err)
	}
	findings, err := Examine(bounded(t), Options{URLs: urls, Timing: timing})
	if err != nil {
		t.Fatal(err)
	}
	var odd []string
	for _, f := range findings {
		if f.Status != locks.GradeOK {
			odd = append(odd, fmt.Sprintf("%s %s: %s", f.Status, f.Check, f.Text))
		}
	}
	return odd
}

// exactly fails unless each text begins with "status check: " and holds the words
// of want in its place, and there is no other.
func exactly(t *testing.T, got []string, want ...[2]string) {
	t.Helper()
	ok := len(got) == len(want)
	for i := range min(len(got), len(want)) {
		ok = ok && strings.HasPrefix(got[i], want[i][0]+": ") && strings.Contains(got[i], want[i][1])
	}
	if !ok {
		t.Errorf("got:\n%s\nwant:\n%q", strings.Join(got, "\n"), want)
	}
}

func lasting(t *testing.T, args ...string) *locktest.Redis {
	t.Helper()
	return locktest.StartRedis(t, append([]string{"--appendonly", "yes"}, args...)...)
}

var (
	single    = [2]string{"warn redis nodes", "a single node"}
	even      = [2]string{"warn redis nodes", "2 nodes: a majority is 2"}
	forgetful = [2]string{"warn redis persistence", "no sooner than the ttl (1m0s)"}
)

func TestExamine(t *testing.T) {
	a, b, c := lasting(t, "--repl-diskless-sync-delay", "0"), lasting(t), lasting(t)
	replica := lasting(t, "--replicaof", strings.Replace(a.Addr(), ":", " ", 1))
	poll(t, "the replica is attached", func() bool {
		return strings.Contains(do(t, a, "INFO", "replication"), "state=online")
	})
	careless := locktest.StartRedis(t, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
	locked := lasting(t, "--requirepass", "s3cret")
	cluster := lasting(t, "--cluster-enabled", "yes")
	hung := lasting(t)
	hung.Pause()
	t.Cleanup(hung.Resume)
	gone := fmt.Sprintf("redis://127.0.0.1:%d", locktest.FreePort(t))
	otherName := func(r *locktest.Redis) string { return strings.Replace(r.URL(), "127.0.0.1", "localhost", 1) }
	attached := [2]string{"warn redis replicas", a.Addr() + ": 1 attached"}

	for _, test := range []struct {
		name string
		urls []string
		want [][2]string
	}{
		{"sound", []string{lasting(t).URL(), b.URL(), c.URL()}, nil},
		{"single", []string{b.URL()}, [][2]string{single}},
		{"even", []string{b.URL(), c.URL()}, [][2]string{even}},
		{"replica", []string{a.URL(), b.URL(), replica.URL()}, [][2]string{
			attached, {"fail redis master", replica.Addr() + ": it is a replica of 127.0.0.1"}}},
		{"one_server_two_names", []string{b.URL(), otherName(b), c.URL()}, [][2]string{
			{"fail redis distinct", fmt.Sprintf("localhost:%s: --redis no. 2 and no. 1 (%s) are one server", b.Addr()[10:], b.Addr())}}},
		{"one_server_two_databases", []string{b.URL(), otherName(b) + "/3", c.URL()}, [][2]string{
			{"fail redis distinct", "are one server"}}},
		{"one_address_twice", []string{gone, c.URL(), gone + "/"}, [][2]string{
			{"fail redis reachable", "connection refused; start it"},
			{"fail redis reachable", "connection refused; start it"},
			{"fail redis distinct", "no. 3 and no. 1"}}},
		{"careless", []string{careless.URL(), b.URL(), c.URL()}, [][2]string{
			{"warn redis eviction", "allkeys-lru"}, forgetful}},
		{"login", []string{locked.URL(), strings.Replace(locked.URL(), "//", "//:wr0ng@", 1), c.URL()}, [][2]string{
			{"fail redis reachable", "it asks for a password (NOAUTH); correct the login"},
			{"fail redis reachable", "it refuses the user name or the password (WRONGPASS); correct the login"},
			{"fail redis distinct", "are one server"}}},
		{"cluster", []string{cluster.URL(), b.URL(), c.URL()}, [][2]string{
			{"fail redis writable", "it is a node of a Redis Cluster"}, {"fail redis master", "it is a node of a Redis Cluster"}}},
		{"hung", []string{hung.URL(), gone, c.URL()}, [][2]string{
			{"fail redis reachable", hung.Addr() + ": no answer in time"}, {"fail redis reachable", "connection refused"}}},
	} {
		t.Run(test.name, func(t *testing.T) { exactly(t, examined(t, test.urls...), test.want...) })
	}
	for _, r := range []*locktest.Redis{a, b, c, careless} {
		if keys := do(t, r, "KEYS", "*"); keys != "[]" {
			t.Errorf("it left %s", keys)
		}
	}
}

// TestExamineRights takes away one right after the other.
func TestExamineRights(t *testing.T) {
	node := lasting(t)
	const pair = "redis://u:s3cret@%s redis://u:s3cret@%s"
	urls := strings.Fields(fmt.Sprintf(pair, node.Addr(), strings.Replace(node.Addr(), "127.0.0.1", "localhost", 1)))
	setUser := func(rules string) {
		args := []any{"ACL", "SETUSER", "u", "reset", "on", ">s3cret"}
		for f := range strings.FieldsSeq(rules) {
			args = append(args, f)
		}
		do(t, node, args...)
	}
	blind := [2]string{"warn redis info", "grant +info"}
	same := [2]string{"fail redis distinct", "are one server"}

	// Without INFO, two names of one server are found out by the lock itself.
	setUser(rights)
	exactly(t, examined(t, urls...), even, blind, blind, same)
	setUser(rights + " +info")
	exactly(t, examined(t, urls[0]), single)
	exactly(t, examined(t, urls[0]+"/2"), single, [2]string{"fail redis reachable", "grant +select"})

	for right := range strings.FieldsSeq(rights) {
		lacks := right
		switch {
		case right == "+del":
			lacks = "+del perhaps +rpush +blpop, which can't be tried without +del"
		case !strings.HasPrefix(right, "+") && right != "~lockrun:*":
			continue
		}
		setUser(strings.Replace(rights+" +info", right, "", 1))
		exactly(t, examined(t, urls[0]), single, [2]string{"fail redis rights", "the user lacks " + lacks + "; "})
		// A key that can't be deleted ends by itself.
		for key := range strings.FieldsSeq(strings.Trim(do(t, node, "KEYS", "*"), "[]")) {
			if right != "+del" || do(t, node, "PTTL", key) == "-1" {
				t.Errorf("without %s it left %s", right, key)
			}
		}
		flush(t, []*locktest.Redis{node})
	}
}

// TestExamineOptions refuses what a run refuses.
func TestExamineOptions(t *testing.T) {
	for _, o := range []Options{{}, {URLs: []string{"h:1"}}, {URLs: []string{"redis://h"}, TLS: TLSFiles{CA: "x"}}} {
		if _, err := Examine(t.Context(), o); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}
}

func FuzzParseInfo(f *testing.F) {
	f.Add("# Server\r\nrun_id:abc\r\nrole:master\r\n\r\n#x:y")
	f.Fuzz(func(t *testing.T, text string) {
		for key, value := range parseInfo(text) {
			if strings.ContainsAny(key+value, "\n") || !strings.Contains(text, key+":"+value) {
				t.Errorf("%q gives %q: %q", text, key, value)
			}
		}
	})
}
