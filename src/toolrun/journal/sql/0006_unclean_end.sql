-- Processes that have not said that they end: those that run, and those that were killed since the file was checked.
CREATE INDEX process_open ON process (id) WHERE ended_at IS NULL;
