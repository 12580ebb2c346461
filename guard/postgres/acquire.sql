WITH clock AS MATERIALIZED ( -- read once, so that the check and the answer agree
  SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS us
), meta AS MATERIALIZED (
  SELECT count(*) AS n, max(version) AS version FROM lockrun.meta
), own AS ( -- an earlier copy of this statement was here
  SELECT outcome = 'running' AND name = @name::text AND run_date IS NOT DISTINCT FROM @date::text AS same
    FROM lockrun.attempt WHERE run_id = @run_id::uuid
), over AS ( -- and this one is late: the run has ended or was undone, or asks for another date by now
  SELECT 1 FROM own WHERE NOT same
), fit AS ( -- this program's schema, and the date that was meant
  SELECT 1 FROM clock, meta
   WHERE meta.n = 1 AND meta.version = @schema::int
     AND (@from_us::bigint IS NULL
          OR clock.us - @elapsed_us::bigint >= @from_us::bigint AND clock.us - @elapsed_us::bigint < @before_us::bigint
          OR EXISTS (SELECT 1 FROM own WHERE same))
), prior AS ( -- another run's guard row
  SELECT run_id, state, attempt, started_at, ended_at, exit_code, signal, reason
    FROM lockrun.run WHERE name = @name::text AND run_date = @date::text AND run_id <> @run_id::uuid
), shut AS ( -- that no word of --rerun opens again
  SELECT 1 FROM prior WHERE NOT CASE state WHEN 'running' THEN 'unknown' ELSE state END = ANY (@rerun::text[])
), lease AS (
  INSERT INTO lockrun.lease AS l (name, run_id, token, holder, pid, acquired_at, renewed_at, expires_at)
  SELECT @name::text, @run_id::uuid, lockrun.token_base() + 1, @holder::text, @pid::int,
         clock_timestamp(), clock_timestamp(), clock_timestamp() + @ttl_us::bigint * interval '1 microsecond'
   WHERE EXISTS (SELECT 1 FROM fit) AND NOT EXISTS (SELECT 1 FROM shut) AND NOT EXISTS (SELECT 1 FROM over)
     AND NOT EXISTS ( -- else everybody would queue behind the fence of a holder in good standing
           SELECT 1 FROM lockrun.lease o
            WHERE o.name = @name::text AND o.run_id <> @run_id::uuid AND o.expires_at > clock_timestamp())
  ON CONFLICT (name) DO UPDATE -- the clock anew, not EXCLUDED: that was read before the wait for the row
     SET run_id = EXCLUDED.run_id,
         token = CASE WHEN l.run_id = EXCLUDED.run_id THEN l.token ELSE greatest(l.token + 1, EXCLUDED.token) END,
         holder = EXCLUDED.holder, pid = EXCLUDED.pid,
         acquired_at = clock_timestamp(), renewed_at = clock_timestamp(),
         expires_at = clock_timestamp() + @ttl_us::bigint * interval '1 microsecond'
   WHERE l.expires_at <= clock_timestamp() OR l.run_id = EXCLUDED.run_id
  RETURNING token
), guard AS (
  INSERT INTO lockrun.run AS r (name, run_date, state, run_id, attempt, started_at)
  SELECT @name::text, @date::text, 'running', @run_id::uuid,
         1 + coalesce((SELECT max(attempt) FROM lockrun.attempt
                        WHERE name = @name::text AND run_date = @date::text AND outcome <> 'not_started'), 0),
         clock_timestamp()
    FROM lease WHERE @date::text IS NOT NULL
  ON CONFLICT (name, run_date) DO UPDATE
     SET state = 'running', run_id = EXCLUDED.run_id,
         attempt = CASE WHEN r.run_id = EXCLUDED.run_id THEN r.attempt ELSE greatest(r.attempt + 1, EXCLUDED.attempt) END,
         started_at = clock_timestamp(), ended_at = NULL, exit_code = NULL, signal = NULL, reason = NULL
   WHERE r.run_id = EXCLUDED.run_id
      OR CASE r.state WHEN 'running' THEN 'unknown' ELSE r.state END = ANY (@rerun::text[])
  RETURNING attempt
), mine AS (
  INSERT INTO lockrun.attempt AS a (run_id, name, run_date, attempt, token, holder, host, pid, os_user, command, started_at, outcome, version)
  SELECT @run_id::uuid, @name::text, @date::text, coalesce(g.attempt, 1), l.token, @holder::text, @host::text, @pid::int,
         @os_user::text, @command::text[], clock_timestamp(), 'running', @version::text
    FROM lease l LEFT JOIN guard g ON true
   WHERE @date::text IS NULL OR g.attempt IS NOT NULL
  ON CONFLICT (run_id) DO UPDATE SET token = EXCLUDED.token WHERE a.outcome = 'running'
  RETURNING attempt
), old AS ( -- the attempt that is run again and that never said how it ended
  UPDATE lockrun.attempt a SET outcome = 'unknown' FROM prior, guard WHERE a.run_id = prior.run_id AND a.outcome = 'running'
)
SELECT meta.n AS schema_rows, meta.version AS schema_version,
       EXISTS (SELECT 1 FROM fit) AS fit, EXISTS (SELECT 1 FROM over) AS over, clock.us AS at_us,
       (SELECT token FROM lease) AS token, (SELECT attempt FROM mine) AS attempt,
       -- The lease without the rest: while this statement waited, another run had the date, or this one was undone.
       -- All of it is rolled back, by a division by zero.
       CASE WHEN EXISTS (SELECT 1 FROM lease) AND NOT EXISTS (SELECT 1 FROM mine)
            THEN 1 / (SELECT count(*) FROM mine) END AS half,
       o.run_id::text AS seen_run, o.holder AS seen_holder, o.pid AS seen_pid, o.token AS seen_token,
       (extract(epoch FROM least(greatest(o.acquired_at, '0001-01-02 00:00:00+00'), '9999-12-31 00:00:00+00')) * 1000000)::bigint AS seen_since_us,
       (extract(epoch FROM least(greatest(o.expires_at, '0001-01-02 00:00:00+00'), '9999-12-31 00:00:00+00')) * 1000000)::bigint AS seen_until_us,
       o.expires_at > clock_timestamp() AS seen_live, o.expires_at > o.renewed_at + interval '7 days' AS seen_absurd,
       h.ended_at IS NOT NULL AS seen_ended, -- its run is over, --at-least keeps the lease
       p.run_id::text AS prior_run, p.state AS prior_state, p.attempt AS prior_attempt,
       (extract(epoch FROM least(greatest(p.started_at, '0001-01-02 00:00:00+00'), '9999-12-31 00:00:00+00')) * 1000000)::bigint AS prior_started_us,
       CASE WHEN p.ended_at IS NOT NULL THEN
       (extract(epoch FROM least(greatest(p.ended_at, '0001-01-02 00:00:00+00'), '9999-12-31 00:00:00+00')) * 1000000)::bigint END AS prior_ended_us,
       p.exit_code AS prior_exit_code, p.signal AS prior_signal, p.reason AS prior_reason,
       a.holder AS prior_holder, a.host AS prior_host, a.pid AS prior_pid, a.outcome AS prior_outcome
  FROM clock CROSS JOIN meta
  LEFT JOIN prior p ON true
  LEFT JOIN lockrun.attempt a ON a.run_id = p.run_id
  LEFT JOIN lockrun.lease o ON o.name = @name::text
  LEFT JOIN lockrun.attempt h ON h.run_id = o.run_id
