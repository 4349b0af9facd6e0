-- What decides whether an attempt can still act, so that every process decides alike, whatever its configuration says.

ALTER TABLE tool ADD COLUMN place TEXT NOT NULL DEFAULT 'host';     -- where its body runs: host, worker, server, remote
ALTER TABLE tool ADD COLUMN settle_us INTEGER NOT NULL DEFAULT 0;   -- how long a server may act on what was given up

UPDATE tool SET place = 'server', settle_us = 30000000 WHERE source LIKE 'MCP server %';
UPDATE tool SET place = 'remote', settle_us = 30000000 WHERE source LIKE 'remote MCP server %';
