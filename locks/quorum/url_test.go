package quorum

import (
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"lockrun/locks"
	"lockrun/locks/locktest"
)

func TestParseURL(t *testing.T) {
	for text, want := range map[string]target{
		"redis://h":                    {name: "h:6379", key: "h:6379", network: "tcp", addr: "h:6379"},
		"REDIS://H.example.:07001/3":   {name: "H.example.:07001", key: "h.example:7001", network: "tcp", addr: "H.example.:07001", db: 3},
		"redis://:pw@h?db=2":           {name: "h:6379", key: "h:6379", network: "tcp", addr: "h:6379", password: "pw", db: 2},
		"redis://u@h/":                 {name: "h:6379", key: "h:6379", network: "tcp", addr: "h:6379", user: "u"},
		"rediss://u:p%40%2F%3A%25@h:1": {name: "h:1", key: "h:1", network: "tcp", addr: "h:1", user: "u", password: "p@/:%", tls: true},
		"redis://:a@b:c@h":             {name: "h:6379", key: "h:6379", network: "tcp", addr: "h:6379", password: "a@b:c"},
		"redis://:a,b@h":               {name: "h:6379", key: "h:6379", network: "tcp", addr: "h:6379", password: "a,b"},
		"redis://[::1]:7001":           {name: "[::1]:7001", key: "[::1]:7001", network: "tcp", addr: "[::1]:7001"},
		"redis://[0:0::1]:7001":        {name: "[0:0::1]:7001", key: "[::1]:7001", network: "tcp", addr: "[0:0::1]:7001"},
		"redis://[::ffff:10.0.0.1]":    {name: "[::ffff:10.0.0.1]:6379", key: "10.0.0.1:6379", network: "tcp", addr: "[::ffff:10.0.0.1]:6379"},
		"unix:///run/redis.sock?db=4":  {name: "unix:/run/redis.sock", key: "unix:/run/redis.sock", network: "unix", addr: "/run/redis.sock", db: 4},
		"unix://u:p@/run//a/../r.sock": {name: "unix:/run/r.sock", key: "unix:/run/r.sock", network: "unix", addr: "/run/r.sock", user: "u", password: "p"},
	} {
		if got, err := parseURL(text); err != nil || got != want {
			t.Errorf("%s: got %+v, %v, want %+v", text, got, err, want)
		}
	}
}

// TestMalformedURL puts every character that a password may hold into one, as
// it is, in several places of a URL. Whatever is made of it, nothing is shown.
func TestMalformedURL(t *testing.T) {
	var texts []string
	for _, c := range "@:/,%#? \t\n\x00\"'\\[]{}<>^`|;&=+$!*()é" {
		secret := "12" + string(c) + "s3cret"
		texts = append(texts, "redis://:"+secret+"@h:6379/0", "redis://u:"+secret+"@h", "redis://"+secret+"@h",
			secret, "redis://h/"+secret, "redis://h/0?"+secret+"=1", "redis://h?db="+secret, "rediss:"+secret)
	}
	texts = append(texts, "redis://:s3cret@h1:1,h2:2", "redis://:s3cret@", "redis://:s3cret@h:0", "redis://:s3cret@h:65536",
		"http://:s3cret@h", "redis://:s3cret@h/-1", "redis://:s3cret@h/1?db=1", "unix://:s3cret@h/path", "unix:s3cret", "", "h:6379", "/run/s3cret.sock")
	refusals := 0
	for _, text := range texts {
		_, err := New(Options{URLs: []string{"redis://ok", text}})
		if err == nil {
			// It was read as something: then the password must be all of it.
			u, _ := url.Parse(text)
			if p, _ := u.User.Password(); !strings.HasSuffix(u.User.Username()+p, "s3cret") {
				t.Errorf("%q was taken for another URL", text)
			}
			continue
		}
		refusals++
		var option *OptionError
		if !errors.As(err, &option) || option.Flag != "--redis no. 2" || strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v", text, err)
		}
	}
	if refusals < 100 {
		t.Errorf("only %d of %d were refused", refusals, len(texts))
	}
}

func TestParameters(t *testing.T) {
	_, err := New(Options{URLs: []string{"rediss://h?skip_verify=true"}})
	if err == nil {
		t.Fatal("skip_verify was taken")
	}
	must(t, err.Error(), "--redis no. 1", "skip_verify", "is not taken")
	for _, p := range []string{"max_retries=3", "read_timeout=0", "pool_size=1", "tls=no", "protocol=3"} {
		if _, err := New(Options{URLs: []string{"redis://h?" + p}}); err == nil {
			t.Errorf("%s was taken", p)
		}
	}
}

func TestDuplicates(t *testing.T) {
	for _, pair := range [][2]string{
		{"redis://h", "redis://H:6379"},
		{"redis://h", "redis://h."},
		{"redis://h", "rediss://u:p@h/3"},
		{"redis://h/1", "redis://h/2"},
		{"redis://[::1]", "redis://[0:0:0:0:0:0:0:1]:6379"},
		{"redis://127.0.0.1", "redis://[::ffff:127.0.0.1]"},
		{"unix:///run/r.sock", "unix:///run/./r.sock?db=1"},
	} {
		_, err := New(Options{URLs: []string{"redis://other", pair[0], pair[1]}})
		var setup *locks.SetupError
		if !errors.As(err, &setup) {
			t.Errorf("%v: %v", pair, err)
			continue
		}
		must(t, err.Error(), "--redis no. 3", "--redis no. 2")
	}
	// What only a look-up could tell is left to others.
	for _, pair := range [][2]string{{"redis://localhost", "redis://127.0.0.1"}, {"redis://h:1", "redis://h:2"}} {
		q, err := New(Options{URLs: pair[:]})
		if err != nil {
			t.Errorf("%v: %v", pair, err)
			continue
		}
		q.Close()
	}
}

// TestNewOpensNothing uses names and addresses that nobody answers for.
func TestNewOpensNothing(t *testing.T) {
	server := locktest.StartRedis(t)
	before := do(t, server, "INFO", "stats")
	open(t, time.Minute, []string{server.URL(), "redis://no-such-host.invalid", "redis://192.0.2.1"})
	after := do(t, server, "INFO", "stats")
	if a, b := field(t, before, "total_connections_received"), field(t, after, "total_connections_received"); b != a+1 {
		t.Errorf("%d connections before, %d after, of which one is the test's own", a, b)
	}
}
