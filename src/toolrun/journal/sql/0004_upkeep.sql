-- What is not over: nothing of it is forgotten. A call that is made again answers its steps from the journal.
CREATE VIEW open_call (id) AS
WITH RECURSIVE found (id) AS (
  SELECT id FROM call WHERE state = 'started'
  UNION SELECT id FROM call WHERE state = 'in_doubt' AND settled_as IS NULL
  UNION SELECT id FROM call
    WHERE conversation IS NOT NULL AND conversation IN (SELECT id FROM conversation WHERE process IS NOT NULL)
  UNION SELECT call.id FROM call JOIN found ON call.parent = found.id WHERE call.parent IS NOT NULL
)
SELECT id FROM found;

-- What is done now and then by whoever has the file open, and when it was done last.
CREATE TABLE upkeep (
  task TEXT PRIMARY KEY,
  at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
