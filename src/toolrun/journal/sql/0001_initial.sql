-- Times are microseconds since 1970, for display only: durations are measured, and ids give the order.

CREATE TABLE process (
  id INTEGER PRIMARY KEY AUTOINCREMENT,  -- never used twice: it is also the byte that the process locks while it lives
  pid INTEGER NOT NULL,
  boot TEXT NOT NULL,
  consumer TEXT NOT NULL,
  version TEXT NOT NULL,
  started_at INTEGER NOT NULL,
  ended_at INTEGER
) STRICT;

CREATE TABLE tool (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  source TEXT NOT NULL,
  definition TEXT NOT NULL,              -- hash of what the tool said of itself
  UNIQUE (name, source, definition)
) STRICT;

CREATE TABLE call (
  id INTEGER PRIMARY KEY,                -- process << 32 | number of the call in it
  process INTEGER NOT NULL,              -- who runs it
  tool INTEGER NOT NULL,
  at INTEGER NOT NULL,
  state TEXT NOT NULL,
  effects TEXT,
  key BLOB,                              -- of the newest attempt only
  fingerprint BLOB,
  parent INTEGER,
  program INTEGER,
  conversation INTEGER,
  given_id TEXT,
  consumer TEXT NOT NULL,
  queued_us INTEGER,
  run_us INTEGER,
  attempt INTEGER NOT NULL DEFAULT 1,
  worker TEXT,
  error_kind TEXT,
  side_effects TEXT,
  error TEXT,
  arguments TEXT,                        -- as run
  withheld TEXT,                         -- 'hidden' or 'cut': why the arguments cannot be run again as they stand here
  original TEXT,                         -- as sent, where that differs
  repairs TEXT,
  dropped TEXT,
  result TEXT,
  approval INTEGER,
  ended_at INTEGER,                      -- of a call in doubt: since when it cannot act any more
  settled_as TEXT,
  settled_by TEXT,
  settled_at INTEGER
) STRICT;

CREATE INDEX call_at ON call (at);
CREATE INDEX call_tool ON call (tool, at);
CREATE INDEX call_conversation ON call (conversation, id) WHERE conversation IS NOT NULL;
CREATE INDEX call_parent ON call (parent) WHERE parent IS NOT NULL;
CREATE UNIQUE INDEX call_key ON call (key) WHERE key IS NOT NULL;
CREATE INDEX call_started ON call (process) WHERE state = 'started';
CREATE INDEX call_in_doubt ON call (at) WHERE state = 'in_doubt' AND settled_as IS NULL;
CREATE INDEX call_not_done ON call (at) WHERE state <> 'done';

CREATE TABLE answer (
  call INTEGER PRIMARY KEY,
  body TEXT NOT NULL
) STRICT;

CREATE TABLE gap (
  id INTEGER PRIMARY KEY,
  process INTEGER NOT NULL,
  started_at INTEGER NOT NULL,
  ended_at INTEGER NOT NULL,
  calls INTEGER NOT NULL,                -- that are not recorded
  reason TEXT NOT NULL
) STRICT;

CREATE TABLE utterance (
  source TEXT NOT NULL,
  id TEXT NOT NULL,
  at INTEGER NOT NULL,
  PRIMARY KEY (source, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE conversation (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  consumer TEXT NOT NULL,
  model TEXT NOT NULL,
  format TEXT NOT NULL,
  process INTEGER,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
) STRICT;

CREATE TABLE message (
  conversation INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  at INTEGER NOT NULL,
  role TEXT NOT NULL,
  body TEXT NOT NULL,
  PRIMARY KEY (conversation, seq)
) STRICT, WITHOUT ROWID;
