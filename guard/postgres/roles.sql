-- The two roles. Neither can log in; they are granted to roles that can:
--   GRANT lockrun_runner TO the login role that lockrun connects as;
--   GRANT lockrun_job TO the login role that a job connects as, if it calls lockrun.fence().
DO $$
DECLARE
  wanted text;
BEGIN
  FOREACH wanted IN ARRAY ARRAY['lockrun_runner', 'lockrun_job'] LOOP
    IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = wanted) THEN
      BEGIN
        EXECUTE format('CREATE ROLE %I NOLOGIN', wanted);
      EXCEPTION WHEN duplicate_object OR unique_violation THEN
        NULL; -- roles belong to the whole cluster: another database was faster
      END;
    END IF;
  END LOOP;
END $$;

GRANT USAGE ON SCHEMA lockrun TO lockrun_runner, lockrun_job;
GRANT SELECT ON lockrun.meta TO lockrun_runner;
GRANT SELECT, INSERT, UPDATE ON lockrun.lease, lockrun.run, lockrun.attempt TO lockrun_runner;
GRANT DELETE ON lockrun.run TO lockrun_runner;
GRANT SELECT, INSERT ON lockrun.audit TO lockrun_runner;
GRANT EXECUTE ON FUNCTION lockrun.token_base() TO lockrun_runner;
GRANT EXECUTE ON FUNCTION lockrun.fence(uuid), lockrun.fence_trigger() TO lockrun_job;
