package blackbox

import (
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
)

// forms lists every way of giving the passwords that works.
func (v *vault) forms() []given {
	dsn, node := v.dsn("keeper", password, v.host, v.database), v.nodeURL(password, v.node)
	port := fmt.Sprint(v.pg.Port())
	pairs := "host=127.0.0.1 port=" + port + " user=keeper dbname=postgres sslmode=disable"
	open := v.dsn("keeper", "", v.host, v.database)
	open = strings.Replace(open, "keeper:@", "keeper@", 1)
	nodes := v.file("redis", node+"\n", 0o600)
	return []given{
		{"flag", []string{"--postgres", dsn, "--redis", node}, nil},
		{"flag_with_equals", []string{"--postgres=" + dsn, "--redis=" + node}, nil},
		{"pairs", []string{"--postgres", pairs + " password='" + password + "'", "--redis", node}, nil},
		{"env", nil, []string{"LOCKRUN_POSTGRES=" + dsn, "LOCKRUN_REDIS=" + node}},
		{"file", []string{"--postgres", "file:" + v.file("dsn", dsn, 0o600), "--redis", "file:" + nodes}, nil},
		{"file_env", nil, []string{"LOCKRUN_POSTGRES=file:" + v.file("dsn", dsn, 0o600), "LOCKRUN_REDIS=file:" + nodes}},
		{"config", []string{"--config", v.file("config.yaml", fmt.Sprintf("postgres: %q\nredis: [%q]\n", dsn, node), 0o600)}, nil},
		{"pgpassword", []string{"--postgres", open, "--redis", "file:" + nodes}, []string{"PGPASSWORD=" + password}},
		{"passfile", []string{"--postgres", open, "--redis", "file:" + nodes}, []string{
			"PGPASSFILE=" + v.file("pgpass", "*:*:*:keeper:"+strings.ReplaceAll(password, ":", `\:`)+"\n", 0o600)}},
	}
}

func (v *vault) nodeURL(pass, host string) string {
	return (&url.URL{Scheme: "redis", User: url.UserPassword("", pass), Host: host}).String()
}

// faults lists ways of giving them that don't, with the exit code of a run.
func (v *vault) faults() map[string]given {
	dsn, node := v.dsn("keeper", password, v.host, v.database), v.nodeURL(password, v.node)
	good := []string{"--postgres", dsn}
	readable := v.file("readable", dsn, 0o644)
	args := func(args ...string) given { return given{args: args} }
	return map[string]given{
		"78 postgres login":           args("--postgres", v.dsn("keeper", wrong, v.host, v.database)),
		"78 postgres user":            args("--postgres", v.dsn("nobody", wrong, v.host, v.database)),
		"78 postgres database":        args("--postgres", v.dsn("keeper", password, v.host, "nowhere")),
		"69 postgres refused":         args("--ttl", "3s", "--postgres", v.dsn("keeper", password, "127.0.0.1:1", "x")),
		"69 postgres no such host":    args("--ttl", "3s", "--postgres", v.dsn("keeper", password, "no-such-host.invalid", "x")),
		"78 postgres no TLS":          args("--postgres", strings.Replace(dsn, "=disable", "=require", 1)),
		"64 postgres raw URL":         args("--postgres", "postgres://keeper:"+password+"@"+v.host+"/postgres"),
		"64 postgres raw URL, env":    {env: []string{"LOCKRUN_POSTGRES=postgres://keeper:" + password + "@" + v.host}},
		"64 postgres pairs, no quote": args("--postgres", "host=127.0.0.1 user=keeper password="+password),
		"64 postgres pairs, no end":   args("--postgres", "host=127.0.0.1 password='"+password),
		"64 postgres keyword":         args("--postgres", dsn+"&passwort="+password),
		"64 postgres port":            args("--postgres", v.dsn("keeper", password, "127.0.0.1:http", "x")),
		"64 postgres twice":           args("--postgres", dsn, "--postgres", dsn),
		"64 word after":               args("--postgres", "postgres://keeper:S3CRETa", "S3CRETb@"+v.host),
		"64 words of pairs":           args("--postgres", "host=127.0.0.1", "user=keeper", "password=S3CRETa", "S3CRETb"),
		"64 plain word":               args("--postgres", "host=127.0.0.1 password=S3CRETa", "S3CRETb"),
		"64 unknown option":           args("--postgress", dsn),
		"64 unknown option =":         args("--postgress=" + dsn),
		"64 short":                    args("-p" + dsn),
		"64 malformed":                args("---postgres=" + dsn),
		"64 missing file":             args("--postgres", "file:"+filepath.Join(v.dir, "missing")),
		"78 readable file":            args("--postgres", "file:"+readable),
		"78 readable config":          args("--config", v.file("config-readable", fmt.Sprintf("postgres: %q\n", dsn), 0o644)),
		"64 config key":               args("--config", v.file("config-key", fmt.Sprintf("postgress: %q\n", dsn), 0o600)),
		"64 config no YAML":           args("--config", v.file("config-yaml", "postgres: ["+dsn+"\n"+password, 0o600)),
		"64 config no mapping":        args("--config", v.file("config-text", dsn, 0o600)),
		"64 config nested":            args("--config", v.file("config-nested", fmt.Sprintf("postgres: {url: %q}\n", dsn), 0o600)),
		"64 config raw":               args("--config", v.file("config-raw", "postgres: postgres://keeper:"+password+"@h/d", 0o600)),
		"78 readable passfile": {args: []string{"--postgres", "postgres://keeper@" + v.host + "/postgres"},
			env: []string{"PGPASSFILE=" + v.file("pgpass-readable", "*:*:*:*:S3CRET\n", 0o644)}},
		"78 redis login":        args(append(good, "--redis", v.nodeURL(wrong, v.node))...),
		"69 redis refused":      args(append(good, "--redis", v.nodeURL(password, "127.0.0.1:1"))...),
		"78 redis twice":        args(append(good, "--redis", node, "--redis", node+"/1")...),
		"64 redis raw URL":      args(append(good, "--redis", "redis://:"+password+"@"+v.node)...),
		"64 redis no scheme":    args(append(good, "--redis", ":"+password+"@"+v.node)...),
		"64 redis parameter":    args(append(good, "--redis", node+"?password="+password)...),
		"64 redis scheme":       args(append(good, "--redis", strings.Replace(node, "redis", "S3CRET", 1))...),
		"64 redis database":     args(append(good, "--redis", node+"/S3CRET")...),
		"64 redis raw URL, env": {args: good, env: []string{"LOCKRUN_REDIS=redis://:" + password + "@" + v.node}},
		"64 redis alone":        args("--redis", node),
		"64 redis TLS files":    args(append(good, "--redis", node, "--redis-ca", readable)...),
		"69 redis TLS":          args(append(good, "--ttl", "3s", "--redis", strings.Replace(node, "redis:", "rediss:", 1))...),
		"64 local too":          args(append(good, "--local")...),
	}
}
