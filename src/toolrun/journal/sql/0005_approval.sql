-- Requests for approval, and what was answered. See approval_row.py for the states.
CREATE TABLE approval (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  state TEXT NOT NULL,
  fingerprint BLOB NOT NULL,      -- of the tool, its definition and the exact arguments
  conversation TEXT NOT NULL,     -- empty: none
  tool TEXT NOT NULL,
  source TEXT NOT NULL,
  definition TEXT NOT NULL,
  arguments TEXT NOT NULL,        -- as they may be shown
  withheld TEXT,                  -- 'hidden' or 'cut'
  reason TEXT NOT NULL,           -- why somebody is asked
  consumer TEXT NOT NULL,
  asked_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,    -- for a request: until when it can be answered; for an answer: be used
  scope TEXT,
  edited TEXT,                    -- the arguments to use instead
  comment TEXT,                   -- why it was denied
  answered_by TEXT,
  answered_at INTEGER
) STRICT;

CREATE UNIQUE INDEX approval_pending ON approval (fingerprint, conversation) WHERE state = 'pending';
CREATE INDEX approval_answered ON approval (fingerprint) WHERE state IN ('allowed', 'denied');
CREATE INDEX approval_open ON approval (expires_at) WHERE state IN ('pending', 'allowed', 'denied');
CREATE INDEX approval_asked ON approval (asked_at);
CREATE INDEX call_approval ON call (approval) WHERE approval IS NOT NULL;
