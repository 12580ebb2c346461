package app

// helpText is what --help prints: one screen.
const helpText = `lockrun runs a command once per name and date, on however many hosts wake up for it.

  lockrun [options] -- COMMAND [ARG...]               (lockrun status --help etc. tell more)
  lockrun init | status | history | resolve | release | doctor | completion | version [options]

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
  --state-dir DIR        the local store, and the outbox               [/var/lib/lockrun]
  --config FILE          options by their long names         [/etc/lockrun.yaml if there]
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
  --export-pgoptions     the run's id in the command's PGOPTIONS, for lockrun.fence_trigger()
  -q, --quiet  errors only   -v, --verbose  each step   --log-format text|json   -V, --version
Exit: the child's own; 0 done already; 64 usage; 69 undecided; 70 lost; 71 system; 74 not recorded;
75 held; 77 refused; 78 set-up; 124 max-runtime; 126, 127 not executable, not found
`

const initHelp = `lockrun init makes the tables that a run needs, upgrades those of an older lockrun, or changes
nothing when they are there.

  lockrun init --postgres DSN     schema lockrun in that database, in one transaction
  lockrun init --postgres DSN --print   (or just --print) print the SQL, with roles and grants
  lockrun init --local [--state-dir DIR]

  --postgres DSN   URL or key=value; or file:PATH        LOCKRUN_POSTGRES
  --local          the store of this host                LOCKRUN_LOCAL
  --state-dir DIR  where that is                         LOCKRUN_STATE_DIR
  --config FILE    these options and others              LOCKRUN_CONFIG
  --print          print the SQL, touch nothing
`

const versionHelp = `lockrun version prints the version of the program and of its schema.
`

// recordOptions are those of every command on the record.
const recordOptions = `  --postgres DSN   URL or key=value; or file:PATH        LOCKRUN_POSTGRES
  --local          the store of this host                LOCKRUN_LOCAL
  --state-dir DIR  where that is                         LOCKRUN_STATE_DIR
  --config FILE    these and all other options           LOCKRUN_CONFIG
  --json           an array of objects, for scripts
`

const statusHelp = `lockrun status tells who holds what, and the latest date of each name. Runs that nobody knows
the end of are listed whatever their date. With --name, also a lock in Redis that has no lease.

  lockrun status [--name NAME] [options]

  --name NAME      this one only; exit 1 when it is not known
  --redis URL      where its lock is (repeat it); or file:PATH   LOCKRUN_REDIS
  --redis-ca, --redis-cert, --redis-key FILE      TLS to Redis
` + recordOptions

const historyHelp = `lockrun history lists the attempts of a name, newest first, or the dates without a success.

  lockrun history --name NAME [--since DATE] [--until DATE] [--missing UNIT] [options]

  --name NAME      whose; exit 1 when it is not known
  --since, --until DATE   as for a run; the dates themselves belong to the time
  --missing UNIT   the dates without a success: day, weekday, hour, week, month; exit 1 if there
                   are any. From the first date that is known to the last complete one
  --tz ZONE        time zone of dates                    LOCKRUN_TZ
  --day-starts HH:MM   as for a run                      LOCKRUN_DAY_STARTS
` + recordOptions

const resolveHelp = `lockrun resolve decides a date that failed or that nobody knows the end of. Who did it, when and
why goes to the audit. While that run holds its lease: exit 75. No such date: exit 1. Results that
wait in the outbox of this user on this host are stored first, and may decide it.

  lockrun resolve --name NAME --date DATE --as WORD --reason TEXT [options]
  lockrun resolve --outbox [options]

  --name NAME, --date DATE   which; a word such as yesterday is taken by the store's clock
  --as WORD        succeeded, failed, or rerun: open the date for one more attempt
  --reason TEXT    why
  --outbox         store what runs of this user on this host could not store; exit 74 when some
                   of it is kept
  --tz ZONE        time zone of a word                   LOCKRUN_TZ
  --day-starts HH:MM   as for a run                      LOCKRUN_DAY_STARTS
` + recordOptions

const releaseHelp = `lockrun release ends the lease of a holder that has missed a renewal, or one that is absurdly
long, and removes its Redis key. One in good standing keeps its lease (exit 75) without --force.
A lock in Redis of a run that died before it had a lease is removed too. The date of that run
stays taken: see lockrun resolve.

  lockrun release --name NAME --reason TEXT [--force] [options]

  --name NAME      whose; exit 1 when it is not known
  --reason TEXT    why, for the audit
  --force          end it although the holder may be alive: then two may run at once until it
                   notices, within one ttl. End its lockrun on its host instead, if you can
  --redis URL      where the key is (repeat it); or file:PATH   LOCKRUN_REDIS
  --redis-ca, --redis-cert, --redis-key FILE      TLS to Redis
` + recordOptions
