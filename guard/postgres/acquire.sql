-- Takes the lease, the guard row of the date and the attempt, or nothing at all. Why it took nothing is asked
-- afterwards, by refusal.sql: a run is the first statement of a fresh session, which has to look up in the catalogs
-- each table, operator and function that stands here. So each one that isn't needed costs every run, and not only those
-- that are refused. (Thus no <>, no greatest(), no arithmetic that the caller can do.)
WITH lease AS (
  INSERT INTO lockrun.lease AS l (name, run_id, token, holder, pid, acquired_at, renewed_at, expires_at)
  SELECT @name::text, @run_id::uuid, lockrun.token_base() + 1, @holder::text, @pid::int,
         clock_timestamp(), clock_timestamp(), clock_timestamp() + @ttl::interval
   WHERE (SELECT version FROM lockrun.meta) = @schema::int
     AND @from::timestamptz <= clock_timestamp() AND @before::timestamptz > clock_timestamp() -- the date that was meant
     AND NOT EXISTS ( -- another run's guard row, that no word of --rerun opens again
           SELECT 1 FROM lockrun.run p
            WHERE p.name = @name::text AND p.run_date = @date::text AND NOT p.run_id = @run_id::uuid AND NOT p.state = ANY (@open::text[]))
     AND NOT EXISTS ( -- else everybody would queue behind the fence of a holder in good standing
           SELECT 1 FROM lockrun.lease o
            WHERE o.name = @name::text AND NOT o.run_id = @run_id::uuid AND o.expires_at > clock_timestamp())
  ON CONFLICT (name) DO UPDATE -- the clock anew, not EXCLUDED: that was read before the wait for the row
     SET run_id = EXCLUDED.run_id,
         token = CASE WHEN l.run_id = EXCLUDED.run_id THEN l.token WHEN l.token < EXCLUDED.token THEN EXCLUDED.token ELSE l.token + 1 END,
         holder = EXCLUDED.holder, pid = EXCLUDED.pid,
         acquired_at = clock_timestamp(), renewed_at = clock_timestamp(), expires_at = clock_timestamp() + @ttl::interval
   WHERE l.expires_at <= clock_timestamp() OR l.run_id = EXCLUDED.run_id
  RETURNING token
), guard AS (
  INSERT INTO lockrun.run AS r (name, run_date, state, run_id, attempt, started_at)
  SELECT @name::text, @date::text, 'running', @run_id::uuid,
         1 + coalesce((SELECT attempt FROM lockrun.attempt
                        WHERE name = @name::text AND run_date = @date::text AND NOT outcome = 'not_started'
                        ORDER BY attempt DESC LIMIT 1), 0),
         clock_timestamp()
    FROM lease WHERE @date::text IS NOT NULL
  ON CONFLICT (name, run_date) DO UPDATE
     SET state = 'running', run_id = EXCLUDED.run_id,
         attempt = CASE WHEN r.run_id = EXCLUDED.run_id THEN r.attempt WHEN r.attempt < EXCLUDED.attempt THEN EXCLUDED.attempt ELSE r.attempt + 1 END,
         started_at = clock_timestamp(), ended_at = NULL, exit_code = NULL, signal = NULL, reason = NULL
   WHERE r.run_id = EXCLUDED.run_id OR r.state = ANY (@open::text[])
  RETURNING attempt
), mine AS ( -- one that is there is an earlier copy's: of a run that has ended, or was undone, or asks for another date by now, it stays as it is
  INSERT INTO lockrun.attempt AS a (run_id, name, run_date, attempt, token, holder, host, pid, os_user, command, started_at, outcome, version)
  SELECT @run_id::uuid, @name::text, @date::text, coalesce(g.attempt, 1), l.token, @holder::text, @host::text, @pid::int,
         @os_user::text, @command::text[], clock_timestamp(), 'running', @version::text
    FROM lease l LEFT JOIN guard g ON true
   WHERE @date::text IS NULL OR g.attempt IS NOT NULL
  ON CONFLICT (run_id) DO UPDATE SET token = EXCLUDED.token
   WHERE a.outcome = 'running' AND a.name = EXCLUDED.name AND a.run_date IS NOT DISTINCT FROM EXCLUDED.run_date
  RETURNING attempt
)
SELECT l.token, m.attempt, extract(epoch FROM clock_timestamp()) AS at,
       -- The lease without the rest: while this statement waited, another run had the date, or this one was undone.
       -- All of it is rolled back, by a division by zero.
       1 / CASE WHEN m.attempt IS NULL THEN 0 ELSE 1 END AS whole
  FROM lease l LEFT JOIN mine m ON true
