package app

// helpText is what --help prints: one screen.
const helpText = `lockrun runs a command once per name and date, on however many hosts wake up for it.

  lockrun [options] -- COMMAND [ARG...]
  lockrun init | version [options]                lockrun COMMAND --help tells more

What to run
  --name NAME            the job (required)
  --date DATE            its date: YYYY-MM-DD, -DDTHH, -DDTHH:MM, YYYY-Www, YYYY-MM, or today,
                         yesterday, this-hour, last-hour, this-week, last-week, this-month,
                         last-month, scheduled. Without it: mutual exclusion only
  --tz ZONE              time zone of those words                           [the process's]
  --day-starts HH:MM     earlier times belong to the day before                     [00:00]
  --rerun LIST           run again what ended as: failed,unknown,succeeded
Where it is known (all that LOCKRUN_POSTGRES etc. can say stands in lockrun(1))
  --redis URL            one for each independent Redis master (repeat it); or file:PATH
  --postgres DSN         URL or key=value; or file:PATH. Prepare it with lockrun init
  --local                this host only, no servers
  --state-dir DIR        the local store                               [/var/lib/lockrun]
  --quorum WORD          required, or preferred: go on without reachable Redis   [required]
  --redis-ca, --redis-cert, --redis-key FILE      TLS to Redis (rediss://)
How long
  --ttl DUR              lock and lease outlive their last renewal by this            [60s]
  --kill-after DUR       SIGTERM to SIGKILL when a lost child is ended      [10s, or less]
  --leftovers WORD       descendants that outlive the child: kill, wait, leave       [kill]
  -w, --wait DUR         wait this long for the current holder                         [0]
  -n, --nonblock         don't wait
  --max-runtime DUR      then SIGTERM, SIGKILL and exit 124
  --at-least DUR         keep the lease until this long after the start                [0]
What it says
  -E, --conflict-exit-code N   when held by another [75]     --done-exit-code N  when done [0]
  --holder TEXT          who holds, for people                                 [host name]
  -q, --quiet   errors only    -v, --verbose   each step    --log-format text|json
Exit: the child's own; 0 done already; 64 usage; 69 undecided; 70 lost; 71 system; 74 not recorded;
75 held; 77 refused; 78 set-up; 124 max-runtime; 126, 127 not executable, not found
`

const initHelp = `lockrun init makes the tables that a run needs, or changes nothing when they are there.

  lockrun init --postgres DSN     schema lockrun in that database, in one transaction
  lockrun init --postgres DSN --print   (or just --print) print the SQL, with roles and grants
  lockrun init --local [--state-dir DIR]

  --postgres DSN   URL or key=value; or file:PATH        LOCKRUN_POSTGRES
  --local          the store of this host                LOCKRUN_LOCAL
  --state-dir DIR  where that is                         LOCKRUN_STATE_DIR
  --print          print the SQL, touch nothing
`

const versionHelp = `lockrun version prints the version of the program and of its schema.
`
