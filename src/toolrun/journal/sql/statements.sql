-- Every statement that toolrun runs on a journal, apart from the migrations beside this file.

-- name: register_process
INSERT INTO process (id, pid, boot, consumer, version, started_at) VALUES (?, ?, ?, ?, ?, ?);

-- name: process_ended
UPDATE process SET ended_at = ? WHERE id = ?;

-- name: process_goes_on
UPDATE process SET ended_at = NULL WHERE id = ? AND pid = ? AND boot = ? AND started_at = ?;

-- name: open_processes
SELECT id FROM process WHERE ended_at IS NULL;

-- name: note_lost_process
UPDATE process SET ended_at = ? WHERE id = ? AND ended_at IS NULL;

-- name: process_exists
SELECT 1 FROM process WHERE id = ?;

-- name: first_process
SELECT started_at FROM process ORDER BY id LIMIT 1;

-- name: processes_before
SELECT id, pid, boot, started_at FROM process WHERE ended_at IS NULL AND started_at < ?;

-- name: add_tool
INSERT INTO tool (name, source, definition, place, settle_us) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (name, source, definition) DO UPDATE SET place = excluded.place, settle_us = excluded.settle_us
WHERE place <> excluded.place OR settle_us <> excluded.settle_us;

-- name: find_tool
SELECT id FROM tool WHERE name = ? AND source = ? AND definition = ?;

-- name: add_started_calls
-- What stands in braces is repeated for each row, and for empty ones up to a size that is compiled already.
INSERT INTO call (id, tool, at, effects, given_id, consumer, queued_us, worker, arguments, process, state)
SELECT * FROM (VALUES {(?, ?, ?, ?, ?, ?, ?, ?, ?, process, 'started')}) WHERE column1 IS NOT NULL;

-- name: add_done_calls
INSERT INTO call (id, tool, at, effects, given_id, consumer, queued_us, run_us, arguments, result, process, state)
SELECT * FROM (VALUES {(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, process, 'done')}) WHERE column1 IS NOT NULL;

-- name: add_ended_calls
-- The same for calls that had a start: those ran elsewhere than in the caller's task.
INSERT INTO call (
  id, tool, at, effects, given_id, consumer, queued_us, worker, run_us, arguments, result, process, state
) SELECT * FROM (VALUES {(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, process, 'done')}) WHERE column1 IS NOT NULL;

-- name: end_calls
UPDATE call SET state = 'done', run_us = ended.run_us, worker = ended.worker, result = ended.result
FROM (WITH ended (id, at, run_us, worker, result) AS (VALUES {(?, ?, ?, ?, ?)}) SELECT * FROM ended) AS ended
WHERE call.id = ended.id AND call.at = ended.at AND call.state = 'started';

-- name: write_calls
-- `at` tells two calls apart that have one id, which may be after the file was replaced while calls ran.
-- Somebody may have taken this process for dead: it knows better, unless somebody has acted upon that.
INSERT INTO call (
  id, process, tool, at, state, effects, key, fingerprint, parent, conversation, given_id, consumer, queued_us,
  run_us, attempt, worker, error_kind, side_effects, error, arguments, withheld, original, repairs, dropped, result,
  approval
) SELECT * FROM (VALUES {rows}) WHERE column1 IS NOT NULL
ON CONFLICT (id) DO UPDATE SET
  state = excluded.state,
  run_us = excluded.run_us,
  worker = excluded.worker,
  error_kind = excluded.error_kind,
  side_effects = excluded.side_effects,
  error = excluded.error,
  result = excluded.result
WHERE call.at = excluded.at
  AND (call.state = 'started' OR call.error_kind = 'host_lost' AND call.settled_as IS NULL)
ON CONFLICT DO NOTHING;

-- name: keep_answer
INSERT OR REPLACE INTO answer (call, body) VALUES (?, ?);

-- name: add_log_line
INSERT OR IGNORE INTO log_line (call, seq, after_us, level, text) VALUES (?, ?, ?, ?, ?);

-- name: log_lines
SELECT after_us, level, text FROM log_line WHERE call = ? ORDER BY seq;

-- name: delete_log_lines
DELETE FROM log_line WHERE call = ?;

-- name: add_result
UPDATE call SET result = ? WHERE id = ?;

-- name: count_calls
SELECT count(*) FROM call WHERE at >= ?2 AND process = ?1;

-- name: add_gap
INSERT INTO gap (process, started_at, ended_at, calls, reason) VALUES (?, ?, ?, ?, ?);

-- name: owners_of_started
SELECT DISTINCT process FROM call WHERE state = 'started';

-- name: doubt_calls_of
UPDATE call SET
  state = CASE WHEN effects IN ('none', 'idempotent') THEN 'failed' ELSE 'in_doubt' END,
  error_kind = 'host_lost',
  error = 'The process that ran the call ended before the call did',
  side_effects = CASE WHEN effects IN ('none', 'idempotent') THEN 'failed' ELSE 'unknown' END
WHERE state = 'started' AND process = ?;

-- name: find_key
SELECT call.id, call.process, call.state, call.fingerprint, call.attempt, call.at, call.effects, call.settled_as,
  call.error, call.ended_at, call.at + coalesce(call.queued_us, 0) + coalesce(call.run_us, 0), tool.place,
  tool.settle_us, tool.name, answer.body
FROM call JOIN tool ON tool.id = call.tool LEFT JOIN answer ON answer.call = call.id
WHERE call.key = ?;

-- name: key_of
SELECT call.key, process.pid, process.boot
FROM call LEFT JOIN process ON process.id = call.process
WHERE call.id = ?;

-- name: give_up_key
-- The next attempt acts under the same key, or repeats what does no harm: nobody need settle this one any more.
UPDATE call SET
  key = NULL,
  settled_as = CASE WHEN state = 'in_doubt' THEN coalesce(settled_as, 'repeated') ELSE settled_as END,
  settled_by = CASE WHEN state = 'in_doubt' THEN coalesce(settled_by, 'retry') ELSE settled_by END,
  settled_at = CASE WHEN state = 'in_doubt' THEN coalesce(settled_at, CAST(strftime('%s', 'now') AS INTEGER) * 1000000)
    ELSE settled_at END
WHERE id = ?;

-- name: settle
UPDATE call SET settled_as = ?, settled_by = ?, settled_at = ?
WHERE id = ? AND state = 'in_doubt' AND settled_as IS NULL;

-- name: attempt_ended
UPDATE call SET ended_at = ? WHERE id = ? AND ended_at IS NULL;

-- name: delete_old_calls
-- The newest calls stay, and what is not over.
DELETE FROM call WHERE id IN (
  SELECT id FROM call
  WHERE at < ?1 AND id NOT IN (SELECT id FROM call ORDER BY at DESC LIMIT ?2) AND id NOT IN (SELECT id FROM open_call)
  ORDER BY at LIMIT ?3
)
RETURNING id;

-- name: forget_old_keys
-- The same calls keep their keys.
UPDATE call SET key = NULL WHERE id IN (
  SELECT id FROM call
  WHERE key IS NOT NULL AND at < ?1 AND id NOT IN (SELECT id FROM call ORDER BY at DESC LIMIT ?2)
    AND id NOT IN (SELECT id FROM open_call)
  LIMIT ?3
)
RETURNING id;

-- name: upkeep_done
SELECT at FROM upkeep WHERE task = ?;

-- name: note_upkeep
INSERT INTO upkeep (task, at) VALUES (?, ?) ON CONFLICT (task) DO UPDATE SET at = excluded.at;

-- name: delete_answer
DELETE FROM answer WHERE call = ?;

-- name: select_calls
SELECT call.id, call.process, tool.name AS tool, tool.source, tool.definition, tool.place, tool.settle_us, call.at,
  call.state, call.effects, call.parent,
  (SELECT name FROM conversation WHERE conversation.id = call.conversation), call.given_id, call.consumer,
  call.queued_us, call.run_us, call.attempt, call.worker,
  call.error_kind, call.side_effects, call.error, call.arguments, call.withheld, call.original, call.repairs,
  call.dropped, call.result, call.settled_as, call.settled_by, call.settled_at, call.ended_at, call.key IS NOT NULL AS has_key,
  EXISTS (SELECT 1 FROM answer WHERE answer.call = call.id) AS has_answer, nullif(lower(hex(call.key)), '') AS key,
  call.approval
FROM call JOIN tool ON tool.id = call.tool
WHERE {where}
ORDER BY call.at DESC, call.id DESC
LIMIT :limit;

-- name: page_of_calls
-- Without what may be long. Values in braces are conditions with literals, so that SQLite finds an index.
SELECT call.id, tool.name, tool.source, call.at, call.process, call.state, call.error_kind, call.settled_as,
  call.effects, call.side_effects, call.consumer,
  (SELECT name FROM conversation WHERE conversation.id = call.conversation), call.parent, call.queued_us, call.run_us,
  call.attempt, call.worker, call.repairs IS NOT NULL, call.dropped IS NOT NULL, substr(call.arguments, 1, 200),
  substr(call.result, 1, 200), substr(call.error, 1, 200)
FROM call JOIN tool ON tool.id = call.tool
WHERE call.id IN (SELECT call.id FROM call WHERE {where} ORDER BY call.at DESC, call.id DESC LIMIT :limit)
ORDER BY call.at DESC, call.id DESC;

-- name: end_of_scan
-- Where a search that looks at so many calls stops.
SELECT call.at, call.id FROM call WHERE {where} ORDER BY call.at DESC, call.id DESC LIMIT 1 OFFSET :scan;

-- name: calls_by_tool
SELECT tool.name, sum(counted.calls) FROM (SELECT tool, count(*) AS calls FROM call GROUP BY tool) AS counted
JOIN tool ON tool.id = counted.tool GROUP BY tool.name;

-- name: failures_by_tool
SELECT tool.name, count(*) FROM call JOIN tool ON tool.id = call.tool
WHERE call.state <> 'done' AND call.state <> 'started' AND call.settled_as IS NOT 'done' GROUP BY tool.name;

-- name: last_durations
SELECT tool.name, recent.run_us FROM (SELECT tool, run_us, state FROM call ORDER BY at DESC LIMIT ?) AS recent
JOIN tool ON tool.id = recent.tool WHERE recent.state = 'done' AND recent.run_us IS NOT NULL;

-- name: count_calls_where
SELECT count(*) FROM call WHERE {where};

-- name: outcomes_over_time
-- By span. Of the calls that ran on beyond the span in which they began, beginning and duration.
SELECT slot, state, error_kind, settled, in_worker, count(*), sum(is_repaired), group_concat(run_us),
  sum(CASE WHEN run_us <= rest THEN run_us END),
  group_concat(CASE WHEN run_us > rest THEN at || ' ' || run_us END)
FROM (
  SELECT (at - ?1) / ?3 AS slot, state, error_kind, CASE WHEN state = 'in_doubt' THEN settled_as END AS settled,
    repairs IS NOT NULL AS is_repaired, worker IS NOT NULL AS in_worker, run_us, at, ?3 - (at - ?1) % ?3 AS rest
  FROM call
  WHERE at >= ?1 AND at < ?2 AND (?4 = '' OR tool IN (SELECT id FROM tool WHERE name = ?4))
)
GROUP BY slot, state, error_kind, settled, in_worker;

-- name: calls_by_outcome
-- `settled_as` stands behind what may be long: it is read only where it says something.
SELECT tool.name, found.state, found.error_kind, found.settled, found.calls, found.times, found.longest, found.id
FROM (
  SELECT tool, state, error_kind, CASE WHEN state = 'in_doubt' THEN settled_as END AS settled,
    count(*) AS calls, group_concat(run_us) AS times, max(run_us) AS longest, id
  FROM call
  WHERE at >= ?1 AND (?2 = '' OR tool IN (SELECT id FROM tool WHERE name = ?2))
  GROUP BY tool, state, error_kind, settled
) AS found JOIN tool ON tool.id = found.tool;

-- name: repairs_since
SELECT tool.name, call.repairs FROM call JOIN tool ON tool.id = call.tool
WHERE call.repairs IS NOT NULL AND call.at >= ?1 AND (?2 = '' OR tool.name = ?2);

-- name: process_of
SELECT id, pid, consumer, version, started_at, ended_at FROM process WHERE id = ?;

-- name: host_of
SELECT pid, boot FROM process WHERE id = ?;

-- name: gaps
SELECT process, started_at, ended_at, calls, reason FROM gap
WHERE ended_at >= ?1 AND started_at < ?2
ORDER BY started_at, id;

-- name: doubts
SELECT id FROM call WHERE state = 'in_doubt' AND settled_as IS NULL ORDER BY at;

-- name: doubt_of
SELECT state, settled_as, settled_by, settled_at FROM call WHERE id = ?;

-- name: find_conversation
SELECT id, model, process, created_at FROM conversation WHERE name = ?;

-- name: add_conversation
INSERT INTO conversation (id, name, consumer, model, format, process, created_at, updated_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?);

-- name: claim_conversation
UPDATE conversation SET process = ? WHERE id = ?;

-- name: touch_conversation
UPDATE conversation SET updated_at = ?, model = ?, process = ? WHERE id = ? AND name = ? AND created_at = ?;

-- name: release_conversation
UPDATE conversation SET process = NULL WHERE name = ? AND process = ?;

-- name: owners_of_conversations
SELECT DISTINCT process FROM conversation WHERE process IS NOT NULL;

-- name: end_conversations_of
-- A process that died between two turns leaves nothing to finish.
UPDATE conversation SET process = NULL
WHERE process = ?
  AND coalesce((SELECT role FROM message WHERE conversation = conversation.id ORDER BY seq DESC LIMIT 1), 'end') = 'end';

-- name: last_conversations
SELECT name, model, process FROM conversation
WHERE consumer = ? AND EXISTS (SELECT 1 FROM message WHERE message.conversation = conversation.id)
ORDER BY updated_at DESC, id DESC;

-- name: conversations
SELECT name, model, consumer, created_at, updated_at,
  (SELECT count(*) FROM message WHERE conversation = conversation.id),
  (SELECT count(*) FROM message WHERE conversation = conversation.id AND role = 'question'),
  (SELECT body FROM message WHERE conversation = conversation.id AND role = 'question' ORDER BY seq LIMIT 1)
FROM conversation
WHERE EXISTS (SELECT 1 FROM message WHERE message.conversation = conversation.id)
ORDER BY updated_at DESC, id DESC LIMIT ?;

-- name: count_conversations
SELECT count(*) FROM conversation
WHERE EXISTS (SELECT 1 FROM message WHERE message.conversation = conversation.id);

-- name: conversation_names
-- One without messages, such as that of an utterance that was answered, cannot be continued.
SELECT name FROM conversation
WHERE EXISTS (SELECT 1 FROM message WHERE message.conversation = conversation.id)
ORDER BY updated_at DESC LIMIT ?;

-- name: conversation_model
SELECT model FROM conversation WHERE name = ?;

-- name: messages_of_name
SELECT role, body, at FROM message
WHERE conversation = (SELECT id FROM conversation WHERE name = ?) ORDER BY seq;

-- name: messages_of
SELECT role, body, at FROM message WHERE conversation = ? ORDER BY seq;

-- name: add_message
INSERT OR REPLACE INTO message (conversation, seq, at, role, body) VALUES (?, ?, ?, ?, ?);

-- name: outcome_of_key
SELECT state, error, error_kind, side_effects FROM call WHERE key = ?;

-- name: old_conversations
-- One that a process has, or had when it died in the middle of a turn, is open and stays.
-- The newest stay whatever the clock says.
SELECT id FROM conversation
WHERE process IS NULL AND updated_at < ? AND id NOT IN (SELECT id FROM conversation ORDER BY updated_at DESC LIMIT 20)
ORDER BY updated_at LIMIT ?;

-- name: delete_messages_of
DELETE FROM message WHERE conversation = ?;

-- name: delete_conversation
DELETE FROM conversation WHERE id = ?;

-- name: claim_utterance
INSERT INTO utterance (source, id, at, process, conversation) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING;

-- name: find_utterance
SELECT process, conversation FROM utterance WHERE source = ? AND id = ?;

-- name: take_utterance
UPDATE utterance SET process = ? WHERE source = ? AND id = ?;

-- name: utterance_answered
UPDATE utterance SET process = NULL WHERE source = ? AND id = ?;

-- name: delete_messages_of_name
DELETE FROM message WHERE conversation = (SELECT id FROM conversation WHERE name = ?);

-- name: release_utterance
DELETE FROM utterance WHERE source = ? AND id = ?;

-- name: end_conversations_of_old_utterances
UPDATE conversation SET process = NULL WHERE name IN (SELECT conversation FROM utterance WHERE at < ?);

-- name: delete_old_utterances
DELETE FROM utterance WHERE at < ?;

-- name: expire_approvals
UPDATE approval SET state = 'expired'
WHERE state IN ('pending', 'allowed', 'denied') AND expires_at < ?;

-- name: find_answer
SELECT id, state, scope, edited, comment FROM approval
WHERE fingerprint = ?1 AND state IN ('allowed', 'denied') AND (scope = 'always' OR conversation = ?2)
ORDER BY scope = 'once' DESC, id DESC LIMIT 1;

-- name: use_answer
UPDATE approval SET state = 'used' WHERE id = ?;

-- name: find_request
SELECT id FROM approval WHERE fingerprint = ? AND conversation = ? AND state = 'pending';

-- name: add_request
INSERT INTO approval (
  state, fingerprint, conversation, tool, source, definition, arguments, withheld, reason, consumer, asked_at, expires_at
) VALUES ('pending', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: answer_request
UPDATE approval
SET state = ?, scope = ?, edited = ?, comment = ?, answered_by = ?, answered_at = ?, expires_at = ?
WHERE id = ? AND state = 'pending';

-- name: withdraw_request
UPDATE approval SET state = 'withdrawn' WHERE id = ? AND state = 'pending';

-- name: revoke_answer
UPDATE approval SET state = 'revoked' WHERE id = ? AND state IN ('allowed', 'denied');

-- name: approval
SELECT * FROM approval WHERE id = ?;

-- name: open_approvals
SELECT * FROM approval WHERE state IN ('pending', 'allowed', 'denied') AND expires_at >= ? ORDER BY id;

-- name: delete_old_approvals
-- An answer for always is kept for as long as it holds; so is one that a call on record was made by.
DELETE FROM approval WHERE id IN (
  SELECT id FROM approval
  WHERE asked_at < ?1 AND (state NOT IN ('pending', 'allowed', 'denied') OR expires_at < ?2)
    AND NOT EXISTS (SELECT 1 FROM call WHERE call.approval = approval.id)
  ORDER BY id LIMIT ?3
);
