package app

const doctorHelp = `lockrun doctor checks the ground that runs with the same options stand on: a line for each check,
ok, warn or fail, where, and what to do about it. It changes nothing (a lock of a made-up name is
taken and given back, a file is made and removed) and takes a few seconds at most.

  lockrun doctor --postgres DSN [--redis URL]...
  lockrun doctor --local [--state-dir DIR]

  --redis URL      each independent master once; or file:PATH           LOCKRUN_REDIS
  --redis-ca, --redis-cert, --redis-key FILE      LOCKRUN_REDIS_CA, _CERT, _KEY
  --postgres DSN   URL or key=value; or file:PATH                       LOCKRUN_POSTGRES
  --local          the store of this host                               LOCKRUN_LOCAL
  --state-dir DIR  where that is                                        LOCKRUN_STATE_DIR
  --ttl DUR, --kill-after DUR   those of your runs: latencies are judged by the ttl
  --config FILE    the options by their long names                      LOCKRUN_CONFIG
  --json           an array of objects: check, status, text

Redis: reachable, one server each, masters without replicas, no eviction, persistence, rights,
latency. The login needs +info besides the rights of a run, or less can be seen.
Postgres: reachable, writable, schema and rights, durability, standbys, pooler, latency, clock.
Exit: 0 also with warnings, 78 if a check fails, 64 usage
`
