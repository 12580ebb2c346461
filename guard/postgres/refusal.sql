-- What stood in the way of an acquire that took nothing.
WITH clock AS MATERIALIZED ( -- read once, so that the check and the answer agree
  SELECT clock_timestamp() AS now
), meta AS MATERIALIZED (
  SELECT count(*) AS n, max(version) AS version FROM lockrun.meta
), own AS ( -- an earlier copy of the acquire was here
  SELECT outcome = 'running' AND name = @name::text AND run_date IS NOT DISTINCT FROM @date::text AS same
    FROM lockrun.attempt WHERE run_id = @run_id::uuid
), prior AS ( -- another run's guard row
  SELECT run_id, state, attempt, started_at, ended_at, exit_code, signal, reason
    FROM lockrun.run WHERE name = @name::text AND run_date = @date::text AND run_id <> @run_id::uuid
)
SELECT meta.n AS schema_rows, meta.version AS schema_version,
       clock.now >= @from::timestamptz AND clock.now < @before::timestamptz AS fit,
       EXISTS (SELECT 1 FROM own WHERE same) AS own,
       EXISTS (SELECT 1 FROM own WHERE NOT same) AS over, -- the run has ended or was undone, or asks for another date by now
       (extract(epoch FROM clock.now) * 1000000)::bigint AS at_us,
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
