-- What tools logged while their calls ran, bounded: see toolrun/tools/call_log.py.
CREATE TABLE log_line (
  call INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  after_us INTEGER NOT NULL,      -- since the call came in
  level TEXT NOT NULL,
  text TEXT NOT NULL,
  PRIMARY KEY (call, seq)
) STRICT, WITHOUT ROWID;
