-- The ledger takes writes from a run of eod-interest only, and only while that
-- run holds its lease.
CREATE TRIGGER lockrun_fence BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON posting
  FOR EACH STATEMENT EXECUTE FUNCTION lockrun.fence_trigger('eod-interest');
CREATE TRIGGER lockrun_fence BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON account
  FOR EACH STATEMENT EXECUTE FUNCTION lockrun.fence_trigger('eod-interest');
