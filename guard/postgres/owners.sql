-- What of the schema lockrun belongs to a role that the current one has no reason to trust: whoever owns a table or a
-- function there decides what runs with the rights of lockrun's login. Trusted are superusers, the owner of the
-- database, and the current role with those it is a member of; a superuser is a member of all, which says nothing.
SELECT o.what, r.rolname, me.rolsuper
  FROM (SELECT 1 AS place, 'schema lockrun' AS what, nspowner AS owner FROM pg_namespace WHERE nspname = 'lockrun'
        UNION ALL
        SELECT 2, 'table lockrun.' || relname, relowner FROM pg_class WHERE relnamespace = to_regnamespace('lockrun') AND relkind <> 'i'
        UNION ALL
        SELECT 3, 'function lockrun.' || proname, proowner FROM pg_proc WHERE pronamespace = to_regnamespace('lockrun')) o
  JOIN pg_roles r ON r.oid = o.owner
  CROSS JOIN (SELECT oid, rolsuper FROM pg_roles WHERE rolname = current_user) me
 WHERE NOT (r.rolsuper OR r.rolname = 'pg_database_owner' OR r.oid = (SELECT datdba FROM pg_database WHERE datname = current_database())
            OR r.oid = me.oid OR NOT me.rolsuper AND pg_has_role(me.oid, r.oid, 'MEMBER'))
 ORDER BY o.place, o.what LIMIT 1
