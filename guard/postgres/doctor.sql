-- What lockrun doctor wants to know of a server and a login, in one row. It reads catalogues only: none of it fails for
-- lack of rights.
SELECT pg_is_in_recovery() AS standby,
       current_setting('transaction_read_only') = 'on' AS read_only,
       current_setting('fsync') = 'on' AS fsync,
       current_setting('synchronous_commit') AS synchronous_commit,
       current_setting('synchronous_standby_names') AS standby_names,
       (SELECT count(*) FROM pg_stat_replication) AS standbys,
       pg_backend_pid() AS backend,
       clock_timestamp() AS now,
       n.oid IS NOT NULL AS has_schema,
       ARRAY(SELECT t FROM unnest($1::text[]) t
              WHERE NOT EXISTS (SELECT 1 FROM pg_class c WHERE c.relnamespace = n.oid AND c.relname = t)) AS lost_tables,
       ARRAY(SELECT w.privilege || ' on ' || w.what FROM (
               SELECT 0 AS place, 'USAGE' AS privilege, 'schema lockrun' AS what, has_schema_privilege(n.oid, 'USAGE') AS granted
               UNION ALL
               SELECT i, p, 'lockrun.' || t, has_table_privilege(c.oid, p)
                 FROM unnest($2::text[], $3::text[]) WITH ORDINALITY AS need (p, t, i)
                 JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = t
               UNION ALL
               SELECT 1000, 'EXECUTE', 'lockrun.token_base()', has_function_privilege(f.oid, 'EXECUTE')
                 FROM pg_proc f WHERE f.pronamespace = n.oid AND f.proname = 'token_base'
             ) w WHERE NOT w.granted ORDER BY w.place) AS lost_rights
  FROM (SELECT (SELECT oid FROM pg_namespace WHERE nspname = 'lockrun') AS oid) n
